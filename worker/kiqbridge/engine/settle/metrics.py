"""How long jobs take and how often they fail, per class, for the Web UI's Metrics page (protocol §12).

1. Each thread that performs, that of an event loop included, has cells of its own, which only ever
   count up: no lock and no Redis while jobs run.
2. `Metrics.flush`, at each beat and at the end, adds up all threads and takes what is new since.
3. That goes to Redis in one script with a number: a repeat after a lost reply adds nothing, and what
   Redis refused is kept for the next beat.

What is counted over all classes, `stat:processed` and `stat:failed`, is flushed in the same way (`Stats`).

Sidekiq 7 and 8 do not read each other's keys; written are those of one or of both (`metrics`).
"""

import logging
import re
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Protocol

from kiqbridge.runtime.records import dataclass
from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire import measures
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

_FAILED: Final = measures.BUCKETS
_MS: Final = measures.BUCKETS + 1
ROOM: Final = measures.BUCKETS + 2
"""Where a cell has a room for what has ended last, which is others' (engine/perform/ended.py)."""

_NOTHING: Final = (0,) * (measures.BUCKETS + 2)

MOST_NAMES = 2000
"""How many classes a thread keeps apart: `wrapped` is any text that a producer writes."""

OTHERS = "others"
"""What all further classes are counted as."""

LONGEST_NAME = 255
_PLAIN_NAME = re.compile(r"[\w.:-]+")

_AT_ONCE = 100
"""Classes per script call: with five keys and up to eleven fields each, no call grows long."""

_FLUSH = scripts.load("flush_metrics")
_FLUSH_STATS = scripts.load("flush_stats")

DAY_TTL_S = 157_680_000
"""Daily counters are kept for five years."""

TAKEN_TTL_S = 7_200
"""How many jobs were taken from each queue is forgotten when for so long none was."""

_REMEMBER_S = 28_800
"""A call that was held up by the network for longer than that may count twice."""

FORMS: Mapping[str, tuple[str, ...]] = {"both": ("7", "8"), "7": ("7",), "8": ("8",), "off": ()}
"""Setting `metrics` → the Sidekiq versions whose keys are written."""


def measured_name(payload: Mapping[str, Any], declared: str) -> str:
    """The name under which a job is measured: `wrapped` if it is a plain name, else its class (§12.1).

    The class is given as it was `declared`: middleware and the job may have changed the payload. A
    wrapped class is the pushing client's text, and becomes part of a key and of Ruby's Metrics page.
    """
    if "wrapped" in payload:
        wrapped = payload["wrapped"]
        if type(wrapped) is str and _PLAIN_NAME.fullmatch(wrapped):
            return wrapped[:LONGEST_NAME]
    return declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What is new about one class.

    Attributes:
        histogram: bucket → executions that succeeded, only those above 0.
        failed: executions that failed.
        ms: milliseconds of those that succeeded.
    """

    histogram: Mapping[int, int]
    failed: int
    ms: int

    def fields(self) -> Iterator[tuple[str, int]]:
        """The counters of a bucket's hash that grow (§12.2)."""
        succeeded = sum(self.histogram.values())
        if succeeded or self.ms:
            yield "ms", self.ms
        if self.failed:
            yield "f", self.failed
        if succeeded or self.failed:
            yield "p", succeeded + self.failed


class Metrics:
    """Measures the jobs of a process, and writes what is new.

    Args:
        keys: names under the namespace.
        identity: of the process; its flushes are numbered under this name.
        forms: a key of `FORMS`.
        kept: jobs are measured even if nothing of it goes to Redis: for `totals`.
    """

    def __init__(
        self, keys: Keys, *, identity: str, forms: str = "both", kept: bool = False
    ) -> None:
        self._keys = keys
        self._guard = keys.metrics_flush(identity)
        self._versions = FORMS[forms]
        self._is_kept = kept
        self._local = threading.local()
        # One for each thread: class → count of each histogram bucket, failures, milliseconds in all, and a room.
        # They grow and are never reset, so that they can be read here without a lock.
        self._threads: list[dict[str, list[Any]]] = []
        self._taken: dict[str, Sequence[float]] = {}
        self._waiting: deque[Mapping[str, Measured]] = deque()
        self._number = 1

    def __repr__(self) -> str:
        versions = " and ".join(self._versions) or "none"
        return f"<Metrics for {versions}, {len(self._taken)} classes>"

    @property
    def on(self) -> bool:
        """Whether jobs are to be measured."""
        return bool(self._versions) or self._is_kept

    def record(self, class_name: str, milliseconds: float, failed: bool) -> "deque[Any]":  # noqa: FBT001 - called for each job, and keywords cost
        """Count one execution, on the thread that performed it; a failed one without its time (§12.1).

        Returns the room of that class on that thread.
        """
        try:
            cell: list[Any] = self._local.cells[class_name]
        except (AttributeError, KeyError):
            cells: dict[str, list[Any]] | None = getattr(self._local, "cells", None)
            if cells is None:
                cells = self._local.cells = {}
                self._threads.append(cells)
            if len(cells) >= MOST_NAMES:
                class_name = OTHERS
            cell = cells.setdefault(class_name, [*_NOTHING, deque()])
        if failed:
            cell[_FAILED] += 1
        else:
            cell[bisect_right(measures.BOUNDS_MS, milliseconds)] += 1
            cell[_MS] += milliseconds
        room: deque[Any] = cell[ROOM]
        return room

    def rooms(self) -> "Iterator[deque[Any]]":
        """The rooms of all classes on all threads; from any thread."""
        for cells in list(self._threads):
            yield from (cell[ROOM] for cell in cells.copy().values())

    def flush(self, connection: RedisConnection, now: float) -> None:
        """Add what is new to the buckets of `now` (epoch seconds), if there is something (§12.2).

        Raises:
            RedisUnavailable, RedisRefused: nothing is lost, and nothing will be added twice; the
                next flush does it.
        """
        if not self._versions:
            return
        self._send(connection, now)
        # Not before: what may have arrived must be repeated as it was, so nothing is added to it.
        self._waiting.extend(_parts(self._take()))
        self._send(connection, now)

    def _send(self, connection: RedisConnection, now: float) -> None:
        while self._waiting:
            keys, args = _flush_arguments(self._waiting[0], self._keys, self._versions, now)
            errors = connection.script(
                _FLUSH, [self._guard, *keys], [self._number, measures.MINUTE_TTL_S, *args]
            )
            self._waiting.popleft()
            self._number += 1
            if errors:
                # Of a foreign type, or not a number: waiting would not fix it.
                logger.warning(
                    "metrics: %d of %d keys refused the measurements, which are dropped: %s",
                    len(errors),
                    len(keys),
                    errors[0].decode(errors="replace"),
                )

    def totals(self) -> dict[str, Measured]:
        """What was recorded since the start of the process, by class; from any thread, without a lock."""
        return {name: _difference(total, _NOTHING) for name, total in self._totals().items()}

    def _totals(self) -> dict[str, list[float]]:
        totals: dict[str, list[float]] = {}
        for cells in list(self._threads):
            # A copy is one step for the interpreter; its thread goes on adding classes.
            for name, cell in cells.copy().items():
                total = totals.setdefault(measures.field_name(name), list(_NOTHING))
                for index in range(ROOM):
                    total[index] += cell[index]
        return totals

    def _take(self) -> dict[str, Measured]:
        """What was recorded since the last time, by class, in the order of first appearance."""
        new = {}
        for name, total in self._totals().items():
            taken = self._taken.get(name, _NOTHING)
            if total != taken:
                new[name] = _difference(total, taken)
                self._taken[name] = total
        return new


def _difference(total: Sequence[float], taken: Sequence[float]) -> Measured:
    histogram = {
        index: int(total[index] - taken[index])
        for index in range(measures.BUCKETS)
        if total[index] != taken[index]
    }
    # Whole milliseconds of the sums: those of each short job would be none.
    return Measured(
        histogram=histogram,
        failed=int(total[_FAILED] - taken[_FAILED]),
        ms=int(total[_MS]) - int(taken[_MS]),
    )


def _parts(measured: Mapping[str, Measured]) -> Iterator[dict[str, Measured]]:
    rest = iter(measured.items())
    while part := dict(islice(rest, _AT_ONCE)):
        yield part


def _flush_arguments(
    measured: Mapping[str, Measured], keys: Keys, versions: Sequence[str], now: float
) -> tuple[list[str], list[str | int]]:
    """Keys and arguments of the script: per key its kind, TTL, number of counters, and these."""
    at = time.gmtime(now)
    names: list[str] = []
    args: list[str | int] = []
    for version in versions:
        for name, each in measured.items():
            if each.histogram:
                names.append(_histogram_key(keys, version, name, at))
                counters = [part for pair in each.histogram.items() for part in pair]
                args += ["histogram", measures.MINUTE_TTL_S, len(each.histogram), *counters]
    for version in versions:
        for key, ttl_s in _bucket_keys(keys, version, at):
            fields = [
                (f"{name}|{field}", count)
                for name, each in measured.items()
                for field, count in each.fields()
            ]
            names.append(key)
            args += ["hash", ttl_s, len(fields), *(part for pair in fields for part in pair)]
    return names, args


def _histogram_key(keys: Keys, version: str, name: str, at: time.struct_time) -> str:
    if version == "7":
        return keys.histogram_7(name, measures.histogram_minute_7(at))
    return keys.histogram_8(name, measures.histogram_minute_8(at))


def _bucket_keys(keys: Keys, version: str, at: time.struct_time) -> list[tuple[str, int]]:
    """Hashes of the minute, and for 8 first of the ten minutes, with their TTL in seconds."""
    if version == "7":
        return [(keys.metrics(measures.minute_7(at)), measures.MINUTE_TTL_S)]
    return [
        (keys.metrics(measures.ten_minutes_8(at)), measures.TEN_MINUTES_TTL_S),
        (keys.metrics(measures.minute_8(at)), measures.MINUTE_TTL_S),
    ]


class Counting(Protocol):
    """What counts jobs: a thread, an event loop; both numbers only grow."""

    processed: int
    failed: int


class Stats:
    """Flushes what was counted since the last flush.

    Args:
        counters: what counts jobs.
        keys: names under the namespace.
        identity: the process' own.
        taken: how many jobs it has taken from each queue.
    """

    def __init__(
        self,
        counters: Sequence[Counting],
        keys: Keys,
        identity: str,
        taken: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._counters = counters
        self._keys = keys
        self._guard = keys.stats_flush(identity)
        self._taken = taken
        self._flushed: tuple[Mapping[str, int], Mapping[str, int]] = (
            {"processed": 0, "failed": 0},
            {},
        )
        self._number = 1
        self._waiting: tuple[Sequence[str], Sequence[str]] | None = None

    def flush(self, connection: RedisConnection, now: float) -> None:
        """INCRBY stat:processed, stat:failed and those of the UTC day of `now`, and what was taken from queues, if any is new.

        Raises:
            RedisUnavailable, RedisRefused: nothing is lost, and nothing will be counted twice; the
                next flush does it.
        """
        self._send(connection)
        totals = {
            "processed": sum(counter.processed for counter in self._counters),
            "failed": sum(counter.failed for counter in self._counters),
        }
        taken = self._taken()
        if (totals, taken) != self._flushed:
            # From now on as it is: what may have arrived is repeated under its number, not added to.
            self._waiting = self._arguments(totals, taken, now)
            self._flushed = totals, taken
            self._send(connection)

    def _arguments(
        self, totals: Mapping[str, int], taken: Mapping[str, int], now: float
    ) -> tuple[Sequence[str], Sequence[str]]:
        keys, args = list[str](), list[str]()
        flushed, flushed_taken = self._flushed
        day = time.strftime("%Y-%m-%d", time.gmtime(now))
        for name, total in totals.items() if totals != flushed else ():
            added = str(total - flushed[name])
            keys += [self._keys.stat(name), self._keys.stat(name, day)]
            args += [added, "", added, str(DAY_TTL_S)]
        new = {name: count - flushed_taken.get(name, 0) for name, count in taken.items()}
        if any(new.values()):
            keys.append(self._keys.queue_taken)
            args += ["", str(TAKEN_TTL_S)]
            args += [str(part) for name in new if new[name] for part in (name, new[name])]
        return keys, args

    def _send(self, connection: RedisConnection) -> None:
        if self._waiting is None:
            return
        keys, args = self._waiting
        connection.script(
            _FLUSH_STATS, [self._guard, *keys], [str(self._number), str(_REMEMBER_S), *args]
        )
        self._waiting = None
        self._number += 1
