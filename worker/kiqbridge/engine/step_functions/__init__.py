"""Step Functions as a worker talks to it: outcomes and heartbeats of jobs that a state machine waits for.

The engine starts and stops what is here. It must never decide what becomes of a job, hold up a thread that
runs jobs, or let a task token into a log line or a message.
"""
