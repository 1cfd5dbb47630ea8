"""Placing the occurrences of dynamic schedules in `schedule`, minutes ahead, each at its exact second.

1. Read: definitions, states, cursors; again only when the number of changes has moved.
2. Decide for each schedule that has an occurrence before the horizon (features/dynamic/due.py, pure).
3. Prepare its jobs as a push would.
4. Place them by one script for hundreds of schedules (place.lua), which claims each occurrence in its ledger and
   compares cursor, definition and state with what was read. So any number of processes may do this at once.

The poller moves them to their queues when they are due. An absence of everybody who places is not noticed as long
as it is shorter than the horizon.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field
from time import monotonic
from typing import Final

from kiqbridge.client.client import Client
from kiqbridge.client.host import Host
from kiqbridge.client.known_schedules import digest_of, parsed
from kiqbridge.features.dynamic.due import MOST, Decision, decide
from kiqbridge.features.dynamic.store import (
    CHANGED,
    PlacedJobs,
    Placement,
    jobs_of_occurrence,
    place,
)
from kiqbridge.runtime.records import dataclass
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.missed import MissedTick
from kiqbridge.schedule.state import ScheduleState
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

logger = logging.getLogger(__name__)

HORIZON_S: Final = 300.0
"""Seconds for which occurrences are placed ahead, at least."""

STRIDE_S: Final = 60.0
"""Beyond the horizon as well, at most as much again, so that a schedule of each minute is placed once a minute."""

BATCH_OCCURRENCES: Final = 500
BATCH_BYTES: Final = 500_000
"""Of one script: it takes some 10 ms, during which the server does nothing else."""

RETRY_S: Final = 60.0
"""After so many seconds a schedule is evaluated again whose jobs could not be made."""

REFRESH_S: Final = 300.0
"""All is read again after so many seconds, should a change not have been counted, such as by a restored server."""


@dataclass(slots=True, kw_only=True)
class PlacingReport:
    """What one evaluation did.

    Attributes:
        schedules: how many dynamic schedules there are.
        evaluated: how many of them had something to be decided.
        placed: occurrences that were placed here.
        missed: schedule and instant of each occurrence that was too late, enqueued or not.
        new: those of them that were not reported yet.
        conflicts: schedules that another process was changing or placing; they are evaluated again.
    """

    schedules: int = 0
    evaluated: int = 0
    placed: int = 0
    missed: list[tuple[str, int]] = field(default_factory=list)
    new: list[MissedTick] = field(default_factory=list)
    conflicts: int = 0


@dataclass(slots=True, kw_only=True)
class _Known:
    """A schedule as it was read, with the next instant that is not decided yet, None = none."""

    text: bytes
    definition: ScheduleDefinition
    digest: str
    state_text: bytes = b""
    state: ScheduleState = field(default_factory=ScheduleState)
    cursor: int | None = None
    next_at: float | None = 0.0


class Placer:
    """Evaluates dynamic schedules again and again; keeps what it has read.

    Args:
        client: prepares the jobs; its middleware is called.
        keys: the namespace.
        by: who places, for the ledgers, such as `worker:IDENTITY`.
        horizon_s: how far ahead occurrences are placed, at least.
    """

    def __init__(
        self, client: Client, keys: Keys, *, by: str, horizon_s: float = HORIZON_S
    ) -> None:
        self._client = client
        self._keys = keys
        self._by = by
        self._horizon_s = horizon_s
        self._known: dict[str, _Known] = {}
        self._unreadable: dict[str, bytes] = {}
        self._changes: bytes | None = b""
        self._refresh_at = self._earliest = float("-inf")

    def place(self, connection: RedisLike, now: float | None = None) -> PlacingReport:
        """Place what comes due within the horizon.

        Args:
            connection: to Redis.
            now: epoch seconds; None: the clock of Redis.

        Raises:
            RedisUnavailable, RedisRefused: call again; what was placed stays, once.
        """
        report = PlacingReport()
        if now is None and not self._known and monotonic() < self._refresh_at:
            # There are no schedules: only whether that has changed is asked, and not what time it is.
            [changes] = connection.run(("GET", self._keys.schedule_changes))
            if changes == self._changes:
                return report
        time, changes = connection.run(("TIME",), ("GET", self._keys.schedule_changes))
        if now is None:
            now = server_time(time)
        if changes != self._changes or monotonic() >= self._refresh_at:
            self._read(connection)
            self._changes, self._earliest = changes, float("-inf")
            self._refresh_at = monotonic() + REFRESH_S
        report.schedules = len(self._known)
        until = now + self._horizon_s
        while self._earliest <= until:
            due = [
                name
                for name, each in self._known.items()
                if each.next_at is not None and each.next_at <= until
            ]
            self._place_due(connection, due, now, report)
            rest = [each.next_at for each in self._known.values() if each.next_at is not None]
            self._earliest = min(rest, default=float("inf"))
            if report.conflicts:
                break
        return report

    def _read(self, connection: RedisLike) -> None:
        """Read all; what has not changed is kept as it is."""
        keys = self._keys
        replies = connection.run(
            ("HGETALL", keys.schedules),
            ("HGETALL", keys.schedule_states),
            ("HGETALL", keys.cursors),
        )
        definitions, states, cursors = map(pairs_of, replies)
        known: dict[str, _Known] = {}
        for field_, text in definitions.items():
            name = text_of(field_)
            each = self._known.get(name)
            if each is None or each.text != text:
                each = self._parsed(name, text)
            if each is None:
                continue
            state, cursor = states.get(field_, b""), _cursor(cursors.get(field_))
            if state != each.state_text or cursor != each.cursor:
                each.state_text, each.state = state, ScheduleState.from_text(state)
                each.cursor, each.next_at = cursor, 0.0
            known[name] = each
        self._known = known

    def _parsed(self, name: str, text: bytes) -> _Known | None:
        if self._unreadable.get(name) == text:
            return None
        # Read now: an expression that cannot be read is logged once.
        definition = parsed(name, text, with_expression=True)
        if definition is None:
            self._unreadable[name] = text
        if definition is None or definition.origin == "template":
            return None
        return _Known(text=text, definition=definition, digest=digest_of(text))

    def _place_due(
        self, connection: RedisLike, names: Sequence[str], now: float, report: PlacingReport
    ) -> None:
        decided = self._decided(names, now)
        for batch in _batches(decided):
            placements = [placement for placement, _ in batch]
            known = self._known_as_missed(connection, placements)
            results = place(connection, self._keys, now, placements)
            for placed, result in zip(batch, results, strict=True):
                report.evaluated += 1
                if result >= 0:
                    report.placed += result
                    self._note(placed, now, known, report)
                elif result == CHANGED:
                    report.conflicts += 1
                    self._known[placed[0].name].next_at = 0.0
                    self._changes = b""  # read again at the next call
                else:
                    self._try_later(placed[0].name, now)
                    logger.error(
                        "schedule %s: a key of it holds another type, so that it does not fire; it is tried again in %d s",
                        placed[0].name,
                        RETRY_S,
                    )

    def _known_as_missed(
        self, connection: RedisLike, placements: Sequence[Placement]
    ) -> set[tuple[str, int]]:
        """Those of the missed occurrences that the watch (missed.py) has recorded; the script records all."""
        missed = [(each.name, instant) for each in placements for instant in each.missed]
        if not missed:
            return set()
        members = [f"{instant} {name}" for name, instant in missed]
        scores = connection.call("ZMSCORE", self._keys.missed, *members)
        return {tick for tick, score in zip(missed, scores, strict=True) if score is not None}

    def _decided(self, names: Sequence[str], now: float) -> Iterator[tuple[Placement, Decision]]:
        until = int(now + self._horizon_s + min(STRIDE_S, self._horizon_s))
        for name in names:
            known = self._known[name]
            begin = int(now) if known.cursor is None else known.cursor
            most = max(1, min(MOST, BATCH_BYTES // (len(known.text) + 200)))
            try:
                decision = decide(
                    known.definition, known.state, cursor=begin, now=now, until=until, most=most
                )
                occurrences = [
                    self._jobs(known.definition, instant, now) for instant in decision.place
                ]
            except Exception as error:  # also of a user's middleware: other schedules fire on
                self._try_later(name, now)
                logger.exception(
                    "schedule %s: its jobs cannot be enqueued (%s); it is tried again in %d s",
                    name,
                    type(error).__name__,
                    RETRY_S,
                )
                continue
            if decision.cursor is None and known.cursor is not None:
                known.next_at = decision.next_at
                continue
            yield (
                Placement(
                    name=name,
                    definition=known.digest,
                    state=digest_of(known.state_text),
                    cursor=known.cursor,
                    new_cursor=begin if decision.cursor is None else decision.cursor,
                    missed=decision.missed,
                    occurrences=occurrences,
                ),
                decision,
            )

    def _jobs(self, definition: ScheduleDefinition, instant: int, now: float) -> PlacedJobs:
        due = max(instant + definition.put_off_s(instant), int(now))
        return jobs_of_occurrence(self._client, definition, instant, due=due, by=self._by, now=now)

    def _try_later(self, name: str, now: float) -> None:
        self._known[name].next_at = now + self._horizon_s + RETRY_S

    def _note(
        self,
        placed: tuple[Placement, Decision],
        now: float,
        recorded: Collection[tuple[str, int]],
        report: PlacingReport,
    ) -> None:
        """Go on after what was placed, and report what was missed; what was recorded is known already."""
        placement, decision = placed
        known = self._known[placement.name]
        known.cursor, known.next_at = placement.new_cursor, decision.next_at
        missed = [(placement.name, instant) for instant in placement.missed]
        report.missed += missed
        enqueued = set(placement.missed) & set(decision.place)
        if missed:
            logger.warning(
                "schedule %s: %d occurrences were not enqueued in time, the last one of %d (epoch seconds); %d of "
                "them are enqueued now, by its policy %r",
                placement.name,
                len(missed),
                placement.missed[-1],
                len(enqueued),
                known.definition.missed,
            )
        report.new += [
            MissedTick(
                schedule=name,
                at=instant,
                late_s=now - instant,
                policy=known.definition.missed,
                is_new=True,
                enqueued=instant in enqueued,
            )
            for name, instant in missed
            if (name, instant) not in recorded
        ]


def watch(host: Host) -> Callable[[RedisConnection], PlacingReport]:
    """The chore that looks whether a schedule was changed, or is to be placed: one round trip if not."""
    horizon_s = host.config.schedule_horizon_s if host.config else HORIZON_S
    placer = Placer(host.client, host.client.keys, by=host.by, horizon_s=horizon_s)

    def place_once(connection: RedisConnection) -> PlacingReport:
        report = placer.place(connection)
        if report.new:
            host.notify(report.new)
        return report

    return place_once


def _batches(
    decided: Iterator[tuple[Placement, Decision]],
) -> Iterator[list[tuple[Placement, Decision]]]:
    batch: list[tuple[Placement, Decision]] = []
    count = size = 0
    for each in decided:
        jobs = [job for occurrence in each[0].occurrences for job in occurrence.jobs]
        bytes_ = sum(len(text) + 150 for _, text in jobs)
        if batch and (count + len(jobs) > BATCH_OCCURRENCES or size + bytes_ > BATCH_BYTES):
            yield batch
            batch, count, size = [], 0, 0
        batch.append(each)
        count += max(1, len(jobs))
        size += bytes_
    if batch:
        yield batch


def _cursor(text: bytes | None) -> int | None:
    return int(text) if text is not None and text.lstrip(b"-").isdigit() else None
