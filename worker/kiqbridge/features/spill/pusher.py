"""What Redis does not take now goes to a spill queue in SQS, from which this function takes it again.

The event then counts as accepted: its jobs have their jids, and a service that delivers it again is answered with
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
from dataclasses import field, replace
from typing import Any, Final

from kiqbridge import errors
from kiqbridge.aws.push import DepthGate, HeldBack, Pusher, Pushing, held_back
from kiqbridge.aws.record import Answering, Delivery, Record, Result
from kiqbridge.aws.sources.queues import batch_answer
from kiqbridge.aws.sources.reading import mapping_or_empty
from kiqbridge.client.client import Client
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.features.spill import form
from kiqbridge.features.spill.form import SPILLED, Message, message_of, spill_key_of
from kiqbridge.features.spill.queues import MAX_BYTES, SpillQueues
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.bulk import BATCH_SIZE
from kiqbridge.wire.payload import new_jids

logger = logging.getLogger(__name__)

REFUSALS: Final = 3
"""Attempts after which a message that is refused for what it is goes to the dead-letter queue."""
OPEN_S: Final = 5.0
"""An attempt may take six seconds (two connections, three seconds each) of the twenty that the function has;
the next one after the pause tries again."""

Group = tuple[str, str | None]
"""Sender and name of a group."""


def spilling(pusher: Pusher, environ: Mapping[str, str]) -> Pushing:
    """The pusher, around it what spills if there is a queue for it."""
    urls = (ForFunctions.spill_queue_url, ForFunctions.spill_fifo_queue_url)
    url, fifo_url = (read(each, environ) for each in urls)
    if not (url or fifo_url):
        return pusher
    queues = SpillQueues(url, fifo_url, spill_key_of(environ))
    return SpillingPusher(pusher, queues, pusher.client, gate=pusher.gate)


@dataclass(slots=True)
class SpillingPusher:
    """Pushes as `Pusher` does, and sends to the spill queues what Redis does not take.

    Attributes:
        pusher: pushes.
        queues: where else to send.
        client: knows what was enqueued.
        gate: the limits of queues.
        clock: epoch seconds.
    """

    pusher: Pusher
    queues: SpillQueues
    client: Client
    gate: DepthGate
    clock: Callable[[], float] = time.time
    breaker: "Breaker" = field(init=False)
    behind: dict[Group, Message] = field(default_factory=dict)
    """Groups that were spilled, each with its last message; what follows goes the same way."""

    def __post_init__(self) -> None:
        self.breaker = Breaker(self.clock)

    def read_spilled(self, event: Any) -> Delivery | None:
        """The records of an event that comes out of one of the spill queues; None = it does not."""
        if not self.queues.delivers(event):
            return None
        return replace(form.read(event, self.queues.key), answer=self._answer)

    def _answer(self, results: Sequence[Result]) -> dict[str, list[dict[str, str]]]:
        """The failures, without those that go to the dead-letter queue: they would be refused for ever."""
        left, is_well = [], True
        for result in results:
            if is_well and _is_hopeless(result):
                is_well = self._give_up(result)  # else the next one would wait as long
                if is_well:
                    continue
            left.append(result)
        return batch_answer(left)

    def _give_up(self, result: Result) -> bool:
        try:
            self.queues.give_up(result.record.event, str(result.error))
        except Exception as failure:  # noqa: BLE001 - whatever it is, SQS delivers it again
            logger.warning(
                "a spilled message that is refused cannot be moved to the dead-letter queue, and is tried again: %s: "
                "%s. Let the function send to that queue (sqs:SendMessage)",
                type(failure).__name__,
                failure,
            )
            return False
        logger.warning(
            "message %s is refused again, and is in the dead-letter queue of the spill queue now: %s",
            result.record.item,
            result.error,
        )
        return True

    def push(self, records: Sequence[Record], answering: Answering, by: str) -> list[Result]:
        """Push the jobs of records; the result of a record that was spilled has its jobs in `spilled`."""
        if records and records[0].source == SPILLED:  # its failure is SQS' to repeat
            return self._ask_redis(records, answering, by)
        # Before it is known where they go: what is pushed in part and then spilled is known by its guards.
        _draw_jids(records)
        waiting: set[Group] = set()
        if answering is Answering.IN_ORDER and self.behind:
            waiting = self._groups_behind(records)
        if waiting:
            direct = [place for place, each in enumerate(records) if _group_of(each) not in waiting]
            results = [held_back(record) for record in records]
            pushed = self._ask_redis([records[place] for place in direct], answering, by)
            for place, result in zip(direct, pushed, strict=True):
                results[place] = result
        else:
            results = self._ask_redis(records, answering, by)
            if all(each.error is None for each in results):
                return results
        places = self._places_to_spill(records, results, answering, waiting)
        taken = self._spill(records, places, answering, by) if places else set()
        if answering is Answering.WHOLE and len(taken) < len(places):
            return results  # all of it is delivered again; what was sent is then a duplicate
        for place in taken:
            jobs = [job.answered(index) for index, job in enumerate(records[place].jobs)]
            results[place] = Result(record=records[place], spilled=jobs)
        return results

    def _ask_redis(self, records: Sequence[Record], answering: Answering, by: str) -> list[Result]:
        if (refusal := self.breaker.refusal()) is not None:
            return [Result(record=record, error=refusal) for record in records]
        results = self.pusher.push(records, answering, by)
        self.breaker.note(results)
        return results

    def _places_to_spill(
        self,
        records: Sequence[Record],
        results: Sequence[Result],
        answering: Answering,
        waiting: set[Group],
    ) -> list[int]:
        if not (self.queues.fifo_url if answering is Answering.IN_ORDER else self.queues.url):
            return []
        if answering is Answering.WHOLE:  # an error that is not to be spilled is everybody's
            failed = [place for place, each in enumerate(results) if each.error is not None]
            own = [place for place in failed if not isinstance(results[place].error, HeldBack)]
            passing = own and all(
                self._may_spill(records[place], results[place].error) for place in own
            )
            return failed if passing else []
        spilled = set(waiting)
        places = []
        for place, (record, result) in enumerate(zip(records, results, strict=True)):
            follows = isinstance(result.error, HeldBack) and _group_of(record) in spilled
            if follows or self._may_spill(record, result.error):
                places.append(place)
                spilled.add(_group_of(record))
        return places

    def _may_spill(self, record: Record, error: Exception | None) -> bool:
        """Whether an error says that nothing was written, and that it will be possible later."""
        if isinstance(
            error, errors.PushOutcomeUnknown
        ):  # sent again, only what has a guard is known
            return record.tick is not None or all(job.dedupe_key for job in record.jobs)
        if isinstance(error, errors.QueueTooDeep):
            return self.gate.is_spilled(error)
        return isinstance(error, errors.RedisUnavailable)

    def _spill(
        self, records: Sequence[Record], places: Sequence[int], answering: Answering, by: str
    ) -> set[int]:
        """The places of what was taken; a group's messages are sent one after the other, until one is not taken."""
        now = self.clock()
        if answering is not Answering.IN_ORDER:
            messages = [message_of(records, [place], by=by, now=now) for place in places]
            if answering is Answering.WHOLE and any(map(_is_too_large, messages)):
                return set()
            sent = self._send(messages, to_fifo=False)
            return {place for message in sent for place in message.places}
        by_group: dict[Group, list[int]] = {}
        for place in places:
            by_group.setdefault(_group_of(records[place]), []).append(place)
        left = {group: _packed(records, own, by, now) for group, own in by_group.items()}
        taken: set[int] = set()
        while left:
            sent = self._send([messages[0] for messages in left.values()], to_fifo=True)
            for group, messages in list(left.items()):
                if messages[0] in sent:
                    self.behind[group] = messages[0]
                    taken.update(messages.pop(0).places)
                    if messages:
                        continue
                del left[group]
        return taken

    def _send(self, messages: Sequence[Message], *, to_fifo: bool) -> list[Message]:
        """The messages that SQS took."""
        fitting = [each for each in messages if not _is_too_large(each)]
        try:
            taken = self.queues.send(fitting, to_fifo=to_fifo)
        except Exception as error:  # noqa: BLE001 - whatever it is, the service delivers again
            logger.warning(
                "the spill queue took nothing, so that the service has to deliver again: %s: %s. Check "
                "KIQBRIDGE_SPILL_QUEUE_URL, the function's rights to sqs:SendMessage and to the secret of "
                "KIQBRIDGE_SPILL_KEY_SECRET_ARN, and in a VPC the endpoints for SQS and Secrets Manager",
                type(error).__name__,
                error,
            )
            return []
        return [each for each in fitting if each.id in taken]

    def _groups_behind(self, records: Sequence[Record]) -> set[Group]:
        """The groups of which something spilled is not in Redis yet, so far as this environment knows."""
        groups = {_group_of(record) for record in records} & self.behind.keys()
        for group in list(groups):
            if self._is_enqueued(self.behind[group]):
                del self.behind[group]
                groups.remove(group)
        return groups

    def _is_enqueued(self, message: Message) -> bool:
        """Whether the last job of a message is in Redis."""
        if self.breaker.refusal() is not None:
            return False
        last, tick = message.last, message.tick
        try:
            if tick is not None:
                return self.client.find_tick(tick.schedule, tick.instant) is not None
            return self.client.find_enqueued([last.item], [last.dedupe_key]) != [None]
        except errors.KiqbridgeError:  # the push that follows reports it
            return False


def _is_hopeless(result: Result) -> bool:
    """Whether a message was refused for what it is, and not for the first time."""
    error = result.error
    if not isinstance(error, errors.EventError | errors.PayloadError) or error.may_pass:
        return False
    attributes = mapping_or_empty(result.record.event.get("attributes"))
    receives = str(attributes.get("ApproximateReceiveCount"))
    return receives.isdecimal() and int(receives) >= REFUSALS


def _is_too_large(message: Message) -> bool:
    """Whether SQS does not take a message."""
    return message.size > MAX_BYTES


def _packed(records: Sequence[Record], places: Sequence[int], by: str, now: float) -> list[Message]:
    """The records of a group in as few messages as they fit into: one is taken or not, never a part."""
    group = _group_name(records[places[0]])
    alone = [message_of(records, [place], by=by, now=now, group=group) for place in places]
    packs: list[list[int]] = []
    size = 0
    for place, message in zip(places, alone, strict=True):
        length = message.size  # more than it adds to a message
        if packs and size + length <= MAX_BYTES and _may_join(records, [*packs[-1], place]):
            packs[-1].append(place)
            size += length
        else:
            packs.append([place])
            size = length
    if len(packs) == len(alone):
        return alone
    return [message_of(records, pack, by=by, now=now, group=group) for pack in packs]


def _may_join(records: Sequence[Record], places: Sequence[int]) -> bool:
    jobs = sum(len(records[place].jobs) for place in places)
    return jobs <= BATCH_SIZE and all(records[place].tick is None for place in places)


def _draw_jids(records: Sequence[Record]) -> None:
    """Give each job a jid, so that it has the same one wherever it goes; in place, a copy takes as long as its push."""
    without = [
        job
        for record in records
        for job in record.jobs
        if job.jid is None and "jid" not in job.item
    ]
    for job, jid in zip(without, new_jids(len(without)), strict=True):
        job.jid = jid


def _group_of(record: Record) -> Group:
    return record.origin, record.group


def _group_name(record: Record) -> str:
    """The name of a group in the FIFO queue; any text may name one at its source."""
    text = "\0".join((record.source, record.origin, record.group or ""))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Breaker:
    """Whether Redis is worth asking: after a failure it is not asked again for some seconds.

    Args:
        clock: epoch seconds; not monotonic, since that stands still in an environment that is frozen.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._since = -OPEN_S

    def refusal(self) -> errors.RedisUnavailable | None:
        """Why Redis is not asked now; None = ask it."""
        if not 0 <= self._clock() - self._since < OPEN_S:
            return None
        return errors.RedisUnavailable(
            f"Redis did not answer less than {OPEN_S:g} s ago, so that it was not asked again; "
            "check REDIS_URL, that the server runs, and its security group"
        )

    def note(self, results: Sequence[Result]) -> None:
        """What became of a push."""
        failures = [each.error for each in results if each.error is not None]
        if any(isinstance(each, errors.RedisUnavailable) for each in failures):
            self._since = self._clock()
        elif len(failures) < len(results):
            self._since = -OPEN_S
