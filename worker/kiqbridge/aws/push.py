"""Pushing what records ask for: all of it in one script where that can be, each record all or none.

A batch of up to 1,000 jobs costs one round trip. If the script is refused because of one job (a queue of another
type, a job that the client refuses), the records are pushed one by one, so that only that one fails.

A push is also refused as a whole if a queue is at its limit, in the round trip that it costs anyway. Then the records
are divided here, and the others are pushed again. Only jobs that would be pushed now count: not those that run later,
and no duplicates.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate
from typing import Protocol

from kiqbridge import errors
from kiqbridge.aws.job_forms import JobRequest, Tick
from kiqbridge.aws.record import Answering, Delivery, Record, Result
from kiqbridge.client.client import Client
from kiqbridge.client.guarded_push import Enqueued
from kiqbridge.config.function_settings import DepthAction, ForFunctions, QueueLimit, limit_of
from kiqbridge.errors import ConfigError, QueueTooDeep
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.bulk import BATCH_SIZE
from kiqbridge.wire.payload import TICK_HORIZON_S


@dataclass(frozen=True, slots=True)
class DepthGate:
    """The limits in effect.

    Attributes:
        limits: of `KIQBRIDGE_QUEUE_LIMITS`; the first that matches a queue counts.
    """

    limits: Sequence[QueueLimit] = ()

    def check_spill(self, *, has_queue: bool) -> None:
        """Refuse limits that spill where there is no queue for it.

        Raises:
            ConfigError: names the variable that is missing.
        """
        if not has_queue and any(each.action is DepthAction.SPILL for each in self.limits):
            raise ConfigError(
                "queue_limits: spill needs a spill queue, and KIQBRIDGE_SPILL_QUEUE_URL is not set; set it, or "
                "choose reject or delay"
            )

    def lengths(self, jobs: Iterable[JobRequest]) -> Mapping[str, int]:
        """Queue → its limit, for those of the jobs that have one."""
        if not self.limits:
            return {}
        found = {queue: limit_of(self.limits, queue) for queue in {job.queue for job in jobs}}
        return {queue: limit.most for queue, limit in found.items() if limit is not None}

    def delayed(self, record: Record, deep: Mapping[int, int]) -> Record | None:
        """The record with the jobs at these places put off; None = one of them is not to be put off."""
        jobs, now = list(record.jobs), time.time()
        for place in deep:
            limit = limit_of(self.limits, jobs[place].queue)
            if limit is None or limit.action is not DepthAction.DELAY:
                return None
            item = {**jobs[place].item, "at": now + limit.delay_s}
            jobs[place] = replace(jobs[place], item=item)
        return replace(record, jobs=jobs) if deep else record

    def is_spilled(self, error: QueueTooDeep) -> bool:
        """Whether what was refused with this error goes to the spill queue."""
        limits = [limit_of(self.limits, queue) for queue in error.queues]
        return all(limit is not None and limit.action is not DepthAction.REJECT for limit in limits)


NO_FLEET = ""
"""The fleet of a queue that belongs to no fleet: a push to it is refused."""


class HeldBack(errors.KiqbridgeError):
    """Not enqueued, since an earlier record failed; the service delivers both again, in their order."""


class StaleTick(errors.EventError):
    """A tick so old that its ledger no longer shows whether it was enqueued."""


class Pushing(Protocol):
    """What an `Enqueuer` needs of a pusher."""

    def read_spilled(self, event: object) -> Delivery | None:
        """The records of an event that comes out of a spill queue; None = it does not."""

    def push(self, records: Sequence[Record], answering: Answering, by: str) -> list[Result]:
        """Push the jobs of the records of one delivery; a result for each record, in their order."""


@dataclass(slots=True)
class Pusher:
    """Pushes the jobs of records and says what became of each.

    Attributes:
        client: pushes.
        tick_ahead_s: seconds that a tick may lie ahead of the clock of Redis: clocks differ a little.
        tick_offset_s: seconds by which the clock of the schedules is ahead of that of Redis, where it is
            another one: `kiqbridge dev --at`. What is too early or too late is judged by that clock.
        gate: the limits of queues.
    """

    client: Client
    tick_ahead_s: float = ForFunctions.tick_ahead_s.default
    tick_offset_s: float = ForFunctions.tick_offset_s.default
    gate: DepthGate = DepthGate()

    def read_spilled(self, event: object) -> Delivery | None:
        """There is no spill queue."""

    def push(self, records: Sequence[Record], answering: Answering, by: str) -> list[Result]:
        """Push the jobs of the records of one delivery; a result for each record, in their order.

        Args:
            records: in the order of delivery.
            answering: whether one that fails lets the others pass. Of WHOLE several are one request.
            by: who delivers, kept in the ledger of ticks for operators.
        """
        is_one = len(records) == 1
        if is_one and (tick := records[0].tick) is not None:
            return [self._claim(records[0], tick, by)]
        if any(record.tick is not None for record in records):
            parts = [[record] for record in records]
        elif len(parts := _parts(records)) == 1 or answering is Answering.WHOLE:
            try:
                if is_one and (used := self._used_by_another(records[0])) is not None:
                    return [Result(record=records[0], jobs=[used])]
                jobs = [job for record in records for job in record.jobs]
                outcomes = self.client.push_once(
                    [job.item for job in jobs],
                    [job.dedupe_key for job in jobs],
                    jids=[job.jid for job in jobs],
                    limits=self.gate.lengths(jobs),
                    checked=True,  # by `parse_jobs`
                )
                pushed: list[list[Enqueued]] = [[] for _ in records]
                of_jobs = [
                    its for its, record in zip(pushed, records, strict=True) for _ in record.jobs
                ]
                for outcome in outcomes:
                    of_jobs[outcome.index].append(outcome)
                return [
                    Result(record=record, jobs=of_record)
                    for record, of_record in zip(records, pushed, strict=True)
                ]
            except errors.QueueTooDeep as error:
                return self._push_what_fits(records, answering, by, error.places)
            except Exception as error:  # noqa: BLE001 - each record is answered for, with its error
                may_be_of_one = isinstance(error, errors.PayloadError | errors.RedisRefused)
                if not may_be_of_one or answering is Answering.WHOLE or is_one:
                    return [Result(record=record, error=error) for record in records]
                parts = [[record] for record in records]
        return self._one_after_another(parts, answering, by)

    def _used_by_another(self, record: Record) -> Enqueued | None:
        """The first job, if another record with other content has used up the identity of this one.

        Redis is asked only for several jobs of a record with a fingerprint. The guard of a single job says it in
        the push itself; of several jobs, the push would enqueue those at places that the other record had not.
        """
        first, *others = record.jobs
        if not record.fingerprint or not others:
            return None
        [known] = self.client.find_enqueued([first.item], [first.dedupe_key])
        if known is None or known.startswith(record.fingerprint) or known == first.item.get("jid"):
            return None
        return first.answered(0, known, duplicate=True)

    def _push_what_fits(
        self, records: Sequence[Record], answering: Answering, by: str, deep: Mapping[int, int]
    ) -> list[Result]:
        """Refuse the records whose queue is at its limit, put off those that may be, and push the rest."""
        starts = [0, *accumulate(len(record.jobs) for record in records)]

        def fitting(place: int) -> Record | Result:
            record, start = records[place], starts[place]
            own = {n - start: deep[n] for n in range(start, starts[place + 1]) if n in deep}
            if (delayed := self.gate.delayed(record, own)) is not None:
                return delayed
            queues = {record.jobs[number].queue: length for number, length in own.items()}
            return Result(record=record, error=errors.QueueTooDeep(queues, own))

        return in_order(
            records, answering, fitting, lambda others: self.push(others, answering, by)
        )

    def _one_after_another(
        self, parts: Sequence[Sequence[Record]], answering: Answering, by: str
    ) -> list[Result]:
        """The results of all; after an outage, and behind a failure of their group, records are not pushed."""
        results: list[Result] = []
        failed: set[str | None] = set()
        away: errors.RedisUnavailable | None = None
        for part in parts:
            if away is None:
                pushed = in_order(
                    part,
                    answering,
                    part.__getitem__,
                    lambda others: self.push(others, answering, by),
                    failed,
                )
                seen = (each.error for each in pushed)
                away = next((e for e in seen if isinstance(e, errors.RedisUnavailable)), None)
                results += pushed
            else:  # each further attempt would wait as long
                results += [Result(record=record, error=away) for record in part]
        return results

    def _claim(self, record: Record, tick: Tick, by: str) -> Result:
        """Push the jobs of a tick, once; a repeated one that enqueued nothing is answered as the first one."""
        try:
            outcome = self.client.push_tick(
                tick.schedule,
                tick.instant,
                [job.item_with_jid for job in record.jobs],
                by=by,
                # An entry is forgotten so long after its instant: with this, 17 days of the server's clock later.
                horizon_s=TICK_HORIZON_S - round(self.tick_offset_s),
                ahead_s=self.tick_ahead_s + self.tick_offset_s,
                limits=self.gate.lengths(record.jobs),
                overlap=tick.overlap,
                max_age_s=tick.max_age_s,
            )
        except errors.QueueTooDeep as error:
            delayed = self.gate.delayed(record, error.places)
            return (
                Result(record=record, error=error)
                if delayed is None
                else self._claim(delayed, tick, by)
            )
        except Exception as error:  # noqa: BLE001 - as in `push`
            return Result(record=record, error=error)
        if outcome.kind == "future":
            early = errors.EventError(
                f"tick.at: {shorten(tick.at)} is more than {self.tick_ahead_s:g} s ahead of the clock of "
                "Redis; a tick is delivered when it is due, or its true delivery would be taken for a "
                f"duplicate (a clock that is wrong by more: {ForFunctions.tick_ahead_s.env[0]})"
            )
            early.may_pass = True
            return Result(record=record, error=early)
        if outcome.kind == "stale" and not tick.ignore_stale:
            return Result(record=record, error=stale_tick(tick))
        kind = outcome.first if outcome.kind == "duplicate" else outcome.kind
        return Result(record=record, jobs=outcome.jobs, left_out="" if kind == "enqueued" else kind)


def _parts(records: Sequence[Record]) -> list[list[Record]]:
    """As many records as may go in one push, and each that has more jobs alone."""
    parts: list[list[Record]] = []
    room = 0
    for record in records:
        room -= len(record.jobs)
        if room < 0 or not parts:
            parts.append([])
            room = BATCH_SIZE - len(record.jobs)
        parts[-1].append(record)
    return parts


@dataclass(slots=True)
class FleetPusher:
    """Pushes each record with those of its fleet: one that is away fails, or spills, its own records only.

    In a group that keeps its order, the records of one fleet wait for each other only: queues of two servers have no
    common order.

    Attributes:
        make: makes the pusher of a fleet, each with its own memory of what was away.
        name_of: the name of a queue's fleet; raises PayloadError if it has none.
        pushers: by the name of the fleet.
    """

    make: Callable[[], Pushing]
    name_of: Callable[[str], str]
    pushers: dict[str, Pushing] = field(default_factory=dict)

    def read_spilled(self, event: object) -> Delivery | None:
        """As of one of them: they share the spill queues."""
        return self._of_fleet(NO_FLEET).read_spilled(event)

    def push(self, records: Sequence[Record], answering: Answering, by: str) -> list[Result]:
        """Push records as `Pusher.push` does.

        What is all or nothing is pushed as one, and is refused if it has jobs of two fleets.
        """
        places: dict[str, list[int]] = {}
        for place, record in enumerate(records):
            its = records[0] if answering is Answering.WHOLE else record
            places.setdefault(self._fleet(its), []).append(place)
        results: dict[int, Result] = {}
        for name, own in places.items():
            pushed = self._of_fleet(name).push([records[place] for place in own], answering, by)
            results |= dict(zip(own, pushed, strict=True))
        return [results[place] for place in range(len(records))]

    def _of_fleet(self, name: str) -> Pushing:
        if name not in self.pushers:
            self.pushers[name] = self.make()
        return self.pushers[name]

    def _fleet(self, record: Record) -> str:
        try:
            return self.name_of(record.jobs[0].queue)
        except errors.PayloadError:
            return NO_FLEET


def looked_up(record: Record, known: Sequence[str | None]) -> Result:
    """What would become of a record; `known`: ids of its jobs that were enqueued before, None of a new one."""
    jobs = [
        job.answered(index, jid or None, duplicate=jid is not None)
        for index, (job, jid) in enumerate(zip(record.jobs, known, strict=True))
    ]
    return Result(record=record, jobs=jobs)


def in_order(
    records: Sequence[Record],
    answering: Answering,
    check: Callable[[int], Record | Result],
    push: Callable[[list[Record]], list[Result]] | None = None,
    failed: set[str | None] | None = None,
) -> list[Result]:
    """Check records one after the other, and push together those that pass; a result for each record.

    What follows a failed record of its group is not looked at, but held back, unless each is answered for itself.
    Of what is answered as a whole, one failure holds back all.

    Args:
        records: in the order of delivery.
        answering: how the service is answered.
        check: makes of a place the record to push, or its result.
        push: pushes; None = `check` makes results alone.
        failed: groups that have failed already; those that fail now are added.
    """
    results: dict[int, Result] = {}
    passed: dict[int, Record] = {}
    failed = set() if failed is None else failed
    for place, record in enumerate(records):
        checked = held_back(record) if record.group in failed else check(place)
        if isinstance(checked, Record):
            passed[place] = checked
            continue
        results[place] = checked
        if checked.error is not None and answering is not Answering.EACH:
            failed.add(record.group)
    if len(passed) == len(records) and push is not None and not failed:  # as nearly always
        pushed = push(list(passed.values())) if passed else []
        if answering is not Answering.EACH:
            failed |= {each.record.group for each in pushed if each.error is not None}
        return pushed
    if failed and answering is Answering.WHOLE:
        results |= {place: held_back(record) for place, record in passed.items()}
        passed = {}
    if passed and push is not None:
        results |= dict(zip(passed, push(list(passed.values())), strict=True))
    if answering is not Answering.EACH:
        failed |= {each.record.group for each in results.values() if each.error is not None}
    return [results[place] for place in range(len(records))]


def held_back(record: Record) -> Result:
    """The result of a record that waits for an earlier one of its group."""
    return Result(
        record=record, error=HeldBack("an earlier record failed; both are delivered again")
    )


def stale_tick(tick: Tick) -> StaleTick:
    """The error for a tick that is older than its ledger remembers."""
    return StaleTick(
        f"tick.at: {shorten(tick.at)} is older than the {TICK_HORIZON_S // 86_400} days that the "
        "ledger remembers, so it may have been enqueued; to enqueue it, invoke the "
        "function with the job and no tick (kiqbridge spill replay --stale); to let it pass, add "
        '"on_stale": "ignore" to the tick'
    )
