"""Child processes that run jobs: the pool for `pool="process"`, and suspects that run alone.

The engine starts and stops them; a processor hands jobs to them. It must never send code over a
socket, and must never let a child outlive its worker.
"""
