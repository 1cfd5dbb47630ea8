"""The batches that are cancelled: none of their jobs is performed any more."""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.engine.settle.ending import Refusal
from kiqbridge.features.batches.steps import batch_of
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire.keys import Keys

MOST: Final = 10_000
"""The latest ones; older ones are not known as cancelled any more."""


class CancelledBatches:
    """Holds their jobs back: each ends as cancelled.

    Args:
        keys: the namespace.

    Attributes:
        bids: of those, as of the last look; replaced, never changed.
    """

    def __init__(self, keys: Keys) -> None:
        self.bids: frozenset[str] = frozenset()
        self._key = keys.cancelled_batches

    def look(self, connection: RedisLike, now: float) -> bool:
        """Read which are cancelled at `now` (epoch seconds); whether any is.

        Raises:
            RedisUnavailable, RedisRefused: they stay as they were.
        """
        command = ("ZRANGE", self._key, "+inf", repr(now), "BYSCORE", "REV", "LIMIT", 0, MOST)
        found = connection.call(*command)
        self.bids = frozenset(bid.decode(errors="replace") for bid in found)
        return bool(self.bids)

    def check(self, payload: Mapping[str, Any]) -> Refusal | None:
        """The reason why a job is not performed; None: it is."""
        bid = batch_of(payload)
        return Refusal(cancelled=f"its batch {bid} is cancelled") if bid in self.bids else None
