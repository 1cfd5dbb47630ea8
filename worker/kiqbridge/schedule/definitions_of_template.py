"""The rules of a template as schedule definitions: what its manifest, the lists and the look ahead work on."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.schedule.definition import ScheduleDefinition

if TYPE_CHECKING:
    from kiqbridge.schedule.template import TemplateSchedule

POLICIES: Final = ("missed", "grace_s", "max_age_s", "overlap")
"""Members that the `tick` of an Input may have beside `schedule` and `at`."""


def definition_of(schedule: "TemplateSchedule", stack: str) -> ScheduleDefinition:
    """One rule of a template as a definition, named as its ticks name it: `STACK/LogicalId`.

    A rule of a function that is not the enqueue function has no jobs. The expression of a rate keeps no
    start if the template gives none: AWS counts it from its deployment, which the template does not know.

    Raises:
        ConfigError: a policy in its tick cannot be read.
    """
    tick = _tick_of(schedule)
    name = str(tick.get("schedule", f"{stack}/{schedule.name}"))
    jobs = [{key: job[key] for key in job if key != "tick"} for job in schedule.jobs]
    document: dict[str, Any] = {
        "expression": schedule.expression_text,
        "timezone": schedule.timezone,
        # Replaced below: a definition that is read has jobs, one of another function has none.
        "jobs": jobs or [{}],
        "origin": "template",
        "enabled": schedule.enabled,
        "start": schedule.start and schedule.start.isoformat(),
        "end": schedule.end and schedule.end.isoformat(),
        **{member: tick[member] for member in POLICIES if member in tick},
    }
    found = ScheduleDefinition.from_document(name, document)
    # A tick is not late before the flexible window is over.
    found = replace(found, grace_s=found.grace_s + 60 * schedule.window_minutes)
    return found if jobs else replace(found, jobs=())


def definitions_of(
    schedules: Iterable["TemplateSchedule"], stack: str
) -> dict[str, ScheduleDefinition]:
    """Those rules of a template that enqueue, by the name of their ticks.

    Raises:
        ConfigError: as `definition_of`.
    """
    found = (definition_of(schedule, stack) for schedule in schedules)
    return {each.name: each for each in found if each.jobs}


def _tick_of(schedule: "TemplateSchedule") -> dict[str, Any]:
    if not schedule.jobs or schedule.input is None:
        return {}
    tick = json.loads(schedule.input).get("tick")
    return tick if isinstance(tick, dict) else {}
