"""Which ticks should have come: of the schedules of published manifests, and of dynamic ones that lag behind.

A schedule is expected since it was published as it is now; not while it is disabled, paused, or for an
instant that somebody skipped.
"""

import functools
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kiqbridge.client.known_schedules import parsed
from kiqbridge.runtime.records import dataclass
from kiqbridge.schedule.cron import Rate
from kiqbridge.schedule.definition import DEFAULT_GRACE_S, ScheduleDefinition
from kiqbridge.schedule.state import ScheduleState
from kiqbridge.store.manifests import manifests_of
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.tick_mark import Missed

DAY_S: Final = 86_400
LOOK_BACK_S: Final = float(DAY_S)
"""How far a check looks back at most, unless a schedule enqueues what is older."""

AGAIN_S: Final = 600.0
"""Each check looks again at what came due so shortly before the last one: a push may have failed."""

KEEP_S: Final = 17 * DAY_S
"""How long a missed tick is remembered: as long as the ledger remembers the others."""

MOST: Final = 2_000
"""Occurrences of one schedule that one check looks at: the newest ones."""

MINUTE: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A schedule whose ticks are expected.

    Attributes:
        definition: what it is.
        since: epoch seconds after which they are.
        state: its pause and what is skipped, as in `kb:schedules:state`.
    """

    definition: ScheduleDefinition
    since: float
    state: ScheduleState = field(default_factory=ScheduleState)

    @property
    def name(self) -> str:
        """Of the schedule."""
        return self.definition.name

    @property
    def policy(self) -> Missed:
        """What is done about a tick that did not come, by who watches.

        A dynamic schedule is enqueued by who places it. Of a rate without a start only AWS knows the
        instants: one that is enqueued here could fire twice.
        """
        if self.definition.origin != "template" or self.counts_from_unknown:
            return "alert"
        return self.definition.missed

    @property
    def counts_from_unknown(self) -> bool:
        """Whether it is a rate that AWS counts from its deployment."""
        found = self.definition
        return found.origin == "template" and found.start is None and isinstance(found.when, Rate)

    def window(self, now: float, last: float | None) -> tuple[float, float]:
        """Bounds of the instants that are to be looked at: low < instant <= high, epoch seconds.

        `last` is when it was looked at before.
        """
        found = self.definition
        back = LOOK_BACK_S
        if self.policy != "alert":
            back = min(max(back, found.max_age_s or 0.0), KEEP_S - DAY_S)
        low = max(self.since, now - back - found.grace_s)
        if last is not None:
            low = max(low, min(last, now) - found.grace_s - AGAIN_S)
        return low, now - found.grace_s

    def instants(self, low: float, high: float, newest: int | None = None) -> list[int]:
        """Those that were due in low < instant <= high, ascending, as ticks name them.

        Args:
            low, high: epoch seconds.
            newest: instant of its last entry in the ledger; a rate without a start goes on from there.
        """
        if high <= low:
            return []
        when = self.definition.when
        found: Iterable[int]
        if isinstance(when, Rate) and self.counts_from_unknown:
            begin = int(self.since) if newest is None else newest
            found = _steps(begin, when.period_s, low, high)
        else:
            moments = when.between(_moment(low), _moment(high))
            found = (int(each.timestamp()) for each in moments)
        if self.definition.origin == "template":
            found = (each // MINUTE * MINUTE for each in found)
        return [each for each in deque(found, maxlen=MOST) if not self.state.excuses(each)]


class Expectations(NamedTuple):
    """What is watched.

    Attributes:
        now: epoch seconds, on the clock of Redis.
        last: when the last complete check was; None = there was none.
        schedules: those that are watched.
    """

    now: float
    last: float | None
    schedules: list[Watched]


def read_watched(connection: RedisLike, keys: Keys, now: float | None = None) -> Expectations:
    """The schedules whose ticks are expected, in two round trips.

    Args:
        connection: to Redis.
        keys: names of keys.
        now: epoch seconds; None = by the clock of Redis.

    Raises:
        RedisUnavailable: nothing was read.
    """
    time, manifests, cursors, last = connection.run(
        ("TIME",), ("HGETALL", keys.manifests), ("HGETALL", keys.cursors), ("GET", keys.watched)
    )
    now = server_time(time) if now is None else now
    expected: dict[str, float] = {}
    for manifest in manifests_of(manifests).values():
        expected |= dict.fromkeys(manifest.names, 0.0)
    for dynamic, until in pairs_of(cursors).items():
        if float(until) < now - DEFAULT_GRACE_S:  # one that is placed ahead is not late
            expected[text_of(dynamic)] = float(until)
    schedules: list[Watched] = []
    if expected:
        texts, states = connection.run(
            ("HMGET", keys.schedules, *expected), ("HMGET", keys.schedule_states, *expected)
        )
        for (name, cursor), text, state in zip(expected.items(), texts, states, strict=True):
            read = None if text is None else _definition(name, text)
            if read is not None:
                definition, since = read
                if definition.origin != "template":
                    since = max(since, cursor)
                known = ScheduleState.from_text(state)
                schedules.append(Watched(definition=definition, since=since, state=known))
    return Expectations(now, float(last) if last else None, schedules)


@functools.lru_cache(maxsize=1024)
def _definition(name: str, text: bytes) -> tuple[ScheduleDefinition, float] | None:
    """A schedule that is to fire, and since when; None: it is not, or it cannot be read."""
    definition = parsed(name, text, with_expression=True)
    if definition is None or not definition.enabled:
        return None
    document = json_text.loads(text)
    # The deliveries of a rule on the event bus carry no tick, so the ledger does not know them.
    if document.get("ticks") is False:
        return None
    since = document.get("since")
    return definition, float(since) if isinstance(since, int | float) else 0.0


def _steps(begin: int, period_s: int, low: float, high: float) -> Iterator[int]:
    """Instants that lie whole periods after `begin`, with low < instant <= high."""
    first = begin + max(1, int((low - begin) // period_s + 1)) * period_s
    return itertools.takewhile(lambda each: each <= high, itertools.count(first, period_s))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
