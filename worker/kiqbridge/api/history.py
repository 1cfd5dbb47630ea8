"""What became of a job, and what holds it now: one answer for `JobHandle`, `kiqbridge job` and the page.

1. Features are asked for what they keep of it (the seam `history`): its result, its record, its batch.
2. Unless a result says how it has ended, all queues, sets and processes are looked through for it (whereabouts.py).
3. Where it lies says its status, unless it has ended since; a queue, a set or a claim is exact, a heartbeat is not.
4. If it is nowhere and its end was not noted, the ledger of schedules and the audit log are read.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import time
from typing import Final, TypeVar, cast

from kiqbridge import seams
from kiqbridge.api.audit import AuditEntry, read_audit
from kiqbridge.api.in_flight import claiming_processes
from kiqbridge.api.life import Attempt, End, Event, JobHistory, Known, Part, Relative, Wait
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.sets import SortedEntry
from kiqbridge.api.sources import LOOKED_AT, parse_guard
from kiqbridge.api.waits import why_it_waits
from kiqbridge.api.whereabouts import Found, Place, Search, search
from kiqbridge.api.works import Stack, Work, fetch_stacks
from kiqbridge.client.job_handle import JobStatus
from kiqbridge.errors import KiqbridgeError, PayloadError, RedisUnavailable
from kiqbridge.store.ledger import known_schedules, read_ledgers
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.names import text_of
from kiqbridge.wire.tick_mark import TickMark, tick_mark_of

T = TypeVar("T")

_STATUS: Final[dict[Place, JobStatus]] = {
    "in flight": "running",
    "queue": "queued",
    "suspects": "queued",
    "retry": "retrying",
    "schedule": "scheduled",
    "dead": "dead",
    "working": "running",
}
"""Of a job that was seen at several places the first counts: it moved, or a heartbeat is some seconds old."""

_EXACT: Final = ("queue", "suspects", "retry", "schedule", "dead")
"""Places that a job leaves before its end is noted."""

MOST_NOTES: Final = 1_000
"""Entries of the audit log that are read for those that name a job."""

MOST_TICKS: Final = 50
MOST_SCHEDULES: Final = 200
"""Occurrences of each schedule, and schedules, that are read for a job of which nothing else is kept."""

SAME_S: Final = 2.0
"""A failure that the payload names, and an attempt on record, are the same within so many seconds."""


def history_of(
    jid: str,
    operator: Operator | None = None,
    *,
    found: Sequence[Found] | None = None,
    brief: bool = False,
    tick: TickMark | None = None,
    bid: str = "",
    most: int | None = None,
    cursor: str = "",
) -> JobHistory:
    """The life of a job; its status is `unknown` if nothing of it is kept, or until its end is on record.

    Args:
        jid: of the job.
        operator: default `default_operator()`.
        found: where it is, if the caller has just read that; else all queues, sets and processes are looked through.
        brief: status, places, end and attempts alone, with fewer round trips.
        tick: an occurrence of a schedule that names it; else the last ones of 200 schedules are looked through.
        bid: a batch that names it; else 500 batches are.
        most: commands that look through queues and sets, each through up to 1,500 jobs; `JobHistory.rest` says what they
            have not looked at. Default no limit.
        cursor: where it goes on, `rest.cursor` of the look before.

    Raises:
        PayloadError: the jid is no text, or empty.
        RedisUnavailable: not everything was read.
    """
    if not isinstance(jid, str) or not jid:
        raise PayloadError(
            f"jid: a {type(jid).__name__} without content is no job's id; a push that middleware stopped has none"
        )
    if text_of(jid.encode("utf-8", "replace")) != jid:  # lone surrogates, which no job has
        return JobHistory(jid=jid, status="unknown")
    reading = _Reading(jid, operator or default_operator(), tick, bid)
    return reading.read(found, brief=brief, most=most, cursor=cursor)


class _Reading:
    """One look at a job."""

    def __init__(self, jid: str, operator: Operator, tick: TickMark | None, bid: str) -> None:
        self._jid = jid
        self._operator = operator
        self._given = tick
        self._bid = bid
        self._now = time()
        self._refused: dict[str, None] = {}

    def read(
        self, given: Sequence[Found] | None, *, brief: bool, most: int | None, cursor: str
    ) -> JobHistory:
        result = self._asked(self._result)
        looked = Search(found=list(given or ()), carriers=[])
        if given is None and (
            result is None or result.outcome == "dead"
        ):  # maybe pushed again since
            looked = self._search(most, cursor)
        known = Known(
            jid=self._jid,
            found=looked.found,
            carriers=looked.carriers,
            now=self._now,
            bid=self._bid,
            is_all=looked.rest is None,
        )
        parts = [part for part in self._parts(known) if part is not None]
        kept = [result, *(part.end for part in parts)]
        end = max(filter(None, kept), key=_counts_from, default=None)
        found = [] if end is not None and _has_left(looked.found, end) else looked.found
        notes = [] if brief and (found or end) else self._notes()
        tick = self._tick(known, parts)
        events: list[Event] = [*_moves(reversed(notes))]
        if not found and end is None:
            end = self._noted_end(tick, notes, events)
        job = found[0].job if found else None
        if found:
            end = end if found[0].place == "dead" else None
            events += _of_text(found[0], tick, self._now)
            events += [
                Event(at=each.seen.run_at, label=f"Began in {each.name}")
                for each in found
                if each.place == "working"
            ]
        elif tick is not None and not any(each.label == _of_tick(tick).label for each in events):
            events.insert(0, _of_tick(tick))
        attempts = sorted(_attempts(parts, job), key=lambda each: each.at)
        if end is not None and not _is_among(attempts, end) and end.source != "audit" and end.at:
            events.append(_of_end(end))
        return JobHistory(
            jid=self._jid,
            status=_STATUS[found[0].place]
            if found
            else cast("JobStatus", end.outcome if end else "unknown"),
            found=found,
            job_class=job.display_class if job else _first(part.job_class for part in parts),
            queue=job.queue if job else _first(part.queue for part in parts),
            tags=job.tags if job else next((part.tags for part in parts if part.tags), ()),
            wait=None if brief or end is not None else self._wait(found, parts),
            events=sorted(events, key=lambda each: each.at),
            attempts=attempts,
            end=end,
            parents=_relatives(part.parents for part in parts),
            children=_relatives(part.children for part in parts),
            stack=None if brief else self._asked(lambda: self._stack(found)),
            refused=list(self._refused),
            rest=looked.rest,
        )

    def _search(self, most: int | None, cursor: str) -> Search:
        order = list(_STATUS)
        for _ in range(2):  # a job that moves may be missed once
            looked = search(self._jid, self._operator, most=most, cursor=cursor)
            places = {each.place: each for each in looked.found}
            shown, held = places.get("working"), places.get("in flight")
            process = shown.seen.process if shown else ""
            still_runs = held is not None and held.seen.process == process
            if shown and not still_runs and process in claiming_processes(self._operator):
                del places["working"]  # it has ended since that heartbeat
            found = sorted(
                (each for each in looked.found if each.place in places),
                key=lambda each: order.index(each.place),
            )
            looked = replace(looked, found=found)
            if found or looked.rest or (most is not None and 2 * looked.looks > most):
                break
        return looked

    def _result(self) -> End | None:
        if seams.named("results") is None:
            return None
        kept = seams.call("fetch_result", "results")(self._jid, client=self._operator.client)
        if kept is None:
            return None
        return End(
            outcome=kept.outcome,
            at=kept.at,
            source="result",
            error=kept.error,
            message=kept.message,
            has_value=kept.outcome == "done" and not kept.is_omitted,
            value=kept.value,
        )

    def _parts(self, known: Known) -> Iterator[Part | None]:
        for claim in seams.found("history"):
            yield self._asked(partial(claim, self._operator, known))

    def _asked(self, ask: Callable[[], T]) -> T | None:
        """What it answers; a right or a key that is missing, or an unreadable text hides nothing else."""
        try:
            return ask()
        except RedisUnavailable:
            raise
        except (KiqbridgeError, ValueError, KeyError, TypeError) as error:
            self._refused[f"{type(error).__name__}: {error}"] = None
            return None

    def _stack(self, found: Sequence[Found]) -> Stack | None:
        works = [each.seen for each in found if isinstance(each.seen, Work)]
        return next(iter(fetch_stacks(works, self._operator).values()), None)

    def _notes(self) -> list[AuditEntry]:
        notes = self._asked(lambda: read_audit(self._operator, most=MOST_NOTES))
        return [each for each in notes or () if self._jid in each.detail.replace(",", " ").split()]

    def _tick(self, known: Known, parts: Iterable[Part]) -> TickMark | None:
        if known.job is not None:
            return tick_mark_of(known.job.item)
        return next((part.tick for part in parts if part.tick is not None), None)

    def _noted_end(
        self, tick: TickMark | None, notes: Sequence[AuditEntry], events: list[Event]
    ) -> End | None:
        """What an operator did, or the ledger of a schedule says, of a job that is nowhere."""
        deleted = next((each for each in notes if each.action == "delete" and each.count), None)
        if deleted is not None:
            said = f"{deleted.by} deleted it"
            return End(outcome="deleted", at=deleted.at, source="audit", message=said)
        end = self._asked(lambda: self._end_in_ledgers(tick, events))
        if end is None and not events:
            events += self._asked(self._deliveries) or ()
        return end

    def _deliveries(self) -> list[Event]:
        """Of a job that is known by the guard of its event alone: as many guards as the page Sources looks at."""
        keys, pool = self._operator.keys, self._operator.pool
        names = pool.call("ZRANGE", keys.guards_until, 0, LOOKED_AT - 1, "REV")
        values = pool.call("HMGET", keys.guards, *names) if names else []
        guards = [
            parse_guard(text_of(name), text_of(value))
            for name, value in zip(names, values, strict=True)
            if value is not None and text_of(value).endswith(f" {self._jid}")
        ]
        return [
            Event(at=each.enqueued_at or 0.0, label=f"Enqueued for {each.source} {each.name}")
            for each in guards
        ]

    def _end_in_ledgers(self, tick: TickMark | None, events: list[Event]) -> End | None:
        pool, keys = self._operator.pool, self._operator.keys
        tick = tick or self._given
        if tick is not None:
            at = float(tick.at)
            read = read_ledgers(pool, keys, [tick.schedule], most=1, since=at, until=at)
        else:
            names = sorted(known_schedules(pool, keys))[:MOST_SCHEDULES]
            read = read_ledgers(pool, keys, names, most=MOST_TICKS)
        for entry in (entry for entries in read.values() for entry in entries):
            if self._jid in entry.jids:
                events.append(_of_tick(TickMark(schedule=entry.schedule, at=entry.at)))
                events.append(Event(at=entry.enqueued_at, label=f"Enqueued by {entry.by}"))
                end = entry.end_of(self._jid)
                if end is None:
                    return None
                return End(outcome=end.outcome, at=end.ended_at, source="ledger", error=end.error)
        return None

    def _wait(self, found: Sequence[Found], parts: Iterable[Part]) -> Wait | None:
        """What a feature holds it back by says more than its place."""
        held = next((part.wait for part in parts if part.wait is not None), None)
        if held is not None or not found:
            return held
        return self._asked(lambda: why_it_waits(found[0], self._operator, self._now))


def _counts_from(end: End) -> float:
    """The last end counts; of the same one a result says more than a record, which is noted beside it."""
    return end.at + (SAME_S if end.source == "result" else 0.0)


def _has_left(found: Sequence[Found], end: End) -> bool:
    """Whether the job ended after its last push; then its claim only waits for its acknowledgement."""
    if not found:
        return False
    first = found[0]
    pushed_at = first.job.enqueued_at or 0.0
    return first.place not in _EXACT and end.at >= pushed_at


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _relatives(several: Iterable[Sequence[Relative]]) -> list[Relative]:
    """Each once."""
    found: dict[tuple[str, str], Relative] = {}
    for each in (each for part in several for each in part):
        found.setdefault((each.kind, each.id), each)
    return list(found.values())


def _attempts(parts: Iterable[Part], job: JobRecord | None) -> list[Attempt]:
    """Those on record, and failures that only the job itself names."""
    kept = [each for part in parts for each in part.attempts]
    if job is None:
        return kept
    times = [each for each in (job.failed_at, job.retried_at) if each is not None]
    for at in times:
        if all(abs(at - each.at) > SAME_S for each in kept):
            lines = job.error_message.splitlines() if at == times[-1] else []
            error = job.error_class if at == times[-1] else ""
            kept.append(
                Attempt(at=at, outcome="failed", error=error, message=lines[0] if lines else "")
            )
    return kept


def _is_among(attempts: Iterable[Attempt], end: End) -> bool:
    return any(abs(each.at - end.at) <= SAME_S for each in attempts)


def _of_text(found: Found, tick: TickMark | None, now: float) -> Iterator[Event]:
    """What the job itself says."""
    job = found.job
    if tick is not None:
        yield _of_tick(tick)
    for at, label in ((job.created_at, "Created"), (job.enqueued_at, "Enqueued")):
        if at is not None:
            yield Event(at=at, label=label)
    if not isinstance(job, SortedEntry):
        return
    if found.place == "dead":
        yield Event(at=job.at, label="Died", kind="bad")
        return
    label = "Next try" if found.place == "retry" else "Due"
    yield Event(at=job.at, label=label if job.at > now else f"{label} (now)", kind="next")


def _of_tick(tick: TickMark) -> Event:
    return Event(at=float(tick.at), label=f"Occurrence of the schedule {tick.schedule}")


def _of_end(end: End) -> Event:
    label = f"Ended: {end.outcome}"
    said = f"{label}, {end.reason}" if end.reason else label
    return Event(at=end.at, label=said, kind="good" if end.outcome == "done" else "bad")


def _moves(notes: Iterable[AuditEntry]) -> Iterator[Event]:
    for each in notes:
        label = f"{each.action.capitalize()} in {each.target} by {each.by} ({each.via})"
        yield Event(
            at=each.at, label=label, kind="bad" if each.action in ("delete", "kill") else ""
        )
