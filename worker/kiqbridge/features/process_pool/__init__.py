"""The pool `process`: child processes that run jobs, for work that keeps a CPU busy or may crash.

For those who declare jobs with `pool="process"`, and for features that let a job run apart. Without such jobs a worker
has a thread that waits, and no child. A child is started afresh, never forked from a process with threads, and dies with
its worker; it must never decide what is written about a job that the pool runs.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, pools={"process": "pool:make"})
