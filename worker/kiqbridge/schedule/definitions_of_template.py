"""The rules of a template as schedule definitions: what its manifest, the lists and the look ahead work on."""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.errors import ConfigError
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.sourced import SourcedSchedule, block_of, ignored_codes, names_zone

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def sourced_schedules(
    schedules: "Iterable[TemplateSchedule]", text: str, *, source: str, stack_name: str
) -> list[SourcedSchedule]:
    """Schedules with file, line and the comments beside them.

    Args:
        schedules: as `read_schedules` gives them.
        text: of the template.
        source: how its file is shown.
        stack_name: under which their ticks are named.

    Raises:
        ConfigError: a policy in a tick cannot be read.
    """
    lines = text.splitlines()
    found = []
    for each in schedules:
        block = block_of(lines, each.line)
        found.append(
            SourcedSchedule(
                definition=definition_of(each, stack_name),
                source=source,
                line=each.line,
                kind=each.kind,
                function=each.function,
                names_zone=names_zone(block),
                ignored=ignored_codes(block),
            )
        )
    return found


def joined(first: ScheduleDefinition, other: ScheduleDefinition) -> ScheduleDefinition:
    """Two rules whose ticks have one name, as one schedule that is due when either is.

    Raises:
        ConfigError: they differ in more than their expression.
    """
    if replace(other, expression=first.expression, also=first.also) != first:
        raise ConfigError(
            f"schedule {first.name!r}: two rules share the name of its ticks, so of an instant at which both are "
            "due one is enqueued, but they differ in more than their expression: give them the same job, zone, "
            "bounds, state and policies, or let each tick have the name of its own event"
        )
    return replace(first, also=(*first.also, other.expression, *other.also), _parsed=[])


def _tick_of(schedule: "TemplateSchedule") -> dict[str, Any]:
    if not schedule.jobs or schedule.input is None:
        return {}
    tick = json.loads(schedule.input).get("tick")
    return tick if isinstance(tick, dict) else {}
