"""Writing what becomes of a job that did not succeed: one script per target.

1. `write` gets the chunk, the job's text as it was fetched, and a `Settlement`:
   `target=RETRY, score=1700000017.5, text=b'{"class":"Mail",…,"retry_count":0}'`.
2. One script (settle.lua) adds the text to `retry`, `dead` or `schedule`, or to a queue, and removes the
   fetched one from the in-flight list. The effects of the job's end (ending.py) come about in the same script.
   A second time does nothing, so it is repeated until Redis confirms.
3. A job that is discarded is not written: it leaves with the acknowledgement of its chunk.
4. After that, and only then, `Settlement.notify` calls the error and death handlers.

Jobs of a chunk that are to be tried again, or whose success has effects, are written together, since a round trip
costs ten times the bookkeeping of a job: at the chunk's end, or by the prefetch revoker as soon as a long job holds
it up.
Should the process die before, they run once more, as all that is not acknowledged.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from itertools import takewhile

from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import repush, route, settle, settle_all
from kiqbridge.engine.settle.ending import Settlement, Target
from kiqbridge.engine.settle.notifications import Notification
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.batches import count_by_bytes
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)


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
        """Settle one claimed job, `text` as it was fetched; False: it was not ours any more.

        Raises:
            RedisUnavailable: repeat it; a second time does nothing.
        """
        target = settlement.target
        if settlement.leaves_with_chunk:
            return True
        if target is Target.ROUTE:
            return route(connection, self.keys, chunk, text, settlement.queue)
        if target is Target.REPUSH:
            return repush(
                connection,
                self.keys,
                chunk,
                text,
                queue=settlement.queue,
                text=settlement.text,
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
        self,
        connection: RedisConnection,
        chunk: Chunk,
        jobs: Sequence[tuple[bytes, Settlement]],
    ) -> list[Notification]:
        """Settle jobs of one chunk, their texts as they were fetched, which `first_batch` has put together.

        Returns what calls the handlers. Raises as `write`.
        """
        leaving = [(text, each.score, each.text, each.effects) for text, each in jobs]
        target = self._set_of(jobs[0][1].target)
        ours = settle_all(connection, self.keys, chunk, leaving, target=target)
        if not all(ours):
            logger.warning(
                "%d ended jobs were not ours any more; whoever has them decides about them",
                ours.count(False),
            )
        if any(each.effects for _, each in jobs):
            self.on_end()
        return [
            settlement.notify
            for (_, settlement), is_ours in zip(jobs, ours, strict=True)
            if is_ours and settlement.notify is not None
        ]


def first_batch(
    jobs: Sequence[tuple[bytes, Settlement]], most_bytes: int
) -> Sequence[tuple[bytes, Settlement]]:
    """As many of the first of these as one call may settle: jobs of one target."""
    sizes = [
        len(text) + len(each.text) + sum(effect.size for effect in each.effects)
        for text, each in takewhile(lambda job: job[1].target is jobs[0][1].target, jobs)
    ]
    return jobs[: count_by_bytes(sizes, most_bytes)]
