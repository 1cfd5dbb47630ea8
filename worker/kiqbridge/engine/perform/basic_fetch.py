"""Fetching as Sidekiq does (protocol §6): BRPOP, which takes a job out of Redis.

A killed process loses what it was running. For comparison, and for a Redis without scripts;
without such a reason leave `fetch` at `reliable`.
"""

import threading
from collections.abc import Sequence

from kiqbridge.engine.inflight.chunk import NO_LEASE, Chunk
from kiqbridge.engine.inflight.outage import Outage
from kiqbridge.engine.perform.fetch import Fetches
from kiqbridge.engine.perform.slots import SlotsByKind
from kiqbridge.runtime.clock import lease_now
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.queues import QueueOrder

BLOCK_S = 2
"""Seconds that one BRPOP waits; also how long a thread takes to notice that it shall end."""

FIRST_LOOK_S = 0.01
LOOK_AT_PAUSES_S = 1.0
LOOK_AT_ROOMS_S = 0.05
"""How often to look for room, if none of the queues has a next job that could begin."""


class BasicFetcher(Fetches):
    """One job at a time for one thread; None after 2 s without one. A popped job is in no list to be acknowledged."""

    def __init__(
        self,
        connection: RedisConnection,
        keys: Keys,
        order: QueueOrder,
        outage: Outage,
        by_kind: SlotsByKind | None = None,
    ) -> None:
        super().__init__(connection, order, outage, by_kind)
        self._keys = keys
        self._paused: frozenset[str] = frozenset()
        self._looked_at = 0.0
        self._full: set[str] = set()
        self._last: Chunk | None = None

    @property
    def last(self) -> Chunk | None:
        """The chunk that was fetched last."""
        return self._last

    def was_put_back(self, chunk: Chunk, name: str, give_up: threading.Event) -> None:  # noqa: ARG002 - see `Fetches`
        """Pop nothing from its queue until there is room: what lies there is not seen before."""
        self._full.add(chunk.queue)

    def _take(self, most: int) -> Chunk | None:  # noqa: ARG002 - see `Fetches`
        queues = self._served()
        if not queues:
            pause_s = LOOK_AT_ROOMS_S if self._full else BLOCK_S
            threading.Event().wait(pause_s if self.has_fetched else 0)
            return None
        # The first time only a look: the process is not ready before each thread has had one.
        block_s = BLOCK_S if self.has_fetched else FIRST_LOOK_S
        # Not repeated after a lost reply: what it popped is lost, as with Sidekiq's own fetch.
        [reply] = self.connection.run(
            ("BRPOP", *(self._keys.queue(name) for name in queues), block_s), repeatable=False
        )
        if reply is None:
            return None
        key, text = reply
        home = text_of(key)
        queue = home.removeprefix(self._keys.queue(""))
        self._last = Chunk(lease=NO_LEASE, queue=queue, home=home, list_key="", jobs=[text])
        return self._last

    def _served(self) -> Sequence[str]:
        now = lease_now()
        if now - self._looked_at >= LOOK_AT_PAUSES_S:
            self._looked_at = now
            members = self.connection.call("SMEMBERS", self._keys.paused)
            self._paused = frozenset(map(text_of, members))
        if self._full and not self._by_kind.allowance(1)[1]:
            self._full.clear()
        queues = self._order()
        if not (self._paused or self._full):
            return queues
        return [name for name in queues if name not in self._paused and name not in self._full]
