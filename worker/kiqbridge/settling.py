"""Writing down what became of a job that did not succeed: one script per verdict.

Those of a chunk that are to be tried again are written together, since a round trip costs ten times
the bookkeeping of a job: at the chunk's end, or by the guardian as soon as a long job holds it up.
Should the process die before, they run once more, as all that is not acknowledged.
"""

import logging
from collections.abc import Callable, Sequence

from kiqbridge.batches import count_by_bytes
from kiqbridge.claims import POPPED, Chunk, repush, route, settle, settle_all
from kiqbridge.execution import Settlement
from kiqbridge.keys import Keys
from kiqbridge.redis_connection import RedisConnection
from kiqbridge.retry import Verdict

logger = logging.getLogger(__name__)

Tell = Callable[[], None]
"""Tells the handlers of what has been written."""


class Settler:
    """From verdicts to Redis.

    `dead_bounds` says, for a time in epoch seconds, up to when the dead are forgotten, and how many
    are kept (§8.5).
    """

    def __init__(self, keys: Keys, dead_bounds: Callable[[float], tuple[float, int]]) -> None:
        self._keys = keys
        self._dead_bounds = dead_bounds

    def write(
        self, connection: RedisConnection, chunk: Chunk, text: bytes, settlement: Settlement
    ) -> bool:
        """Settle one claimed job, `text` as it was fetched; False: it was not ours any more.

        Raises:
            RedisUnavailable: repeat it; a second time does nothing.
        """
        verdict = settlement.verdict
        if verdict is Verdict.DROP:
            return True  # it leaves with the acknowledgement
        if verdict is Verdict.ROUTE:
            return route(connection, self._keys, chunk, text, settlement.queue)
        if verdict is Verdict.REPUSH:
            return repush(
                connection,
                self._keys,
                chunk,
                text,
                queue=settlement.queue,
                text=settlement.text,
            )
        target = self._keys.retry
        trim: tuple[float, ...] = ()
        if verdict is Verdict.SCHEDULE:
            target = self._keys.schedule
        elif verdict is Verdict.DEAD:
            target, trim = self._keys.dead, self._dead_bounds(settlement.score)
        return settle(
            connection,
            self._keys,
            chunk,
            text,
            target=target,
            score=settlement.score,
            text=settlement.text,
            trim=trim,
        )

    def may_wait(self, chunk: Chunk, settlement: Settlement) -> bool:
        """Whether it may be written with others of its chunk."""
        return settlement.verdict is Verdict.RETRY and chunk.lease is not POPPED

    def write_failed(self, connection: RedisConnection, chunk: Chunk) -> list[Tell]:
        """Settle what waits in `chunk.unsettled`; to be called under the chunk's lock.

        Returns what the caller then calls, after it has left the lock.

        Raises:
            RedisUnavailable: repeat it; a second time does nothing.
        """
        left = len(chunk.unsettled)  # its owner may append others
        while left:
            jobs = first_batch(chunk.unsettled[:left], connection.batch_bytes)
            chunk.unnotified += self.write_retries(connection, chunk, jobs)
            del chunk.unsettled[: len(jobs)]
            left -= len(jobs)
        told, chunk.unnotified = chunk.unnotified, []
        return told

    def write_retries(
        self,
        connection: RedisConnection,
        chunk: Chunk,
        jobs: Sequence[tuple[bytes, Settlement]],
    ) -> list[Tell]:
        """Settle jobs of one chunk, their texts as they were fetched, all of which `may_wait`.

        Returns what the caller then calls. Raises as `write`.
        """
        retries = [(text, settlement.score, settlement.text) for text, settlement in jobs]
        ours = settle_all(connection, self._keys, chunk, retries, target=self._keys.retry)
        if not all(ours):
            logger.warning(
                "%d failed jobs were not ours any more; whoever has them decides about them",
                ours.count(False),
            )
        return [
            settlement.then
            for (_, settlement), is_ours in zip(jobs, ours, strict=True)
            if is_ours and settlement.then is not None
        ]


def first_batch(
    jobs: Sequence[tuple[bytes, Settlement]], most_bytes: int
) -> Sequence[tuple[bytes, Settlement]]:
    """As many of the first of these as one call may settle."""
    sizes = [len(text) + len(settlement.text) for text, settlement in jobs]
    return jobs[: count_by_bytes(sizes, most_bytes)]
