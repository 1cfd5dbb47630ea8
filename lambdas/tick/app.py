"""The tick function: each minute it places what dynamic schedules let happen next.

The leader of the workers does the same; this is for fleets in which no Python worker may live. The thinking is
in `kiqbridge.features.dynamic`; here is the warm environment.
"""

import functools
import os
from typing import Any

from kiqbridge.aws.minutely import Invocation, Minutely


@functools.cache
def tick() -> Minutely:
    """The one of this warm environment."""
    return Minutely("tick", os.environ, place, ["dynamic"])


def lambda_handler(event: Any, context: Any) -> Any:
    """Evaluate the dynamic schedules, and place the jobs of their next occurrences.

    Returns:
        What was done; the same is in the log.
    """
    return tick().handle(event, context)


def place(turn: Invocation) -> dict[str, Any]:
    """One evaluation, measured."""
    report = turn.do_chores()["dynamic schedules"]
    turn.measure({"SchedulesEvaluated": report.evaluated, "JobsPlaced": report.placed})
    return {
        "schedules": report.schedules,
        "evaluated": report.evaluated,
        "placed": report.placed,
        "missed": [{"schedule": name, "at": instant} for name, instant in report.missed],
        "conflicts": report.conflicts,
    }
