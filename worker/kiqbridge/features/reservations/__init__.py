"""Jobs with `max_run_s`: one that runs longer is taken away from its worker, and its thread replaced if it hangs.

For those whose jobs may hang in C or in a call that never answers. Without such a class a worker has no thread for it, and
nothing is done for a job. It must never let a job run in two places without having interrupted the first, nor charge it
for what the worker did.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, worker="reservations:roles")
