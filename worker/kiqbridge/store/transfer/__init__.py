"""Queues and sets on their way between servers: read or taken from one, kept in a file, put into another.

`kiqbridge export` and `kiqbridge restore` call it. Bytes, scores and order stay as they are, whoever wrote
them. What jobs need besides their text goes with them. Each step can be repeated after a kill at any moment.
It must never change a job, remove one that is not safely written, or put one in twice.
"""
