"""Which occurrences of a dynamic schedule are to be enqueued now, and which were missed. Pure.

All occurrences up to the schedule's cursor are decided. From there to a moment ahead of now:

    cursor ……… missed ……… | late ……… now ……… ahead ……… | until
           (older than grace_s)   (placed, due at once)  (placed, each at its second)

What was missed follows the schedule's policy: `alert` places none, `last` the newest one, `all` those that are
not older than the maximum age. Of an interval shorter than the grace time many occurrences come due in an outage
of less than that: unless the policy is `all`, the newest one is placed, and the others were missed.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from kiqbridge.runtime.records import dataclass
from kiqbridge.schedule.cron import Rate
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import ScheduleState

LATE_S: Final = 3600.0
"""Seconds after its instant from which an occurrence is not enqueued any more, of a schedule that has no maximum
age: a fleet that was away for a night shall not begin the day with what belongs to the evening."""

MOST: Final = 500
"""Occurrences of one schedule that are decided at once: a rate of seconds after a long absence has many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done for one schedule.

    Attributes:
        place: instants to enqueue, ascending.
        missed: instants that did not come in time; those that are enqueued all the same are in `place` too.
            Of those that are older than the maximum age only the newest one.
        cursor: up to which all is decided then; None: nothing was decided.
        next_at: the first instant after that; None: never, until the schedule or its state is changed.
    """

    place: Sequence[int] = ()
    missed: Sequence[int] = ()
    cursor: int | None = None
    next_at: int | None = None


def decide(
    definition: ScheduleDefinition,
    state: ScheduleState,
    *,
    cursor: int,
    now: float,
    until: int,
    most: int = MOST,
) -> Decision:
    """What is to be done about the occurrences after `cursor` up to `until` (epoch seconds).

    Raises:
        ExpressionError: the expression cannot be read.
    """
    pause = state.pause_at(now)
    if not definition.enabled or (pause is not None and pause.until is None):
        return Decision()
    begin = cursor
    if state.paused is not None and state.paused.until is not None:
        # What came due during the pause is not caught up; an occurrence at its very end is due.
        begin = max(begin, math.ceil(state.paused.until) - 1)
    age = LATE_S if definition.max_age_s is None else definition.max_age_s
    oldest = math.floor(now - age)
    missed: list[int] = []
    if begin < oldest:
        last = definition.when.latest_at_or_before(_moment(oldest))
        if last is not None and last.timestamp() > begin:
            missed.append(int(last.timestamp()))
        begin = oldest
    found = _instants(definition, begin, until, most + 1)
    instants, beyond = found[:most], found[most:]
    late_from = now - min(definition.grace_s, age)
    over = [each for each in instants if each < late_from]
    place = [each for each in instants if each >= late_from]
    missed += over
    is_newest_known = not beyond or beyond[0] > now
    if definition.missed == "all":
        place = instants
    elif definition.missed == "last" and is_newest_known and not (place and place[0] <= now):
        place = [*over[-1:], *place]
    late = [each for each in place if each <= now]
    if len(late) > 1 and definition.missed != "all" and isinstance(definition.when, Rate):
        passed = len(late) - is_newest_known
        missed += late[:passed]
        place = place[passed:]
    skipped = set(state.skipped)
    end = (instants[-1] if beyond else until) if instants or missed else None
    following = definition.when.next_after(_moment(begin if end is None else max(end, begin)))
    return Decision(
        place=[each for each in place if each not in skipped],
        missed=[each for each in missed if each not in skipped],
        cursor=end,
        next_at=None if following is None else int(following.timestamp()),
    )


def next_instants(
    definition: ScheduleDefinition, state: ScheduleState, *, after: float, count: int
) -> list[int]:
    """The next occurrences that are not skipped yet, strictly after `after` (epoch seconds), at most `count`.

    Raises:
        ExpressionError: the expression cannot be read.
    """
    when = definition.when
    coming = when.between(datetime.fromtimestamp(after, UTC), when.bounds.last)
    instants = (int(due.timestamp()) for due in coming)
    return list(islice((each for each in instants if each not in state.skipped), count))


def _instants(definition: ScheduleDefinition, begin: int, until: int, most: int) -> list[int]:
    """Occurrences after `begin` up to `until`, at most so many."""
    due = definition.when.between(_moment(begin), _moment(until))
    return [int(each.timestamp()) for each in islice(due, most)]


def _moment(instant: int) -> datetime:
    return datetime.fromtimestamp(instant, UTC)
