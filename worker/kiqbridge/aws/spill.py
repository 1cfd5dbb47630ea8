"""What Redis does not take now goes to a spill queue in SQS, from which this function takes it again.

The event then counts as accepted: its jobs have their jids, and whoever delivers it again is answered with
the same ones, since what identifies it travels with them. What cannot be sent there, either, is an error as
without a spill queue, and the service delivers it again.

Order: of a source that keeps one, the rest of a group follows its first record into the FIFO queue, also
in later invocations of this environment until Redis knows the last of them. Without a FIFO queue such
records are not spilled; they stay in order where they are.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kiqbridge.aws.depth import DepthGate, class_of, queue_of
from kiqbridge.aws.job_forms import EnqueueRequest, Tick
from kiqbridge.aws.push import Asked, HeldBack, Pusher, held_back
from kiqbridge.aws.record import SPILLED, Answering, Record, Result
from kiqbridge.aws.spill_form import Message, message_of
from kiqbridge.aws.spill_queue import MAX_BYTES, SpillQueues
from kiqbridge.client.client import Client
from kiqbridge.client.guarded_push import Enqueued
from kiqbridge.errors import (
    KiqbridgeError,
    PushOutcomeUnknown,
    QueueTooDeep,
    RedisUnavailable,
)
from kiqbridge.wire.bulk import BATCH_SIZE
from kiqbridge.wire.guards import Identity, Source
from kiqbridge.wire.payload import new_jids

logger = logging.getLogger(__name__)

OPEN_S: Final = 5.0
"""An attempt may take six seconds (two connections, three seconds each) of the twenty that the function has;
the next one after the pause tries again."""

Group = tuple[str, str | None]
"""Sender and name of a group."""


class SpillingPusher:
    """Pushes as `Pusher` does, and sends to the spill queues what Redis does not take.

    Args:
        pusher: pushes.
        queues: where else to send.
        client: knows what was enqueued.
        gate: the limits of queues.
        clock: epoch seconds.
    """

    def __init__(
        self,
        pusher: Pusher,
        queues: SpillQueues,
        client: Client,
        *,
        gate: DepthGate,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._pusher = pusher
        self._queues = queues
        self._client = client
        self._gate = gate
        self._clock = clock
        self._breaker = Breaker(clock)
        self._behind: dict[Group, Last] = {}
        """Groups that were spilled, each with its last job; what follows goes the same way."""

    def has_spilled(self, event: object) -> bool:
        """Whether an event comes out of one of the spill queues."""
        return self._queues.delivers(event)

    def push(self, asked: Sequence[Asked], answering: Answering, by: str) -> list[Result]:
        """As `Pusher.push`; the result of a record that was spilled has its jobs in `spilled`."""
        if asked and asked[0].record.source == SPILLED:  # its failure is SQS' to repeat
            return self._push(asked, answering, by)
        # Before it is known where they go: what is pushed in part and then spilled is known by its guards.
        asked = [_with_jids(each) for each in asked]
        waiting = self._groups_behind(asked) if answering is Answering.IN_ORDER else set()
        direct = [
            place for place, each in enumerate(asked) if _group_of(each.record) not in waiting
        ]
        pushed = self._push([asked[place] for place in direct], answering, by)
        results = [held_back(each.record) for each in asked]
        for place, result in zip(direct, pushed, strict=True):
            results[place] = result
        return self._spill(asked, results, answering, waiting, by)

    def _push(self, asked: Sequence[Asked], answering: Answering, by: str) -> list[Result]:
        if (refusal := self._breaker.refusal()) is not None:
            return [Result(record=each.record, error=refusal) for each in asked]
        results = self._pusher.push(asked, answering, by)
        self._breaker.note(results)
        return results

    def _spill(
        self,
        asked: Sequence[Asked],
        results: list[Result],
        answering: Answering,
        waiting: set[Group],
        by: str,
    ) -> list[Result]:
        """The results, after what may be spilled was."""
        places = self._places_to_spill(asked, results, answering, waiting)
        if not places:
            return results
        rounds = self._rounds(asked, places, answering, by)
        taken = {place for parcel in rounds for place in parcel.places}
        if answering is Answering.WHOLE and len(taken) < len(places):
            return results  # all of it is delivered again; what was sent is then a duplicate
        for place in taken:
            jobs = _described(asked[place].request)
            results[place] = Result(record=asked[place].record, spilled=jobs)
        return results

    def _places_to_spill(
        self,
        asked: Sequence[Asked],
        results: Sequence[Result],
        answering: Answering,
        waiting: set[Group],
    ) -> list[int]:
        if not (self._queues.fifo_url if answering is Answering.IN_ORDER else self._queues.url):
            return []
        if answering is Answering.WHOLE:  # an error that is not to be spilled is everybody's
            failed = [place for place, each in enumerate(results) if each.error is not None]
            own = [place for place in failed if not isinstance(results[place].error, HeldBack)]
            passing = own and all(
                self._may_spill(asked[place].request, results[place].error) for place in own
            )
            return failed if passing else []
        spilled = set(waiting)
        places = []
        for place, (each, result) in enumerate(zip(asked, results, strict=True)):
            group = _group_of(each.record)
            follows = isinstance(result.error, HeldBack) and group in spilled
            if follows or self._may_spill(each.request, result.error):
                places.append(place)
                spilled.add(group)
        return places

    def _may_spill(self, request: EnqueueRequest, error: Exception | None) -> bool:
        if isinstance(error, PushOutcomeUnknown):  # sent again, only what has a guard is known
            return request.tick is not None or all(job.dedupe_key for job in request.jobs)
        return error is not None and self._is_passing(error)

    def _is_passing(self, error: Exception) -> bool:
        """Whether it says that nothing was written, and that it will be possible later."""
        if isinstance(error, QueueTooDeep):
            return self._gate.is_spilled(error)
        return isinstance(error, RedisUnavailable)

    def _rounds(
        self, asked: Sequence[Asked], places: Sequence[int], answering: Answering, by: str
    ) -> list["Parcel"]:
        """Send, and return what was taken: a group's parcels one after the other, until one is not."""
        now = self._clock()
        if answering is not Answering.IN_ORDER:
            parcels = [_parcel(asked, [place], by, now) for place in places]
            if answering is Answering.WHOLE and any(each.is_too_large for each in parcels):
                return []
            return self._sent(parcels, to_fifo=False)
        by_group: dict[Group, list[int]] = {}
        for place in places:
            by_group.setdefault(_group_of(asked[place].record), []).append(place)
        left = {group: _packed(asked, members, by, now) for group, members in by_group.items()}
        taken: list[Parcel] = []
        while left:
            sent = self._sent([parcels[0] for parcels in left.values()], to_fifo=True)
            taken += sent
            for group, parcels in list(left.items()):
                if parcels[0] in sent:
                    self._behind[group] = parcels[0].last
                    del parcels[0]
                    if parcels:
                        continue
                del left[group]
        return taken

    def _sent(self, parcels: Sequence["Parcel"], *, to_fifo: bool) -> list["Parcel"]:
        fitting = [each for each in parcels if not each.is_too_large]
        try:
            taken = self._queues.send([each.message for each in fitting], to_fifo=to_fifo)
        except Exception as error:  # noqa: BLE001 - whatever it is, the service delivers again
            logger.warning(
                "the spill queue took nothing, so that the service has to deliver again: %s: %s. Check "
                "KIQBRIDGE_SPILL_QUEUE_URL, the function's right to sqs:SendMessage, and in a VPC the "
                "endpoint for SQS",
                type(error).__name__,
                error,
            )
            return []
        return [each for each in fitting if each.message.id in taken]

    def _groups_behind(self, asked: Sequence[Asked]) -> set[Group]:
        """The groups of which something spilled is not in Redis yet, so far as this environment knows."""
        groups = {_group_of(each.record) for each in asked} & self._behind.keys()
        for group in list(groups):
            if self._is_enqueued(self._behind[group]):
                del self._behind[group]
                groups.remove(group)
        return groups

    def _is_enqueued(self, last: "Last") -> bool:
        if self._breaker.refusal() is not None:
            return False
        try:
            if last.tick is not None:
                return self._client.find_tick(last.tick.schedule, last.tick.instant) is not None
            return self._client.find_enqueued([last.item], [last.key]) != [None]
        except KiqbridgeError:  # the push that follows reports it
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """By what the last job of a message is found in Redis: the key of its guard, or its tick."""

    item: Mapping[str, Any]
    key: str | Identity | None
    tick: Tick | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A message and the places of the records that are in it."""

    places: Sequence[int]
    message: Message
    last: Last

    @property
    def is_too_large(self) -> bool:
        """Whether SQS does not take it."""
        return len(self.message.body) > MAX_BYTES


def _parcel(
    asked: Sequence[Asked], places: Sequence[int], by: str, now: float, group: str | None = None
) -> Parcel:
    requests = [asked[place].request for place in places]
    message = message_of(asked[places[0]].record, requests, by=by, now=now, group=group)
    jobs = [job for request in requests for job in request.jobs]
    own = Identity(Source.SPILL, (message.id,)).of_job(len(jobs) - 1)
    last = Last(item=jobs[-1].item, key=jobs[-1].dedupe_key or own, tick=requests[-1].tick)
    return Parcel(places=places, message=message, last=last)


def _packed(asked: Sequence[Asked], places: Sequence[int], by: str, now: float) -> list[Parcel]:
    """The records of a group in as few messages as they fit into: one is taken or not, never a part."""
    group = _group_name(asked[places[0]].record)
    alone = [_parcel(asked, [place], by, now, group) for place in places]
    packs: list[list[int]] = []
    size = 0
    for place, parcel in zip(places, alone, strict=True):
        length = len(parcel.message.body)  # more than it adds to a message
        if packs and size + length <= MAX_BYTES and _may_join(asked, packs[-1], place):
            packs[-1].append(place)
            size += length
        else:
            packs.append([place])
            size = length
    if len(packs) == len(alone):
        return alone
    return [_parcel(asked, pack, by, now, group) for pack in packs]


def _may_join(asked: Sequence[Asked], places: Sequence[int], place: int) -> bool:
    requests = [asked[each].request for each in (*places, place)]
    jobs = sum(len(request.jobs) for request in requests)
    return jobs <= BATCH_SIZE and all(request.tick is None for request in requests)


def _with_jids(asked: Asked) -> Asked:
    """The same, with a jid for each job, so that it has the same one wherever it goes."""
    request = asked.request
    drawn = new_jids(len(request.jobs))
    jobs = [
        job if job.jid is not None or "jid" in job.item else replace(job, jid=jid)
        for job, jid in zip(request.jobs, drawn, strict=True)
    ]
    return Asked(asked.record, replace(request, jobs=jobs))


def _group_of(record: Record) -> Group:
    return record.origin, record.group


def _group_name(record: Record) -> str:
    """The name of a group in the FIFO queue; any text may name one at its source."""
    text = "\0".join((record.source, record.origin, record.group or ""))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _described(request: EnqueueRequest) -> list[Enqueued]:
    return [
        Enqueued(
            index=index,
            jid=str(job.jid or job.item["jid"]),
            job_class=class_of(job.item),
            queue=queue_of(job.item),
            at=job.item.get("at"),
            duplicate=False,
        )
        for index, job in enumerate(request.jobs)
    ]


class Breaker:
    """Whether Redis is worth asking: after a failure it is not asked again for some seconds.

    Args:
        clock: epoch seconds; not monotonic, since that stands still in an environment that is frozen.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._since = -OPEN_S

    def refusal(self) -> RedisUnavailable | None:
        """Why Redis is not asked now; None = ask it."""
        if not 0 <= self._clock() - self._since < OPEN_S:
            return None
        return RedisUnavailable(
            f"Redis did not answer less than {OPEN_S:g} s ago, so that it was not asked again; "
            "check REDIS_URL, that the server runs, and its security group"
        )

    def note(self, results: Sequence[Result]) -> None:
        """What became of a push."""
        if any(isinstance(each.error, RedisUnavailable) for each in results):
            self._since = self._clock()
        elif any(each.error is None for each in results):
            self._since = -OPEN_S
