"""Writing down what became of a job that did not succeed: one script per verdict."""

from collections.abc import Callable

from kiqbridge.claims import Chunk, repush, route, settle
from kiqbridge.execution import Settlement
from kiqbridge.keys import Keys
from kiqbridge.redis_connection import RedisConnection
from kiqbridge.retry import Verdict


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
