"""A schedule together with where it was read: what lists, checks and simulations work on.

Also what a file says beside it that its values do not (comments for the check, a zone that is written down), and the
rules of a template as definitions.
"""

import itertools
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.errors import ConfigError
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import ScheduleState
from kiqbridge.wire.names import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kiqbridge.schedule.template import TemplateSchedule

POLICIES: Final = ("missed", "grace_s", "max_age_s", "overlap")
"""Members that the `tick` of an Input may have beside `schedule` and `at`."""
_IGNORE: Final = re.compile(r"#\s*lint:\s*ignore\s+([A-Z]{2}[0-9]{3}(?:[\s,]+[A-Z]{2}[0-9]{3})*)")
_ZONE: Final = re.compile(r"([^#]*[\s{,])?[\"']?(ScheduleExpressionTimezone|timezone)[\"']?\s*:")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedSchedule:
    """A definition and its place.

    Attributes:
        definition: the schedule.
        source: a path, or `Redis`.
        line: of its beginning in the file, counted from 1; None = it has none.
        kind: of a template's event, `ScheduleV2` or `Schedule`; "" for others.
        function: logical id of the function that a template's event calls; "" for others.
        names_zone: whether a zone is written down; False = UTC, because nothing was.
        ignored: codes of findings that a comment beside it switches off.
        state: that it is paused, or what is skipped, if Redis was asked.
    """

    definition: ScheduleDefinition
    source: str
    line: int | None = None
    kind: str = ""
    function: str = ""
    names_zone: bool = True
    ignored: frozenset[str] = frozenset()
    state: ScheduleState = field(default_factory=ScheduleState)

    @property
    def name(self) -> str:
        """Of the schedule."""
        return self.definition.name

    @property
    def shown_name(self) -> str:
        """The name for people: any bytes may be one in Redis."""
        return shown(self.name)

    @property
    def place(self) -> str:
        """The source, and the line in it."""
        return self.source if self.line is None else f"{self.source}:{self.line}"

    @property
    def classes(self) -> str:
        """The classes of its jobs, or the function of a rule that enqueues none."""
        return ", ".join(self.definition.classes) or f"function {self.function}"

    @property
    def queues(self) -> str:
        """The queues of its jobs."""
        return ", ".join(self.definition.queues)


def sourced(
    definition: ScheduleDefinition, text: str, line: int, *, source: str, **more: str
) -> SourcedSchedule:
    """A definition at a line of a YAML file; what is beside it are comments above its key, and what is indented below.

    Args:
        definition: the schedule.
        text: of the file.
        line: that of the key, counted from 1.
        source: how the file is shown.
        more: other members.
    """
    lines = text.splitlines()
    first = line - 1
    depth = _depth(lines[first])
    below = itertools.takewhile(lambda each: not each.strip() or _depth(each) > depth, lines[line:])
    above = itertools.takewhile(lambda each: each.lstrip().startswith("#"), reversed(lines[:first]))
    block = [*above, lines[first], *below]
    ignored = " ".join(match[1] for each in block if (match := _IGNORE.search(each)))
    return SourcedSchedule(
        definition=definition,
        source=source,
        line=line,
        names_zone=any(map(_ZONE.match, block)),
        ignored=frozenset(re.findall(r"[A-Z]{2}[0-9]{3}", ignored)),
        **more,  # type: ignore[arg-type]
    )


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())


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
    return [
        sourced(
            definition_of(each, stack_name),
            text,
            each.line,
            source=source,
            kind=each.kind,
            function=each.function.name,
        )
        for each in schedules
    ]


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
