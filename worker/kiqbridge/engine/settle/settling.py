"""Writing what becomes of a job that did not succeed: one script per target.

1. `write` gets the chunk, the job's text as it was fetched, and a `Settlement`:
   `target=RETRY, score=1700000017.5, text=b'{"class":"Mail",…,"retry_count":0}'`.
2. One script (settle.lua) adds the text to `retry`, `dead` or `schedule`, or to a queue, and removes the
   fetched one from the in-flight list. The same script makes the effects of the job's end (ending.py).
   A second time does nothing, so it is repeated until Redis confirms.
3. A job that is discarded is not written: it leaves with the acknowledgement of its chunk.
4. After that, and only then, `Settlement.notify` calls the error and death handlers.
5. Each thread writes by a `ChunkWriter`, which repeats all of that and gives back what is not finished.

Jobs of a chunk that are to be tried again, or whose success has effects, are written together, since a round trip
costs ten times the bookkeeping of a job: at the chunk's end, or by the prefetch revoker as soon as a long job holds
it up.
Should the process die before, they run once more, as all that is not acknowledged.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from functools import partial
from itertools import takewhile
from typing import TypeVar

from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import (
    FENCED,
    SETTLED,
    claim_of,
    give_back,
    keys_of,
    known_answer,
)
from kiqbridge.engine.inflight.outage import Outage, retry_until_written
from kiqbridge.engine.settle.ending import Settlement, Target
from kiqbridge.engine.settle.notifications import Notification
from kiqbridge.runtime.records import dataclass
from kiqbridge.store import scripts
from kiqbridge.store.effects import Effect, packed
from kiqbridge.store.enqueueing import push_commands
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.round_trip import Command
from kiqbridge.wire.batches import count_by_bytes
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

T = TypeVar("T")

_NOT_OURS = "a failed job belongs to another worker now; that one decides about it"


_SETTLE = scripts.load("settle")
_ACKNOWLEDGE = scripts.load("acknowledge")
_REPUSH = scripts.load("repush")

_ENDLESS = 2
_TAKEN = (1, 0, _ENDLESS)


@dataclass(slots=True, eq=False)
class Settler:
    """Writes verdicts to Redis.

    Attributes:
        keys: names under the namespace.
        on_end: called when a job has ended and that has effects, whatever thread it is on.
    """

    keys: Keys
    _: KW_ONLY
    on_end: Callable[[], object] = lambda: None

    def write(
        self, connection: RedisConnection, chunk: Chunk, text: bytes, settlement: Settlement
    ) -> bool:
        """Settle one claimed job, `text` as it was fetched; False: it belongs to another worker now.

        Raises:
            RedisUnavailable: repeat it; a second time does nothing.
        """
        target = settlement.target
        if settlement.leaves_with_chunk:
            return True
        if target is Target.ROUTE:
            queue = settlement.queue
            return repush(connection, self.keys, chunk, text, queue=queue, text=text)
        if target is Target.REPUSH:
            return repush(
                connection, self.keys, chunk, text, queue=settlement.queue, text=settlement.text
            )
        is_ours = settle(
            connection,
            self.keys,
            chunk,
            text,
            target=self._set_of(target),
            score=settlement.score,
            text=settlement.text,
            effects=settlement.effects,
        )
        if is_ours and settlement.effects:
            self.on_end()
        return is_ours

    def _set_of(self, target: Target) -> str | None:
        sets = {
            Target.RETRY: self.keys.retry,
            Target.SCHEDULE: self.keys.schedule,
            Target.DEAD: self.keys.dead,
        }
        return sets.get(target)

    def may_wait(self, chunk: Chunk, settlement: Settlement) -> bool:
        """Whether it may be written with others of its chunk."""
        if settlement.target is Target.DISCARD:
            return bool(settlement.effects) and not chunk.is_popped
        return settlement.target is Target.RETRY and not chunk.is_popped

    def write_ended(self, connection: RedisConnection, chunk: Chunk) -> list[Notification]:
        """Settle what has ended in a chunk; the caller holds `chunk.writing`.

        Returns what calls the handlers; the caller calls it after it has released that lock.

        Raises:
            RedisUnavailable: repeat it; a second time does nothing.
        """
        left = len(chunk.ended)  # its owner may add others
        while left:
            jobs = first_batch(chunk.ended[:left], connection.batch_bytes)
            chunk.written(len(jobs), self.write_together(connection, chunk, jobs))
            left -= len(jobs)
        return chunk.take_notifications()

    def write_together(
        self, connection: RedisConnection, chunk: Chunk, jobs: Sequence[tuple[bytes, Settlement]]
    ) -> list[Notification]:
        """Settle jobs of one chunk, their texts as they were fetched, which `first_batch` has put together.

        Returns what calls the handlers. Raises as `write`.
        """
        leaving = [(text, each.score, each.text, each.effects) for text, each in jobs]
        target = self._set_of(jobs[0][1].target)
        ours = settle_all(connection, self.keys, chunk, leaving, target=target)
        if not all(ours):
            logger.warning(
                "%d ended jobs belong to other workers now; those decide about them",
                ours.count(False),
            )
        if any(each.effects for _, each in jobs):
            self.on_end()
        return [
            settlement.notify
            for (_, settlement), is_ours in zip(jobs, ours, strict=True)
            if is_ours and settlement.notify is not None
        ]


@dataclass(eq=False, repr=False)
class ChunkWriter:
    """What one thread writes of its chunks, each repeated until Redis has it.

    Its methods raise `Shutdown` if the thread is to end while Redis is away.

    Args:
        settler: for all threads.
        connection: the thread's own.
        outage: for the log.
        wait: as of `retry_until_written`.
    """

    settler: Settler
    connection: RedisConnection
    outage: Outage
    wait: Callable[[float], bool]

    def until_written(self, write: Callable[[], T]) -> T:
        """Repeat a write."""
        return retry_until_written(write, outage=self.outage, wait=self.wait)

    def settle(self, chunk: Chunk, text: bytes, settlement: Settlement) -> bool:
        """Write what becomes of the running job, now or with others of its chunk; then call the handlers.

        Returns whether it waits for nothing but the acknowledgement of its chunk.
        """
        if chunk.size > 1 and self.settler.may_wait(chunk, settlement):
            if not chunk.end(settlement):
                logger.warning(_NOT_OURS)
            return False  # settling acknowledges it
        write = partial(self.settler.write, self.connection, chunk, text, settlement)
        if not self.until_written(write):
            logger.warning(_NOT_OURS)
        elif settlement.notify is not None:
            settlement.notify()
        if settlement.leaves_with_chunk:
            return True
        chunk.settled()
        return False

    def give_back(self, chunk: Chunk) -> None:
        """Give back all that is not finished."""
        if chunk.has_waiting or chunk.returning or chunk.running is not None:
            self.until_written(partial(self._give_back_once, chunk, revokes=True))

    def write_rest(self, chunk: Chunk) -> None:
        """Write what has ended, and what the revoker or the manager is giving back, or could not."""
        if chunk.returning:
            self.until_written(partial(self._give_back_once, chunk))
        self.write_ended(chunk)

    def write_ended(self, chunk: Chunk) -> None:
        """Write what has ended."""

        def write() -> list[Notification]:
            with chunk.writing:
                return self.settler.write_ended(self.connection, chunk)

        if chunk.has_ended:
            for notify in self.until_written(write):
                notify()

    def _give_back_once(self, chunk: Chunk, *, revokes: bool = False) -> None:
        with chunk.writing:
            if revokes:
                chunk.revoke_unfinished()
            give_back(self.connection, self.settler.keys, chunk)


def first_batch(
    jobs: Sequence[tuple[bytes, Settlement]], most_bytes: int
) -> Sequence[tuple[bytes, Settlement]]:
    """As many of the first of these as one call may settle: jobs of one target."""
    sizes = [
        len(text) + len(each.text) + sum(effect.size for effect in each.effects)
        for text, each in takewhile(lambda job: job[1].target is jobs[0][1].target, jobs)
    ]
    return jobs[: count_by_bytes(sizes, most_bytes)]


def settle(
    connection: RedisConnection,
    keys: Keys,
    chunk: Chunk,
    job: bytes,
    *,
    target: str | None,
    score: float,
    text: bytes,
    effects: Sequence[Effect] = (),
) -> bool:
    """Move a claimed job into a sorted set, or let it leave Redis, and acknowledge it, in one step.

    Args:
        connection: where to write.
        keys: the namespace.
        chunk: that holds the job.
        job: as it was fetched.
        target: key of the sorted set; None = it leaves Redis.
        score, text: the member.
        effects: of its end (engine/settle/ending.py); made in the same step.

    Returns:
        False: it belongs to another worker now, nothing was done.

    Raises:
        RedisUnavailable: repeat it; a second time does nothing.
    """
    if chunk.is_popped:  # in no list that names its owner: written as Sidekiq does
        commands: list[Command] = [("ZADD", target, repr(score), text)] if target else []
        commands += [each for effect in effects for each in _plain_effect(connection, effect)]
        if commands:
            connection.run(("MULTI",), *commands, ("EXEC",))
        return True
    return settle_all(connection, keys, chunk, [(job, score, text, effects)], target=target)[0]


def settle_all(
    connection: RedisConnection,
    keys: Keys,
    chunk: Chunk,
    jobs: Sequence[tuple[bytes, float, bytes, Sequence[Effect]]],
    *,
    target: str | None,
) -> list[bool]:
    """Move claimed jobs of one chunk, each (job, score, text, effects), as `settle` does, all in one script.

    Not for popped jobs. The answer is False in the place of each job that belongs to another worker now.

    Raises:
        RedisUnavailable: repeat it; a second time does nothing.
    """
    args: list[str | bytes | float] = [*claim_of(chunk)]
    targets = [*keys_of(keys, chunk), target or chunk.list_key]
    for job, score, text, effects in jobs:
        its_keys, its_args = packed(effects)
        targets += its_keys
        args += [job, repr(score), text, *its_args]
    answer = connection.script(_SETTLE, targets, args, settles=True)
    if isinstance(answer, list) and len(answer) == len(jobs):
        numbers = [known_answer(connection, each, _TAKEN) for each in answer]
        if _ENDLESS in numbers:
            *_, effects = jobs[numbers.index(_ENDLESS)]
            _warn_of_no_end(next(each for each in effects if each.name == "ledger"))
        return [number != 0 for number in numbers]
    return [known_answer(connection, answer, (FENCED,)) == 1] * len(jobs)


def _warn_of_no_end(effect: Effect) -> None:
    ends, ledger = effect.keys
    logger.warning(
        "%s or %s is no sorted set: how a job of this schedule ended is not in its ledger (%s); all else is "
        "settled. Delete the key that something else has written",
        ends,
        ledger,
        bytes(effect.args[1]).decode(errors="replace"),  # type: ignore[arg-type] # the text of a JobEnd
    )


def repush(
    connection: RedisConnection, keys: Keys, chunk: Chunk, job: bytes, *, queue: str, text: bytes
) -> bool:
    """Push a claimed job again, to the end of a queue, and acknowledge it, in one step.

    False: it belongs to another worker now, nothing was done.

    Raises:
        RedisUnavailable: repeat it; a second time does nothing.
    """
    if chunk.is_popped:
        # Repeated after a lost reply: twice is better than not at all.
        connection.run(("MULTI",), *push_commands(keys, {queue: [text]}), ("EXEC",))
        return True
    outcome = connection.script(
        _REPUSH,
        [*keys_of(keys, chunk), keys.queues, keys.queue(queue)],
        [*claim_of(chunk), job, text, queue],
        settles=True,
    )
    return known_answer(connection, outcome, SETTLED) == 1


def acknowledge(
    connection: RedisConnection, keys: Keys, done: Sequence[tuple[Chunk, bytes]]
) -> None:
    """Take single finished jobs off the lists of their chunks, which are of one lease.

    Of twins, jobs with the same bytes, so many stay as are not finished, however often it is repeated.

    Raises:
        RedisUnavailable: repeat it; a second time does nothing.
    """
    if done[0][0].is_popped:
        return
    lease = done[0][0].lease
    chunks = {(chunk.tid, chunk.sequence): chunk for chunk, _ in done}
    numbers = {claim: str(number) for number, claim in enumerate(chunks, start=3)}
    args: list[str | bytes] = [lease.incarnation]
    for tid, sequence in chunks:
        args += [tid, str(sequence)]
    for chunk, text in done:
        number = numbers[chunk.tid, chunk.sequence]
        if (copies := chunk.copies_of(text)) is not None:
            finished = sum(each is chunk and other == text for each, other in done)
            number = f"{number} {max(copies - finished, 0)}"
        args += [number, text]
    lists = [chunk.list_key for chunk in chunks.values()]
    connection.script(_ACKNOWLEDGE, [keys.inflight, keys.claims(lease.incarnation), *lists], args)


def _plain_effect(connection: RedisConnection, effect: Effect) -> list[Command]:
    """What has an effect of the end of a popped job, by the rules of the script's part leave.lua."""
    target, *ledger = effect.keys
    score, text = effect.args
    if ledger:
        kinds = connection.run(("TYPE", target), ("TYPE", *ledger))
        if not set(kinds) <= {b"zset", b"none"}:
            _warn_of_no_end(effect)
            return []
        if not connection.call("ZCOUNT", *ledger, score, score):
            return []
    return [("ZADD", target, score, text)]
