"""What fires differently between two sets of schedules, such as the template before and after a change."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kiqbridge.features.lint.simulation import DAY_S, occurrences
from kiqbridge.schedule.definition import ScheduleDefinition

ChangeKind = Literal[
    "added", "removed", "enabled", "disabled", "moved", "later", "job", "policy", "rewritten"
]
"""`moved`: the same name fires at other instants; `later`: not within the days looked at, but within a year
after them; `rewritten`: written in another way, and nothing fires differently."""

_POLICIES: Final = ("missed", "max_age_s", "grace_s", "overlap", "jitter_s")
_FURTHER_DAYS: Final = 366
_MOST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is different about one schedule.

    Attributes:
        name: of the schedule.
        kinds: what is different.
        old, new: the definitions; None where there is none.
        lost: how many instants only the old one fires at, within the days looked at.
        gained: how many only the new one.
        first_lost, first_gained: the first ones, epoch seconds.
        later_at: the first instant after those days at which they differ; None = they do not, for a year.
        details: each difference of job and policy, such as `queue: low -> default`.
    """

    name: str
    kinds: Sequence[ChangeKind]
    old: ScheduleDefinition | None
    new: ScheduleDefinition | None
    lost: int = 0
    gained: int = 0
    first_lost: Sequence[int] = ()
    first_gained: Sequence[int] = ()
    later_at: int | None = None
    details: Sequence[str] = ()

    @property
    def is_different(self) -> bool:
        """Whether something fires differently, or something else is enqueued."""
        return list(self.kinds) != ["rewritten"]


def plan(
    old: Mapping[str, ScheduleDefinition],
    new: Mapping[str, ScheduleDefinition],
    *,
    start: int,
    days: int,
) -> list[Change]:
    """The schedules that are different, those of `new` in its order, then those that are gone.

    Args:
        old, new: definitions by name.
        start: epoch seconds; included.
        days: how far to look.

    Raises:
        ExpressionError: an expression cannot be read.
    """
    names = dict.fromkeys([*new, *old])
    found = (_change(name, old.get(name), new.get(name), (start, days)) for name in names)
    return [each for each in found if each is not None]


def _change(
    name: str,
    old: ScheduleDefinition | None,
    new: ScheduleDefinition | None,
    window: tuple[int, int],
) -> Change | None:
    if old == new:
        return None
    start, days = window
    end = start + days * DAY_S
    before, after = (_instants(each, start, end) for each in (old, new))
    lost, gained = sorted(before - after), sorted(after - before)
    kinds: list[ChangeKind] = []
    details: list[str] = []
    later_at: int | None = None
    if old is None or new is None:
        kinds.append("added" if old is None else "removed")
    else:
        if old.enabled != new.enabled:
            kinds.append("enabled" if new.enabled else "disabled")
        elif lost or gained:
            kinds.append("moved")
        elif old.enabled and _timing(old) != _timing(new):
            later_at = _first_difference(old, new, end)
            kinds += [] if later_at is None else ["later"]
        jobs, policies = _job_details(old, new), _policy_details(old, new)
        kinds += ["job"] if jobs else []
        kinds += ["policy"] if policies else []
        details = [*jobs, *policies]
    if not kinds and old is not None and new is not None and _timing(old) == _timing(new):
        return None  # the origin alone is different
    return Change(
        name=name,
        kinds=kinds or ["rewritten"],
        old=old,
        new=new,
        lost=len(lost),
        gained=len(gained),
        first_lost=lost[:_MOST],
        first_gained=gained[:_MOST],
        later_at=later_at,
        details=details,
    )


def _instants(definition: ScheduleDefinition | None, start: int, end: int) -> set[int]:
    if definition is None or not definition.enabled:
        return set()
    return set(occurrences(definition.when, start, end))


def _timing(definition: ScheduleDefinition) -> tuple[object, ...]:
    return definition.expression, definition.timezone, definition.start, definition.end


def _first_difference(old: ScheduleDefinition, new: ScheduleDefinition, start: int) -> int | None:
    """The first instant of the year from `start` on that only one of them has."""
    end = start + _FURTHER_DAYS * DAY_S
    pairs = itertools.zip_longest(
        occurrences(old.when, start, end), occurrences(new.when, start, end)
    )
    for one, other in pairs:
        if one != other:
            return min(each for each in (one, other) if each is not None)
    return None


def _job_details(old: ScheduleDefinition, new: ScheduleDefinition) -> list[str]:
    if len(old.jobs) != len(new.jobs):
        return [f"jobs: {len(old.jobs)} -> {len(new.jobs)}"]
    details = []
    for index, (one, other) in enumerate(zip(old.jobs, new.jobs, strict=True)):
        place = f"jobs[{index}]." if len(new.jobs) > 1 else ""
        for key in dict.fromkeys([*one, *other]):
            default = "default" if key == "queue" else None
            before, after = one.get(key, default), other.get(key, default)
            if before != after:
                details.append(f"{place}{key}: {_shown(before)} -> {_shown(after)}")
    return details


def _policy_details(old: ScheduleDefinition, new: ScheduleDefinition) -> list[str]:
    return [
        f"{name}: {_shown(getattr(old, name))} -> {_shown(getattr(new, name))}"
        for name in _POLICIES
        if getattr(old, name) != getattr(new, name)
    ]


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value, default=str)
