"""Scale-in protection of a task of ECS while one of its jobs has been running for long.

For workers on ECS whose jobs take longer than the service waits; asked for by `ecs_protect_after_s`. It must never hold up
a job or the end of the process: a request that is not answered is tried again.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__, settings=["ecs_protect_after_s"], worker="protection:roles")
