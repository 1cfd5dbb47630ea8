"""What becomes of a job that has run: counted, decided (retry, dead, discard), written, reported.

The performing half, the child processes and the engine call it. It must never run a job, and must
never acknowledge one before what becomes of it is written.
"""
