"""A design that was not chosen (docs/decisions/0011): ranks with staggered looks over broadcast tracking.

The server reports each change of a queue to all idle processes. Each has a rank, and the ranks rotate with each
report. At a report the first rank claims at once, the one after it `STEP_S` later, and so on, unless another change
is reported meanwhile, such as the claim of an earlier rank. A report does not say whether it is of a push or of a
claim, so the first rank looks at each one.

A prototype for the measure `designs`, without pauses, rooms and handling of failures: it counts on processes that have
all seen the same reports.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kiqbridge.perform.listening import Offer
from kiqbridge.store.wake_connection import News, WakeConnection
from kiqbridge.wire.keys import Keys

if TYPE_CHECKING:
    from redis.connection import AbstractConnection

    from kiqbridge.inflight.chunk import Chunk
    from kiqbridge.inflight.claims import PreparedClaim

STEP_S = 0.002
LAST_RANK = 8
"""Later ranks make only safety looks: else each report would have the whole fleet look."""
SAFETY_S = 5.0
RANKS = "kb:wake:ranks"


class Ranked:
    """In place of a `Listening`, for the same gate."""

    def __init__(
        self, queues: Sequence[str], keys: Keys, connect: "Callable[[], AbstractConnection]"
    ) -> None:
        self._connection = WakeConnection(connect)
        self._queues = [keys.queue(name) for name in queues]
        self._prefix = keys.queue("")
        self._me = secrets.token_hex(6)
        self._rank, self._size, self._reports = 0, 1, 0
        self._is_broadcast = False
        self._safety_at = 0.0
        self._due_at = float("inf")
        self._settled_at = 0.0

    def interrupt(self) -> None:
        self._connection.interrupt()

    def looked(self, *, found: bool) -> None:
        pass

    def leave(self) -> None:
        pass

    def close(self) -> None:
        self._connection.close()

    def wait(self, offer: Offer | None = None) -> "Chunk | None":
        """Block until there are jobs, which are claimed already, or `interrupt` is called."""
        connection = self._connection
        assert offer is not None
        if not self._is_broadcast:
            self._join()
        prepared = offer.claimer.prepare(offer.queues, offer.most, None)
        while not connection.take_interruption():
            now = time.monotonic()
            due_at = min(self._due_at, self._safety_at)
            message = connection.receive(max(due_at - now, 0))
            is_push = False
            if isinstance(message, News):
                rank, is_push = self._note()
                if rank != 0:
                    continue
            elif time.monotonic() < due_at:
                continue
            elif due_at == self._safety_at:
                self._look_around()
            self._due_at = float("inf")
            chunk = self._claim(offer, prepared, is_push=is_push)
            if chunk is not None:
                return chunk
            prepared = offer.claimer.prepare(offer.queues, offer.most, None)
        return None

    def _join(self) -> None:
        self._connection.ask(
            ("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", self._prefix),
            ("ZADD", RANKS, 0, self._me),
        )
        self._is_broadcast = True
        self._safety_at = time.monotonic() + 1.0  # by then the others have joined

    def _look_around(self) -> None:
        rank, self._size = self._connection.ask(("ZRANK", RANKS, self._me), ("ZCARD", RANKS))
        self._rank = int(rank)
        self._safety_at = time.monotonic() + SAFETY_S

    def _note(self) -> tuple[int, bool]:
        """One more report: the rank that this process has for it, and whether it is of a push for all that is known."""
        now = time.monotonic()
        self._reports += 1
        rank = (self._rank + self._reports) % self._size
        # What comes while a push may wait to be claimed is most often the claim: the first rank looks all the same.
        may_be_claim = now < self._settled_at
        self._settled_at = 0.0 if may_be_claim else now + LAST_RANK * STEP_S
        is_mine = rank < LAST_RANK and not may_be_claim
        self._due_at = now + rank * STEP_S if is_mine else float("inf")
        return rank, not may_be_claim

    def _claim(self, offer: Offer, prepared: "PreparedClaim", *, is_push: bool) -> "Chunk | None":
        if not is_push and not self._connection.ask(("EXISTS", *self._queues))[0]:
            return None
        [reply] = self._connection.ask_packed(prepared.packed, 1, is_urgent=True)
        if isinstance(reply, Exception) and "NOSCRIPT" in str(reply):
            [reply] = self._connection.ask_packed(prepared.packed_whole(), 1)
        return offer.claimer.accept(prepared, reply)[1]
