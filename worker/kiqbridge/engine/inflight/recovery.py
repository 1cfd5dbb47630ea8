"""Finding processes that died, callable from anywhere, a Lambda included; their jobs go back.

A process gives a sign of life every few seconds, and each sign differs from the one before. The
reaper acts on an incarnation only after it has seen one and the same sign, or none, in every look for
as long as the owner may be silent and a while longer, on its own monotonic clock and without a look
missing: after an outage of Redis everybody looks silent, and the first one back must not reap the
whole fleet. No wall clocks are compared, and no key that Redis may have evicted is proof of a death.

It also counts how often each job was found so. Most are innocent, since a deploy, a full memory or a
neighbour ends a process as well; one that was found too often becomes a suspect, and a worker lets it
run alone (isolation.py).

A worker's reaper looks all the time. The command line and the monitor function begin from nothing: they `watch` for
as long as the reaper must have seen one and the same sign of life, and end.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import NamedTuple

from kiqbridge.engine.inflight.incarnations import Incarnation, SignOfLife
from kiqbridge.engine.inflight.reaping import ORPHAN_LIMIT, UNFINISHED, Outcome, Reaping
from kiqbridge.errors import KiqbridgeError, RedisRefused
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import LAYOUT, Keys, layout_of
from kiqbridge.wire.names import shown, text_of

logger = logging.getLogger(__name__)

LONGEST_PAUSE_S = 1.0
"""Between two looks of `watch`; shorter ones if the whole watch is short."""

SILENT_AFTER_S = 10.0
"""How long an owner may be silent, if its own sign does not give it."""

WATCH_FOR_S = 8.0
"""How much longer it must be seen silent; also how far apart two looks may be at most."""


WATCH_SHARE = WATCH_FOR_S / SILENT_AFTER_S
"""An owner is watched for at most this part of the time that it may be silent, beyond that time, and as long
as that the looks may be apart: it may have promised an earlier recovery than who watches it."""


class _Sight(NamedTuple):
    """A sign of life, and since when every look has found just that one."""

    beat: bytes | None
    since: float


class Reaped(NamedTuple):
    """When the jobs of a process were given back, on the reaper's clock, and what came of it."""

    at: float
    incarnation: str
    outcome: Outcome


@dataclass(eq=False, repr=False)
class Reaper:
    """Looks for silent incarnations and gives their jobs back.

    Args:
        connection: its own.
        keys: the namespace.
        watch_for_s: seconds that an owner must be seen silent beyond what it may be, or less as its own
            sign asks for (`WATCH_SHARE`); looks that are further apart do not count as one watch.
        silent_after_s: how long an owner may be silent whose sign does not give it.
        orphan_limit: how often a job may be found orphaned until it is a suspect.
        clock: seconds that cannot be set.
        on_rescue: gets the name and the outcome of each incarnation that was silent for too long,
            each time that some of its jobs went back.

    Attributes:
        last: the last process whose jobs were given back here.
        seen: the sign of life of each incarnation at the last look.
    """

    connection: RedisConnection
    keys: Keys
    _: KW_ONLY
    watch_for_s: float = WATCH_FOR_S
    silent_after_s: float = SILENT_AFTER_S
    orphan_limit: int = ORPHAN_LIMIT
    clock: Callable[[], float] = lease_now
    on_rescue: "Callable[[str, Outcome], object] | None" = None

    def __post_init__(self) -> None:
        self._on_rescue = self.on_rescue or self._log_rescue
        self._reaping = Reaping(self.connection, self.keys, orphan_limit=self.orphan_limit)
        self._sights: dict[str, _Sight] = {}
        self._looked_at: float | None = None
        self._go_on_at: dict[str, float] = {}
        self._reported: set[tuple[str, str]] = set()
        self.last: Reaped | None = None
        self._unknown: set[str] = set()

    @property
    def seen(self) -> dict[str, bytes | None]:
        """The sign of life of each incarnation at the last look."""
        return {name: sight.beat for name, sight in self._sights.items()}

    @property
    def strictest_s(self) -> float:
        """How long that owner of all may be silent that may be so for the shortest time."""
        return min(
            (self._may_be_silent(sight.beat) for sight in self._sights.values()),
            default=self.silent_after_s,
        )

    def look(self, own: str = "") -> int:
        """Look once; reap the workers that every look has found silent for long enough.

        Returns:
            How many are under suspicion now, silent for longer than they may be: look again soon.

        Raises:
            KiqbridgeError: the watch of everybody starts anew, since a look is missing.
        """
        try:
            asked_at = self.clock()
            registered, reaping = (
                {text_of(name) for name in members}
                for members in self.connection.run(
                    ("SMEMBERS", self.keys.inflight), ("SMEMBERS", self.keys.reaping)
                )
            )
            suspects = self._note(registered - {own}, asked_at)
            for name in suspects:
                sight = self._sights[name]
                may_be_silent = self._may_be_silent(sight.beat)
                if asked_at - sight.since >= may_be_silent + self._watch_for(may_be_silent):
                    self._rescue(name, sight.beat)
            self._go_on(reaping - {own})
            self._looked_at = self.clock()
        except KiqbridgeError:
            self.forget_suspects()
            raise
        return len(suspects & self._sights.keys())

    def forget_suspects(self) -> None:
        """Start watching anew: a look is missing."""
        self._sights.clear()
        self._looked_at = None

    def reap(self, incarnation: str, beat: bytes | None = None, *, by_owner: bool = False) -> int:
        """Give back everything that an incarnation holds and end its lease; see `Reaping.reap`.

        Returns:
            How many jobs went back to their queues or became suspects; below 0 when nothing was
            done (gone already, `ALIVE`, of `UNKNOWN_LAYOUT`).
        """
        outcome = self._reaping.reap(incarnation, beat, by_owner=by_owner)
        self._noted(incarnation, outcome)
        if outcome.code < 0 and outcome.code != UNFINISHED:
            return outcome.code
        return outcome.returned + outcome.suspected

    def go_on(self, incarnation: str) -> Outcome:
        """Finish a reap that was begun, by any process."""
        return self._noted(incarnation, self._reaping.go_on(incarnation))

    def adopt(self, incarnation: str, tids: Sequence[str]) -> Outcome:
        """Give back what claimers of an incarnation hold that is not registered."""
        return self._noted(incarnation, self._reaping.adopt(incarnation, tids))

    def _note(self, names: set[str], asked_at: float) -> set[str]:
        """Compare the signs of life with those of the last look; who is silent for too long."""
        ordered = sorted(names)
        beats = self.connection.call("HMGET", self.keys.alive, *ordered) if ordered else []
        now = self.clock()
        # Who may have given a sign in vain since the last look is watched anew.
        apart = 0.0 if self._looked_at is None else now - self._looked_at
        before, self._sights = self._sights, {}
        silent: set[str] = set()
        for name, beat in zip(ordered, beats, strict=True):
            sight = before.get(name)
            if sight is None or sight.beat != beat:
                self._sights[name] = _Sight(beat, now)
                continue
            may_be_silent = self._may_be_silent(beat)
            if apart > self._watch_for(may_be_silent):
                self._sights[name] = _Sight(beat, now)
                continue
            self._sights[name] = sight
            if asked_at - sight.since >= may_be_silent:
                silent.add(name)
        return silent - self._warn_of_unknown(silent)

    def _watch_for(self, may_be_silent: float) -> float:
        return min(self.watch_for_s, may_be_silent * WATCH_SHARE)

    def _may_be_silent(self, beat: bytes | None) -> float:
        sign = SignOfLife.parse(beat)
        return self.silent_after_s if sign is None else sign.silent_after_s

    def _warn_of_unknown(self, silent: set[str]) -> set[str]:
        """Log a warning for incarnations whose layout is unknown."""
        unknown = {name for name in silent if layout_of(name) != LAYOUT}
        for name in unknown - self._unknown:
            logger.warning(
                "process %s gives no sign of life that this version knows, and its layout %s is unknown to "
                "it, which knows %s: if it died, the jobs that it holds stay there until a worker of a "
                "version that knows that layout gives them back; start one",
                shown(name),
                shown(layout_of(name)),
                LAYOUT,
            )
        self._unknown = unknown
        return unknown

    def _rescue(self, incarnation: str, beat: bytes | None) -> None:
        outcome = self._tried(incarnation, partial(self._reaping.reap, incarnation, beat))
        self._sights.pop(incarnation, None)
        if outcome.code >= 0 or outcome.code == UNFINISHED:
            self._on_rescue(incarnation, outcome)
        if outcome.code == UNFINISHED:
            self._go_on_at[incarnation] = self.clock() + self.watch_for_s

    def _go_on(self, reaping: set[str]) -> None:
        """Finish what others have begun, or what was blocked, after giving it some time."""
        now = self.clock()
        known = {name for name in reaping if layout_of(name) == LAYOUT}
        known |= {name for name, at in self._go_on_at.items() if at > now}  # also of this very look
        self._go_on_at = {
            name: self._go_on_at.get(name, now + self.watch_for_s / 4) for name in known
        }
        for name, at in list(self._go_on_at.items()):
            if now < at:
                continue
            outcome = self._tried(name, partial(self._reaping.go_on, name))
            self._go_on_at[name] = self.clock() + self.watch_for_s
            if outcome.returned or outcome.suspected:
                self._on_rescue(name, outcome)

    def _tried(self, incarnation: str, reap: Callable[[], Outcome]) -> Outcome:
        try:
            outcome = reap()
        except (RedisRefused, ValueError) as error:  # others must not wait for it
            outcome = Outcome(UNFINISHED, blocked=(str(error),))
        return self._noted(incarnation, outcome)

    def _noted(self, incarnation: str, outcome: Outcome) -> Outcome:
        """Warn of what cannot go back, once until it can."""
        if outcome.code >= 0 or outcome.code == UNFINISHED:
            self.last = Reaped(self.clock(), incarnation, outcome)
        blocked = {(incarnation, why) for why in outcome.blocked}
        for _, why in sorted(blocked - self._reported):
            logger.warning(
                "process %s is gone, and some of its jobs cannot go back: %s; they stay in flight, and it is "
                "tried again every %.0f s",
                shown(incarnation),
                why,
                max(self.watch_for_s, 1.0),
            )
        others = {each for each in self._reported if each[0] != incarnation}
        self._reported = others | blocked
        return outcome

    def _log_rescue(self, incarnation: str, outcome: Outcome) -> None:
        logger.warning(
            "process %s died: %d of its jobs went back to their queues",
            shown(incarnation),
            outcome.returned,
            extra={"incarnation": shown(incarnation), "returned": outcome.returned},
        )
        if outcome.suspected:
            logger.warning(
                "%d more were found orphaned %d times and may be what ends their processes: each runs "
                "alone in a child process next, on a worker that serves its queue",
                outcome.suspected,
                self.orphan_limit,
            )


def may_be_silent_s(each: Incarnation, otherwise_s: float) -> float:
    """How long the owner of a lease may be silent; `otherwise_s` if its own sign does not say it."""
    sign = SignOfLife.parse(each.beat)
    return otherwise_s if sign is None else sign.silent_after_s


def watch(
    reaper: Reaper,
    silent: Sequence[Incarnation],
    *,
    for_s: float,
    until_s: float,
    goes_on: Callable[[Sequence[Incarnation], float], bool],
) -> list[Incarnation]:
    """Let a reaper look until all of these were rescued or gave a sign of life.

    Args:
        reaper: looks, as that of a worker does.
        silent: the incarnations to watch.
        for_s: how long the longest of them must be seen silent.
        until_s: when to give up, in seconds from now: looks may be missing, so that a watch begins anew.
        goes_on: gets those that are left, and the seconds so far, after each look; False ends the watch.

    Returns:
        Those that are left.

    Raises:
        RedisUnavailable: a look was not answered.
    """
    began = lease_now()
    left = list(silent)
    while left:
        reaper.look()
        seen = reaper.seen
        left = [each for each in left if each.name in seen and seen[each.name] == each.beat]
        watched = lease_now() - began
        if not left or watched > until_s or not goes_on(left, watched):
            break
        time.sleep(min(LONGEST_PAUSE_S, for_s / 8))
    return left
