"""Pushing what records ask for: all of it in one script where that can be, each record all or none.

A batch costs one round trip. If the script is refused because of one job (a queue of another type, a job
that the client refuses), the records are pushed one by one, so that only that one fails.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

from kiqbridge.aws.depth import DepthGate, class_of, queue_of
from kiqbridge.aws.job_forms import EnqueueRequest, JobRequest, Tick
from kiqbridge.aws.record import Answering, Record, Result
from kiqbridge.client.client import TICK_HORIZON_S
from kiqbridge.client.guarded_push import Enqueued, TickOutcome
from kiqbridge.config.function_settings import TICK_AHEAD_S, TICK_OFFSET_S
from kiqbridge.config.queue_limits import DepthAction
from kiqbridge.errors import (
    EventError,
    KiqbridgeError,
    PayloadError,
    QueueTooDeep,
    RedisRefused,
    RedisUnavailable,
)
from kiqbridge.wire.bulk import BATCH_SIZE
from kiqbridge.wire.guards import Identity
from kiqbridge.wire.payload import new_jid, shorten
from kiqbridge.wire.tick_mark import Overlap

T = TypeVar("T")


class Asked(NamedTuple):
    """A record and the jobs that it asks for, all of which may be enqueued."""

    record: Record
    request: EnqueueRequest


class HeldBack(KiqbridgeError):  # noqa: N818 - reads as what happened
    """Not enqueued, since an earlier record failed; the service delivers both again, in their order."""


class StaleTick(EventError):  # noqa: N818 - reads as what it is
    """So old that nobody knows whether it was enqueued."""


class Pushes(Protocol):
    """The calls of a `Client` that are used here."""

    def push_once(
        self,
        items: Sequence[Mapping[str, Any]],
        dedupe_keys: Sequence[str | Identity | None],
        *,
        jids: Sequence[str | None] | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> list[Enqueued]:
        """See `Client.push_once`."""

    def find_enqueued(
        self, items: Sequence[Mapping[str, Any]], dedupe_keys: Sequence[str | Identity | None]
    ) -> list[str | None]:
        """See `Client.find_enqueued`."""

    def push_tick(
        self,
        schedule: str,
        instant: int,
        items: Sequence[Mapping[str, Any]],
        *,
        by: str,
        horizon_s: int = TICK_HORIZON_S,
        ahead_s: float | None = None,
        limits: Mapping[str, int] | None = None,
        overlap: Overlap = "allow",
        max_age_s: float | None = None,
    ) -> TickOutcome:
        """See `Client.push_tick`."""


class Pushing(Protocol):
    """What an `Enqueuer` needs of a pusher: this module's, or one around it."""

    def has_spilled(self, event: object) -> bool:
        """Whether an event comes out of a spill queue."""

    def push(self, asked: Sequence[Asked], answering: Answering, by: str) -> list[Result]:
        """Push the requests of one delivery; a result for each, in their order."""


class Pusher:
    """Pushes requests and says what became of each.

    Args:
        client: pushes.
        tick_ahead_s: seconds that a tick may lie ahead of the clock of Redis: clocks differ a little.
        tick_offset_s: seconds by which the clock of the schedules is ahead of that of Redis, where it is
            another one: `kiqbridge dev --at`. What is too early or too late is judged by that clock.
        gate: the limits of queues.
    """

    def __init__(
        self,
        client: Pushes,
        *,
        tick_ahead_s: float = TICK_AHEAD_S.default,
        tick_offset_s: float = TICK_OFFSET_S.default,
        gate: DepthGate | None = None,
    ) -> None:
        self._client = client
        self._tick_ahead_s = tick_ahead_s
        self._tick_offset_s = tick_offset_s
        self._gate = gate or DepthGate()

    def has_spilled(self, event: object) -> bool:  # noqa: ARG002 - as `SpillingPusher.has_spilled`
        """Whether an event comes out of a spill queue: there is none."""
        return False

    def push(self, asked: Sequence[Asked], answering: Answering, by: str) -> list[Result]:
        """Push the requests of one delivery; a result for each, in their order.

        Args:
            asked: in the order of delivery.
            answering: whether one that fails lets the others pass. Of WHOLE several are one request.
            by: who delivers, kept in the ledger of ticks for operators.
        """
        is_together = all(each.request.tick is None for each in asked)
        if is_together and (answering is Answering.WHOLE or _count(asked) <= BATCH_SIZE):
            try:
                return self._push_together(asked, answering)
            except (PayloadError, RedisRefused) as error:
                if answering is Answering.WHOLE or len(asked) == 1:
                    return [Result(record=each.record, error=error) for each in asked]
            except Exception as error:  # noqa: BLE001 - each record is answered for, with its error
                return [Result(record=each.record, error=error) for each in asked]
        return self._push_one_by_one(asked, answering, by)

    def _push_together(self, asked: Sequence[Asked], answering: Answering) -> list[Result]:
        if not asked:
            return []
        if len(asked) == 1 and (used := self._used_by_another(asked[0])) is not None:
            return [Result(record=asked[0].record, jobs=[used])]
        jobs = [(place, job) for place, each in enumerate(asked) for job in each.request.jobs]
        requests = [job for _, job in jobs]
        try:
            outcomes = self._client.push_once(
                [job.item for job in requests],
                [job.dedupe_key for job in requests],
                jids=[job.jid for job in requests],
                limits=self._gate.lengths(requests),
            )
        except QueueTooDeep as error:
            if not error.places:  # of a client of another kind
                return [Result(record=each.record, error=error) for each in asked]
            return self._push_what_fits(asked, answering, error)
        by_place: list[list[Enqueued]] = [[] for _ in asked]
        for outcome in outcomes:
            by_place[jobs[outcome.index][0]].append(outcome)
        return [
            Result(record=each.record, jobs=of_record)
            for each, of_record in zip(asked, by_place, strict=True)
        ]

    def _used_by_another(self, asked: Asked) -> Enqueued | None:
        """The first job, if another record with other content has used up the identity of this one.

        Asked only for several jobs of a record with a fingerprint: the guard of a single one says it in the
        push itself, while of several those at places that the other record had not would be enqueued.
        """
        first, *others = asked.request.jobs
        if not asked.record.fingerprint or not others:
            return None
        [known] = self._client.find_enqueued([first.item], [first.dedupe_key])
        if known is None or known.startswith(asked.record.fingerprint):
            return None
        if known == first.item.get("jid"):
            return None
        return Enqueued(
            index=0,
            jid=known,
            job_class=class_of(first.item),
            queue=queue_of(first.item),
            at=first.item.get("at"),
            duplicate=True,
        )

    def _push_what_fits(
        self, asked: Sequence[Asked], answering: Answering, error: QueueTooDeep
    ) -> list[Result]:
        """Refuse the records whose queue is at its limit, put off those that may be, and push the rest."""
        results: dict[int, Result] = {}
        fitting: dict[int, Asked] = {}
        failed: set[str | None] = set()
        first = 0
        for place, each in enumerate(asked):
            count = len(each.request.jobs)
            deep = _of_record(error.places, first, count)
            first += count
            if each.record.group in failed:
                results[place] = held_back(each.record)
            elif self._gate.actions(each.request, deep) <= {DepthAction.DELAY}:
                request = self._gate.delayed(each.request, deep) if deep else each.request
                fitting[place] = Asked(each.record, request)
            else:
                results[place] = Result(record=each.record, error=_too_deep(each.request, deep))
                if answering is not Answering.EACH:
                    failed.add(each.record.group)
        if failed and answering is Answering.WHOLE:
            results |= {place: held_back(each.record) for place, each in fitting.items()}
            fitting = {}
        pushed = self._push_together(list(fitting.values()), answering)
        results |= dict(zip(fitting, pushed, strict=True))
        return [results[place] for place in range(len(asked))]

    def _push_one_by_one(
        self, asked: Sequence[Asked], answering: Answering, by: str
    ) -> list[Result]:
        results: list[Result] = []
        failed: set[str | None] = set()
        away: RedisUnavailable | None = None
        for each in asked:
            if each.record.group in failed:
                results.append(held_back(each.record))
                continue
            if away is None:
                result = self._push_alone(each, by)
            else:  # each further attempt would wait as long
                result = Result(record=each.record, error=away)
            if isinstance(result.error, RedisUnavailable):
                away = result.error
            results.append(result)
            if result.error is not None and answering is not Answering.EACH:
                failed.add(each.record.group)
        return results

    def _push_alone(self, asked: Asked, by: str) -> Result:
        try:
            return self._push_one(asked, by)
        except Exception as error:  # noqa: BLE001 - as above
            return Result(record=asked.record, error=error)

    def _push_one(self, asked: Asked, by: str) -> Result:
        tick = asked.request.tick
        if tick is None:
            return self._push_together([asked], Answering.WHOLE)[0]
        try:
            outcome = self._push_tick(tick, asked.request.jobs, by)
        except QueueTooDeep as error:
            if self._gate.actions(asked.request, error.places) != {DepthAction.DELAY}:
                raise
            return self._push_one(
                Asked(asked.record, self._gate.delayed(asked.request, error.places)), by
            )
        if outcome.kind == "future":
            raise EventError(
                f"tick.at: {shorten(tick.at)} is more than {self._tick_ahead_s:g} s ahead of the clock of "
                "Redis; a tick is delivered when it is due, or its true delivery would be taken for a "
                f"duplicate (a clock that is wrong by more: {TICK_AHEAD_S.env[0]})"
            )
        if outcome.kind == "stale" and not tick.ignore_stale:
            raise stale_tick(tick)
        return _tick_result(asked, tick, outcome)

    def _push_tick(self, tick: Tick, jobs: Sequence[JobRequest], by: str) -> TickOutcome:
        return self._client.push_tick(
            tick.schedule,
            tick.instant,
            [job.item if job.jid is None else {**job.item, "jid": job.jid} for job in jobs],
            by=by,
            # An entry is forgotten so long after its instant: with this, 17 days of the server's clock later.
            horizon_s=TICK_HORIZON_S - round(self._tick_offset_s),
            ahead_s=self._tick_ahead_s + self._tick_offset_s,
            limits=self._gate.lengths(jobs),
            overlap=tick.overlap,
            max_age_s=tick.max_age_s,
        )


def held_back(record: Record) -> Result:
    """The result of a record that waits for an earlier one of its group."""
    return Result(
        record=record, error=HeldBack("an earlier record failed; both are delivered again")
    )


def stale_tick(tick: Tick) -> StaleTick:
    """The error for a tick that is older than its ledger remembers."""
    return StaleTick(
        f"tick.at: {shorten(tick.at)} is older than the {TICK_HORIZON_S // 86_400} days that the "
        "ledger remembers, so nobody knows whether it was enqueued; to enqueue it, invoke the "
        "function with the job and no tick (kiqbridge spill replay --stale); to let it pass, add "
        '"on_stale": "ignore" to the tick'
    )


def _count(asked: Sequence[Asked]) -> int:
    return sum(len(each.request.jobs) for each in asked)


def _of_record(noted: Mapping[int, T], first: int, count: int) -> dict[int, T]:
    """What is noted of the jobs of one record, by their places in it."""
    numbers = range(first, first + count)
    return {number - first: noted[number] for number in numbers if number in noted}


def _too_deep(request: EnqueueRequest, deep: Mapping[int, int]) -> QueueTooDeep:
    """The error of one record, whose jobs at these places were refused."""
    queues = {queue_of(request.jobs[place].item): length for place, length in deep.items()}
    return QueueTooDeep(queues, deep)


def _tick_result(asked: Asked, tick: Tick, outcome: TickOutcome) -> Result:
    """What became of a tick; a repeated delivery of one that enqueued nothing is answered as the first one."""
    kind = outcome.first if outcome.kind == "duplicate" else outcome.kind
    left_out = [_described(job.item, tick) for job in asked.request.jobs]
    if kind == "stale":
        return Result(record=asked.record, stale=left_out)
    if kind == "paused":
        return Result(record=asked.record, paused=left_out)
    if kind == "skipped":
        return Result(record=asked.record, skipped=left_out)
    return Result(record=asked.record, jobs=outcome.jobs)


def _described(item: Mapping[str, Any], tick: Tick) -> dict[str, Any]:
    return {
        "class": class_of(item),
        "queue": queue_of(item),
        "schedule": tick.schedule,
        "at": tick.at,
    }


def stamped(asked: Asked) -> Asked:
    """The same with the record's trace and fingerprint in each job that has none of its own.

    A jid that begins with a fingerprint shows what its request contained. So a duplicate's jid, which the guard
    keeps anyway, says whether the earlier request was the same or only used the same key.

    The jid of a job with a `dedupe_key` says nothing about the record: another record may have used that
    key first. Then the record has no fingerprint any more.
    """
    record, request = asked
    if not record.trace and not record.fingerprint:
        return asked
    if not all(isinstance(job.dedupe_key, Identity) for job in request.jobs):
        record = replace(record, fingerprint="")
    return Asked(record, replace(request, jobs=[_stamped(job, record) for job in request.jobs]))


def _stamped(job: JobRequest, record: Record) -> JobRequest:
    jid = job.jid
    if record.fingerprint and jid is None and "jid" not in job.item:
        jid = record.fingerprint + new_jid()[len(record.fingerprint) :]
    return replace(job, item={**record.trace, **job.item}, jid=jid)
