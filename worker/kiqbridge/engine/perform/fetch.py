"""Getting the next jobs for one processor thread: claim, or wait until there is something (protocol §6).

1. Draw the order of the capsule's queues: `["critical", "default"]`.
2. Claim up to so many jobs of the first queue that has some, by one script (claims.py, claim.lua). It moves
   them from `queue:default` to the thread's in-flight list and acknowledges the chunk before:
   `Chunk(queue="default", jobs=[b'{"class":"Mail","args":[7],"jid":"b4a5…","retry":true,…}'])`.
3. While there is no place for the jobs of some classes, the claim leaves them out (slots.py).
4. Short jobs are claimed in chunks, of which the size follows from how long the last one took (`next_size`).
5. Nothing to claim: wait at the gate until a job is pushed (wakeup.py), which claims it for this thread as
   in 2. Redis is away: wait a second.

`BasicFetcher` fetches as Sidekiq does (protocol §6): by BRPOP, which takes a job out of Redis. A killed process loses
what it was running. For comparison, and for a Redis without scripts; without such a reason leave `fetch` at
`reliable`.
"""

import threading
from collections.abc import Sequence
from functools import partial

from kiqbridge.engine.inflight.chunk import NO_LEASE, Chunk
from kiqbridge.engine.inflight.claims import Claimer, SpareClaimers
from kiqbridge.engine.inflight.outage import RETRY_S, Outage, retry_until_written
from kiqbridge.engine.perform.listening import PendingClaim
from kiqbridge.engine.perform.slots import SlotsByKind, spellings
from kiqbridge.engine.perform.wakeup import IdleGate
from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime.clock import lease_now
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.queues import QueueOrder

SHORT_S = 0.020
"""A job is short up to here."""

CHUNK_S = 0.030
"""How long a whole chunk may take before claims stop growing; they shrink at twice that."""

MISREAD_S = 0.1
"""Pause after a job that was claimed, though jobs of its class were not to be."""


class Fetches:
    """Where a processor gets its jobs from.

    Attributes:
        connection: the thread's own, for settling what it fetched.
        has_fetched: a claim has succeeded, whether or not it brought jobs.
        refused: the unexpected error of the first claim, if it raised one.
    """

    def __init__(
        self,
        connection: RedisConnection,
        order: QueueOrder,
        outage: Outage,
        by_kind: SlotsByKind | None,
    ) -> None:
        self.connection = connection
        self._order = order
        self._outage = outage
        self._by_kind = by_kind or SlotsByKind((), {})
        self._work = f"taking jobs of {', '.join(sorted(order()))}"
        self.has_fetched = False
        self.refused: BaseException | None = None

    @property
    def last(self) -> Chunk | None:
        """The chunk that was fetched last: an error may have kept it from its thread."""
        raise NotImplementedError

    def fetch(self, most: int, give_up: threading.Event) -> Chunk | None:
        """Jobs of one queue, or None: look whether to go on."""
        try:
            chunk = self._take(most)
        except KiqbridgeError as error:
            self._outage.report(error, self._work)
            give_up.wait(RETRY_S)
            return None
        except BaseException as error:
            if not self.has_fetched:
                self.refused = error
            raise
        self.has_fetched = True
        self._outage.over(self._work)
        return self._taken(chunk, most)

    def _take(self, most: int) -> Chunk | None:
        raise NotImplementedError

    def _taken(self, chunk: Chunk | None, _most: int) -> Chunk | None:
        return chunk

    def acknowledge(self, give_up: threading.Event) -> None:
        """Acknowledge the last chunk without taking another.

        Raises:
            Shutdown: given up, since Redis is away.
        """

    def acknowledge_for(self, connection: RedisConnection) -> None:
        """Acknowledge the last chunk from another thread, when the own thread starts no more jobs."""

    def share(self, chunk: Chunk) -> None:
        """Jobs of this chunk, the last one fetched, run on the event loop: they are acknowledged singly."""

    def was_put_back(self, chunk: Chunk, name: str, give_up: threading.Event) -> None:
        """The next job of this chunk, of the class `name`, found no room; all of it was given back."""

    def leave(self, chunk: Chunk) -> None:
        """Leave a shared chunk to the event loop, and fetch on under another claimer."""


class Fetcher(Fetches):
    """Chunks for one thread, in the order of its capsule's queues."""

    def __init__(
        self,
        claimer: Claimer,
        order: QueueOrder,
        gate: IdleGate,
        outage: Outage,
        spare: SpareClaimers | None = None,
        *,
        by_kind: SlotsByKind | None = None,
    ) -> None:
        super().__init__(claimer.connection, order, outage, by_kind)
        self.claimer = claimer
        self._spare = spare
        self._gate = gate
        self._without: Sequence[str] = ()
        self._woken = False

    @property
    def last(self) -> Chunk | None:
        """The chunk that was fetched last."""
        return self.claimer.last

    def _take(self, most: int) -> Chunk | None:
        """Up to `most` jobs of one queue; acknowledges the chunk before."""
        try:
            if self._by_kind.is_tight:
                most, self._without = self._by_kind.allowance(most)
            else:
                self._without = ()
            return self.claimer.claim(
                self._order(), most, self._without, sharers=self._gate.sharers()
            )
        except BaseException:
            self._looked(found=False)  # else no idle thread would be woken any more
            raise

    def _taken(self, chunk: Chunk | None, most: int) -> Chunk | None:
        """What was claimed, or blocks until there is something; None: look whether to go on."""
        self._looked(found=chunk is not None)
        if chunk is None:
            self._woken = True  # before: an error raised in this thread may come in between
            at_news = partial(self._gate.most_at_news, most)
            chunk = self._gate.wait_for_work(PendingClaim(self.claimer, self._order(), at_news))
            if chunk is not None:
                self._gate.comes_in_bursts &= chunk.size > 1
                self._looked(found=True)
        else:
            self._gate.comes_in_bursts = True
        return chunk

    def acknowledge(self, give_up: threading.Event) -> None:
        """Acknowledge the last chunk without taking another, as soon as Redis lets us."""
        claim_nothing = partial(self.claimer.claim, (), 0)
        retry_until_written(claim_nothing, outage=self._outage, wait=give_up.wait)

    def acknowledge_for(self, connection: RedisConnection) -> None:
        """Acknowledge from another thread; as `Claimer.acknowledge_for`."""
        self.claimer.acknowledge_for(connection)

    def share(self, chunk: Chunk) -> None:
        """Have the jobs of this chunk acknowledged singly, since they run on the event loop."""
        if not chunk.is_shared and self._spare is not None:
            chunk.share(partial(self._spare.free, self.claimer))

    def was_put_back(self, chunk: Chunk, name: str, give_up: threading.Event) -> None:  # noqa: ARG002 - see `Fetches`
        """Wait for a moment if the class was to be left out already: the server did not recognise its spelling."""
        if any(spelling in self._without for spelling in spellings(name)):
            # Its text spells the class in a way of its own, so the server did not know it: it comes back
            # with the next claim, and again.
            give_up.wait(MISREAD_S)

    def leave(self, chunk: Chunk) -> None:
        """Leave a shared chunk to the event loop, and fetch on under another claimer."""
        if chunk.is_shared and self._spare is not None:
            self.claimer = self._spare.lend(self.connection)
            chunk.leave()

    def _looked(self, *, found: bool) -> None:
        if self._woken:
            self._woken = False
            self._gate.looked(found=found)


def next_size(size: int, *, chunk_s: float, longest_s: float, full: bool, limit: int) -> int:
    """How many jobs to claim next, given how the last chunk went (seconds).

    Doubles while whole chunks stay short, halves when they do not, and starts over at 1 after a
    job that was not short.
    """
    if longest_s > SHORT_S:
        return 1
    if chunk_s > 2 * CHUNK_S:
        return max(size // 2, 1)
    if full and chunk_s < CHUNK_S:
        return min(size * 2, limit)
    return size


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
