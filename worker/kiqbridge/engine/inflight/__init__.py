"""Who holds which job, and what becomes of the jobs of a process that died: claims, leases, recovery.

The performing half claims and acknowledges through it; the leader and `kiqbridge recover`
return jobs with it. It must never parse a job, or move one except by a script that can be repeated.
"""
