"""Claiming jobs into a registered in-flight list, and every way for a claimed job to leave it.

A claimer is one processor thread with a connection of its own. It numbers its claims; claim number
s acknowledges chunk s-1. All effects on the in-flight lists go through here, one script each.
"""

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.lease import Lease, LeaseKeeper
from kiqbridge.engine.inflight.reaping import count_orphan, orphan_count, orphan_id
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.round_trip import pack
from kiqbridge.wire.batches import count_by_bytes
from kiqbridge.wire.keys import Keys

_CLAIM = scripts.load("claim")
_CLAIM_AND_HAND_ON = scripts.load("claim_hand_on")
_GIVE_BACK = scripts.load("give_back")

FENCED = -1
_STALE = -2
SETTLED = (1, 0, FENCED)


class PreparedClaim(NamedTuple):
    """A claim as it will be sent, on whichever connection.

    Attributes:
        lease, sequence, is_repeated: under which it is made.
        most: jobs.
        packed: EVALSHA; `packed_whole` the same as EVAL, for a server that does not know the script.
    """

    lease: Lease
    sequence: int
    is_repeated: bool
    most: int
    packed: bytes
    packed_whole: Callable[[], bytes]


class Claimer:
    """Numbered claims under the process' lease.

    Used by one thread at a time, on that thread's connection. `source` gives the list to claim from
    for a queue's name; default: the queue itself.

    Attributes:
        last: the chunk of the last claim, which the next one acknowledges.
    """

    def __init__(
        self,
        tid: str,
        keeper: LeaseKeeper,
        connection: RedisConnection,
        keys: Keys,
        *,
        source: Callable[[str], str] | None = None,
    ) -> None:
        self.tid = tid
        self.connection = connection
        self._keeper = keeper
        self._keys = keys
        self._source = source or keys.queue
        self.last: Chunk | None = None
        self._sequence = 0
        self._is_acknowledged = False  # Redis has confirmed that of the last chunk
        self._is_unknown = False  # what a claim of the next number has brought
        self._lease = keeper.current

    def claim(
        self, queues: Sequence[str], most: int, without: Sequence[str] = (), *, sharers: int = 0
    ) -> Chunk | None:
        """Acknowledge the last chunk and take up to `most` jobs from the first queue that has any.

        Of few jobs it leaves their shares to so many `sharers`.

        Without queues it only acknowledges. Of the classes `without`, as they are spelled in JSON, none
        is taken: not what lies behind such a job either, and a queue where it is the next is passed over.
        None: there was nothing, or the lease was gone and a new one has been taken out.

        Raises:
            RedisUnavailable: call again; the claim is repeated under its number.
        """
        lease = self._keeper.current
        if lease.lost:
            # Another thread found it gone, and registers anew. The server may still know it, and a claim
            # would acknowledge what this thread has dropped because of that.
            self._keeper.renounce(lease, "another thread found it gone")
            return None
        if lease is not self._lease:
            self._begin_under(lease)
        sequence, asked = self._sequence + 1, self._most(most, sharers)
        self._is_unknown = True
        reply = self._ask(self.connection, lease, sequence, queues, asked, *without)
        if isinstance(reply, int):
            self.connection.close()
            self._keeper.renounce(lease, "fenced" if reply == FENCED else "its claims are unknown")
            return None
        return self._taken(lease, sequence, reply, is_stored=asked.endswith("?"))

    def _begin_under(self, lease: Lease) -> None:
        self._lease, self._sequence = lease, 0
        self._is_acknowledged = self._is_unknown = False

    def prepare(
        self, queues: Sequence[str], most: int, wake_list: str, token: str = ""
    ) -> PreparedClaim:
        """The next claim, to be sent when it is due; what it answers is for `accept`.

        Args:
            queues, most: as for `claim`.
            wake_list: where the token is put if there is a job.
            token: the last argument; empty: no process waits for it.
        """
        lease = self._keeper.current
        if lease is not self._lease:
            self._begin_under(lease)
        sequence, asked = self._sequence + 1, self._most(most, 0)
        keys = [*self._keys_of(lease, sequence, queues), *([wake_list] if token else ())]
        args = [lease.incarnation, self.tid, sequence, asked, *queues, token]
        script, rest = _CLAIM_AND_HAND_ON, (len(keys), *keys, *args)
        return PreparedClaim(
            lease,
            sequence,
            asked.endswith("?"),
            most,
            pack([("EVALSHA", script.sha, *rest)]),
            lambda: pack([("EVAL", script.text, *rest)]),
        )

    def may_send(self, prepared: PreparedClaim) -> bool:
        """Whether what was prepared is still the next claim, under a lease that is not lost; it is sent then."""
        lease = self._keeper.current
        if prepared.lease is not lease or lease.lost:
            return False
        self._is_unknown = True
        return True

    def accept(self, prepared: PreparedClaim, reply: object) -> tuple[bool, Chunk | None]:
        """What a prepared claim has brought, as (whether that is known, the chunk).

        What is not known is answered to the next `claim`, which bears the same number.
        """
        if not (isinstance(reply, list) and reply and isinstance(reply[0], bytes)):
            return False, None
        lease, sequence, is_repeated = prepared.lease, prepared.sequence, prepared.is_repeated
        return True, self._taken(lease, sequence, reply, is_stored=is_repeated)

    def _taken(
        self, lease: Lease, sequence: int, reply: Sequence[bytes], *, is_stored: bool
    ) -> Chunk | None:
        if len(reply) == 1:
            if is_stored:
                self._sequence = sequence
            self._is_acknowledged, self._is_unknown = True, False
            return None
        queue = reply[0].decode()
        chunk = Chunk(
            lease=lease,
            queue=queue,
            home=self._source(queue),
            list_key=self._keys.inflight_list(lease.incarnation, self.tid, sequence),
            jobs=reply[1:],
            tid=self.tid,
            sequence=sequence,
        )
        # Last: after an error up to here the claim is repeated, and answers the same jobs.
        self.last = chunk
        self._is_acknowledged = self._is_unknown = False
        self._sequence = sequence
        return chunk

    def acknowledge_for(self, connection: RedisConnection) -> None:
        """Acknowledge the last chunk from another thread, when this one begins nothing any more.

        Harmless beside a claim of the owner's: both bear the same number.

        Raises:
            RedisUnavailable: not acknowledged.
        """
        if not self._lease.lost:  # else what was dropped because of that would be acknowledged
            self._ask(connection, self._lease, self._sequence + 1, (), "0")

    def _ask(
        self,
        connection: RedisConnection,
        lease: Lease,
        sequence: int,
        queues: Sequence[str],
        most: str,
        *without: str,
    ) -> Any:
        reply = connection.script(
            _CLAIM,
            self._keys_of(lease, sequence, queues),
            [lease.incarnation, self.tid, sequence, most, *queues, *without],
        )
        if isinstance(reply, list) and reply and isinstance(reply[0], bytes):
            return reply
        return known_answer(connection, reply, (FENCED, _STALE))

    def _most(self, most: int, sharers: int) -> str:
        """How many jobs to take, as claim.lua reads it."""
        shared = f"/{sharers}" if sharers else ""
        acknowledged, unknown = "!" * self._is_acknowledged, "?" * self._is_unknown
        return f"{most}{shared}{acknowledged}{unknown}"

    def _keys_of(self, lease: Lease, sequence: int, queues: Sequence[str]) -> list[str]:
        keys = self._keys
        return [
            keys.inflight,
            keys.claims(lease.incarnation),
            keys.inflight_list(lease.incarnation, self.tid, sequence),
            keys.inflight_list(lease.incarnation, self.tid, sequence + 1),
            keys.paused,
            keys.careful,
            keys.alone,
            *(self._source(name) for name in queues),
        ]


class SpareClaimers:
    """Claimers whose chunks are done with, for threads that have left theirs to the event loop."""

    def __init__(self, make: Callable[[RedisConnection], Claimer]) -> None:
        self._make = make
        self._spare: deque[Claimer] = deque()

    def lend(self, connection: RedisConnection) -> Claimer:
        """One for the thread that owns this connection."""
        try:
            claimer = self._spare.pop()
        except IndexError:
            return self._make(connection)
        claimer.connection = connection
        return claimer

    def free(self, claimer: Claimer) -> None:
        """Take back a claimer whose last chunk holds no job any more."""
        self._spare.append(claimer)


def keys_of(keys: Keys, chunk: Chunk) -> list[str]:
    """What a script looks at to know that a chunk is still ours."""
    return [keys.inflight, keys.claims(chunk.lease.incarnation), chunk.list_key]


def claim_of(chunk: Chunk) -> list[str | bytes]:
    """The claim that a script compares with the stored one."""
    return [chunk.lease.incarnation, chunk.tid, str(chunk.sequence)]


def known_answer(connection: RedisConnection, reply: object, known: Container[int]) -> int:
    """A script's answer, if it is one of those that it gives.

    Raises:
        RedisUnavailable: the answer is not the server's, or belongs to another call: repeat the call.
    """
    if isinstance(reply, int) and reply in known:
        return reply
    connection.close()
    raise RedisUnavailable(
        f"an answer that Redis never gives to this call: {reply!r:.100}; it was ignored; check what is between this process and Redis"
    )


def give_back(connection: RedisConnection, keys: Keys, chunk: Chunk) -> int:
    """Put what is returning back to the consuming end of its queue; the caller holds `chunk.writing`.

    Returns how many were still ours; below 0 when the lease is gone.

    Raises:
        RedisUnavailable: repeat it: they are still returning; a second time does nothing.
        RedisRefused: nothing of the rest was moved.
    """
    moved = 0
    while jobs := chunk.returning:
        if not chunk.is_popped:
            jobs = jobs[: count_by_bytes([len(job) for job in jobs], connection.batch_bytes)]
        try:
            number = _push_back(connection, keys, chunk, jobs)
        except RedisRefused:
            raise
        except BaseException:
            chunk.sent(len(jobs))
            raise
        if number < 0:
            chunk.returned(len(chunk.returning))
            return number
        chunk.returned(len(jobs))
        moved += number
        chunk.on_return(number)
    return moved


def _push_back(connection: RedisConnection, keys: Keys, chunk: Chunk, jobs: Sequence[bytes]) -> int:
    if chunk.is_popped:
        connection.call("RPUSH", chunk.home, *jobs)
        return len(jobs)
    reply = connection.script(
        _GIVE_BACK,
        [*keys_of(keys, chunk), chunk.home, keys.alone],
        [*claim_of(chunk), *jobs],
        settles=True,
    )
    return known_answer(connection, reply, range(FENCED, len(jobs) + 1))


def take_away(
    connection: RedisConnection, keys: Keys, chunk: Chunk, job: bytes, *, orphan_limit: int
) -> int:
    """Move one claimed job that runs to the consuming end of its queue, counted as found orphaned.

    For the `orphan_limit`. time it goes to the suspects. Not for popped ones.

    Returns:
        How often it was found so; 0: it belongs to another worker now, nothing was done.

    Raises:
        RedisUnavailable: repeat it; a second time does nothing.
    """
    name = orphan_id(job)
    count = orphan_count(connection, keys, name) + 1
    home = chunk.home if count < orphan_limit else keys.suspects(chunk.queue)
    reply = connection.script(
        _GIVE_BACK, [*keys_of(keys, chunk), home, keys.alone], [*claim_of(chunk), job], settles=True
    )
    if known_answer(connection, reply, SETTLED) != 1:
        return 0
    count_orphan(connection, keys, name)
    return count
