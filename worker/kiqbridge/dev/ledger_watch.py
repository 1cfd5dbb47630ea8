"""The ledger of a run of `kiqbridge dev`: each tick's entry as a line, once its jobs have ended, and sums.

What was delivered is followed in the ledger itself: which clock enqueued it, when, how often it came, and how
its jobs ended. At most one line a second is shown for a rule; entries that ended meanwhile are counted in it.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final

from kiqbridge.dev.console import Console
from kiqbridge.dev.firing import SIMULATED, SimulatedClock
from kiqbridge.errors import KiqbridgeError
from kiqbridge.store.ledger import LedgerEntry, read_ledger
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd

_AHEAD_S: Final = 1.0
"""A tick that came so much before its instant was placed ahead; less are two clocks, or roundings."""
LINE_EVERY_S: Final = 1.0
LOOK_EVERY_S: Final = 0.2
_MOST_OPEN: Final = 200
"""Entries of a rule that are followed; older ones, whose jobs are not performed here, stay open in the sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredTick:
    """A tick that was enqueued.

    Attributes:
        rule: name of its rule, or of its schedule if it is dynamic.
        schedule: name of its ledger.
        at: its instant in the ledger, epoch seconds.
        jobs: how many it enqueued.
        due: epoch second of the wall clock at which the rules' clock showed its instant; None: it was delivered
            at once, by hand or to catch up, and cannot be late.
    """

    rule: str
    schedule: str
    at: int
    jobs: int
    due: float | None


@dataclass(slots=True)
class TickSums:
    """What became of the ticks of a rule in this run."""

    ticks: int = 0
    jobs: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    late_s: float | None = None

    @property
    def open(self) -> int:
        """Jobs that have not ended: they wait, run, or will be tried again."""
        return self.jobs - self.ends.total()


class LedgerWatch:
    """Follows the ticks of a run, from the main thread.

    Args:
        clock: that of the rules; lateness is counted from when it shows an instant, in real seconds.
    """

    def __init__(
        self, *, console: Console, pool: RedisPool, keys: Keys, clock: SimulatedClock
    ) -> None:
        self._console = console
        self._pool = pool
        self._keys = keys
        self._clock = clock
        self._open: dict[str, dict[int, DeliveredTick]] = {}
        self._ended: dict[str, list[tuple[LedgerEntry, float | None]]] = {}
        self._shown_at: dict[str, float] = {}
        self._looked_at = float("-inf")
        self._found_until: dict[str, float] = {}
        self.sums: dict[str, TickSums] = {}
        self.ledgers: dict[str, str] = {}
        """Name of each ledger that was written, and its rule."""

    @property
    def is_waiting(self) -> bool:
        """Whether jobs of a tick have not ended yet, or an entry is not shown."""
        return any(self._open.values()) or any(self._ended.values())

    def follow(self, tick: DeliveredTick) -> None:
        """Look out for the end of a tick that was enqueued just now."""
        sums = self.sums.setdefault(tick.rule, TickSums())
        sums.ticks += 1
        sums.jobs += tick.jobs
        self.ledgers[tick.schedule] = tick.rule
        followed = self._open.setdefault(tick.schedule, {})
        followed[tick.at] = tick
        if len(followed) > _MOST_OPEN:
            del followed[min(followed)]

    def find(self, schedules: Iterable[str], wall: float) -> None:
        """Follow the ticks that others have enqueued: those of dynamic schedules, since the start of the run.

        Args:
            schedules: their names.
            wall: epoch seconds; what was placed ahead is followed when its instant has come.
        """
        for schedule in schedules:
            since = self._found_until.get(schedule, self._clock.start)
            with contextlib.suppress(KiqbridgeError):
                entries = read_ledger(
                    self._pool, self._keys, schedule, since=since, until=wall, most=_MOST_OPEN
                )
                for entry in reversed(entries):
                    self._found_until[schedule] = entry.at + 1
                    if entry.jids:
                        jobs = len(entry.jids)
                        self.follow(
                            DeliveredTick(
                                rule=schedule,
                                schedule=schedule,
                                at=entry.at,
                                jobs=jobs,
                                due=entry.at,
                            )
                        )

    def late_s(self, entry: LedgerEntry) -> float | None:
        """Real seconds between an entry's instant, by the clock that it is of, and its enqueuing.

        Below 0: it was placed ahead. None: it was delivered at once, and cannot be late.
        """
        if SIMULATED in entry.schedule:
            return entry.enqueued_at - self._clock.wall_at(entry.at)
        return None if "#" in entry.schedule else entry.lateness_s

    def look(self, now: float, *, is_last: bool = False) -> None:
        """Read what is open, and show what has ended; as often as somebody likes, up to some times a second.

        Args:
            now: a clock that cannot be set.
            is_last: there is no further look: show all that has ended.
        """
        if not is_last and now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        # What has ended since the last look waits for the next one: the worker's own line comes first then.
        if not is_last:
            self._show(now)
        try:
            for schedule, followed in self._open.items():
                if followed:
                    self._read(schedule, followed)
        except KiqbridgeError:
            pass  # the next look finds it; that the server is away is said elsewhere
        if is_last:
            self._shown_at.clear()
            self._show(now)

    def _show(self, now: float) -> None:
        today = self._clock.read(time.time()).date()
        for rule, ended in self._ended.items():
            if ended and now - self._shown_at.get(rule, float("-inf")) >= LINE_EVERY_S:
                self._console.line("ledger", rule, ledger_text(ended, today=today))
                self._shown_at[rule] = now
                ended.clear()

    def _read(self, schedule: str, followed: dict[int, DeliveredTick]) -> None:
        entries = read_ledger(
            self._pool,
            self._keys,
            schedule,
            since=min(followed),
            until=max(followed),
            most=_MOST_OPEN,
        )
        for entry in reversed(entries):
            tick = followed.get(entry.at)
            if tick is None:
                continue
            late_s = None if tick.due is None else entry.enqueued_at - tick.due
            sums = self.sums[tick.rule]
            if late_s is not None:
                sums.late_s = max(0.0, late_s, sums.late_s or 0.0)
            ends = last_ends(entry)
            if len(ends) == len(entry.jids):
                del followed[entry.at]
                sums.ends.update(end.outcome for end in ends)
                self._ended.setdefault(tick.rule, []).append((entry, late_s))


def ledger_text(
    ended: Sequence[tuple[LedgerEntry, float | None]], *, today: date | None = None
) -> str:
    """A line about entries whose jobs have ended, oldest first, each with its lateness in seconds.

    `07:00:00Z  by lambda  late 0.012 s  attempts 1  done in 0.031 s`, and of several: `12 ticks 07:00:00Z to
    07:55:00Z  by lambda  late 0.012 s at most  attempts 12  12 done in 0.031 s at most`. An instant has its
    date if that is another one than `today`.
    """
    entries = [entry for entry, _ in ended]
    lates = [late_s for _, late_s in ended if late_s is not None]
    most = " at most" if len(ended) > 1 else ""
    first, last = (_shown(entry.at, today) for entry in (entries[0], entries[-1]))
    when = first if len(ended) == 1 else f"{len(ended)} ticks {first} to {last}"
    by = ", ".join(dict.fromkeys(clock_of(entry.by) for entry in entries))
    late = lateness_text(max(lates), "late {}") + most if lates else "fired at once"
    attempts = sum(entry.attempts for entry in entries)
    return "  ".join([when, f"by {by}", late, f"attempts {attempts}", outcome_text(entries)])


def _shown(at: int, today: date | None) -> str:
    instant = datetime.fromtimestamp(at, UTC)
    return f"{instant:%H:%M:%SZ}" if instant.date() == today else f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def outcome_text(entries: Sequence[LedgerEntry]) -> str:
    """How the jobs of entries ended: `done in 0.03 s`, `3 done, 1 dead in 0.03 s at most`, `1 open`."""
    ends = [end for entry in entries for end in last_ends(entry)]
    jobs = sum(len(entry.jids) for entry in entries)
    if not jobs:
        return next((entry.left_out for entry in entries if entry.left_out), "no jobs")
    counts: Mapping[str, int] = Counter(end.outcome for end in ends)
    shown = [f"{count} {outcome}" for outcome, count in counts.items()]
    shown += [f"{jobs - len(ends)} open"] if jobs > len(ends) else []
    if jobs == 1 and ends:
        shown = [ends[0].outcome]
    took = [end.took_s for end in ends if end.took_s is not None]
    most = " at most" if len(took) > 1 else ""
    return ", ".join(shown) + (f" in {max(took):.3f} s{most}" if took else "")


def last_ends(entry: LedgerEntry) -> list[JobEnd]:
    """How its jobs ended, each once: one that was retried by hand after its death has ended twice."""
    return [end for jid in entry.jids if (end := entry.end_of(jid)) is not None]


def lateness_text(late_s: float, form: str = "{}") -> str:
    """Seconds in words: `0.012 s`; of a tick that was placed ahead `placed 284 s ahead`."""
    if late_s <= -_AHEAD_S:
        return f"placed {-late_s:.0f} s ahead"
    return form.format(f"{max(0.0, late_s):.3f} s")


def clock_of(by: str) -> str:
    """Which clock delivered a tick: `lambda` of `lambda:REQUEST`."""
    return by.partition(":")[0] or "?"
