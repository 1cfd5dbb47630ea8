"""Jobs that may have killed their process run alone, one at a time in the whole fleet, in a child process.

For all who must not lose their workers to one job, and not blame a job for its neighbour. While there is no suspect a
worker has a thread that waits. A worker without it leaves suspects where they are, and is not ready while there are
some. It must never parse a suspect in the worker itself, and blame a job only if its child died while the worker lived.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, in_child="suspect_run:run_alone", worker="roles:roles")
