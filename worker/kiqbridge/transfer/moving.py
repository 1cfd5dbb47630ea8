"""Moving what waits of a queue from one shard to another, in numbered batches (reliability §16).

1. On the source a script moves the next jobs into the list `kb:moving:QUEUE`, behind a mark with the batch's number.
2. On the target a script puts them in and notes that number, unless it is noted already.
3. On the source a script drops the list, if its mark is still this one.

Killed after 1 or 2, the next run finds the list, and on the target whether the batch is there. Two runs at once do
each step for each other.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kiqbridge.errors import PayloadError, PushNotReplicated, RedisUnavailable
from kiqbridge.store import scripts
from kiqbridge.store.locks import LOOK_S
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replicas import NotReplicated, Replicas
from kiqbridge.wire import json_text
from kiqbridge.wire.flow_mark import flow_of
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.locks import lock_in
from kiqbridge.wire.names import bytes_of, text_of

MOST_JOBS: Final = 500
MOST_BYTES: Final = 1_000_000
"""Of a batch: some milliseconds of each server."""

SETS: Final = ("schedule", "retry")
"""Where jobs of a queue wait besides the queue. What is in `dead` stays: nothing waits for it."""

ITERATION_S: Final = 30 * 86_400
"""How long the progress of an iterable job is kept, as the client keeps it."""

_TURNS: Final = 100
_HOLD: Final = scripts.load("move_hold")
_PUT: Final = scripts.load("move_put")
_DROP: Final = scripts.load("move_drop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Jobs on their way.

    Attributes:
        mark: the first member of the list that holds them.
        number, token: what distinguishes it from all others of its queue and its source.
        place: `queue`, `schedule` or `retry`.
        target: name of the shard.
        texts: the jobs, the next to be performed first.
        scores: of those of a set, as text.
    """

    mark: bytes
    number: int
    token: str
    place: str
    target: str
    texts: Sequence[bytes]
    scores: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a look at a place has found.

    Attributes:
        looked, stayed: how many jobs were looked at, and how many of them do not go along.
        batch: what is to be moved; None: nothing.
    """

    looked: int
    stayed: int
    batch: Batch | None


@dataclass(slots=True)
class Moved:
    """What was moved, and what stays: of the queue, and of `schedule` and `retry`."""

    queue: int = 0
    schedule: int = 0
    retry: int = 0
    stayed: int = 0

    @property
    def total(self) -> int:
        """How many were moved."""
        return self.queue + self.schedule + self.retry

    def add(self, other: "Moved") -> None:
        """Count what another look has moved; what stays is what it has found last."""
        self.queue += other.queue
        self.schedule += other.schedule
        self.retry += other.retry


class Mover:
    """Moves a queue from one shard to another.

    Args:
        queue: name of the queue.
        keys: the namespace, the same on both.
        source: the shard that held it.
        target: the shard where it lies now.
        to: name of the target.
        replicas: who must confirm that the target has a batch before the source drops it; None: nobody.

    Raises:
        PayloadError: both are the same server.
        RedisUnavailable: one of them is away.
    """

    def __init__(
        self,
        queue: str,
        keys: Keys,
        source: RedisPool,
        target: RedisPool,
        *,
        to: str,
        replicas: Replicas | None = None,
    ) -> None:
        self._queue, self._keys = queue, keys
        self._source, self._target, self._to = source, target, to
        self._replicas = replicas
        self._id = shard_id(source, keys)
        if self._id == shard_id(target, keys):
            raise PayloadError(
                f"shard {to}: {target.address} and {source.address} are the same Redis; correct KIQBRIDGE_SHARDS, or, "
                f"if one was copied from the other, delete {keys.shard_id} on one of them"
            )
        self._field = f"{self._id} {queue}"
        self._last = _number(target.call("HGET", keys.moved, self._field))

    def finish(self) -> Moved:
        """Bring to its end what an earlier run has left on its way, wherever that was to go to.

        Raises:
            PayloadError: it was to go to another shard than this one.
            KiqbridgeError: repeat it.
        """
        moved = Moved()
        batch = pending_batch(self._source, self._keys, self._queue)
        if batch is not None:
            if batch.target != self._to:
                raise PayloadError(
                    f"a batch of {self._queue} is on its way to shard {batch.target}"
                )
            self._bring(batch, moved)
        return moved

    def move_queue(self, advance: Callable[[int], None] | None = None) -> Moved:
        """Move the jobs that wait in the queue, as many as there are when it begins.

        Args:
            advance: is called after each batch with how many were moved by this call.

        Raises:
            RedisUnavailable, RedisRefused: repeat it: nothing is lost, and nothing is there twice.
            PushNotReplicated: the target has a batch, too few replicas have confirmed it; repeat it.
        """
        key, moved = self._keys.queue(self._queue), Moved()
        left = int(self._source.call("LLEN", key))
        while left > 0:
            held = self._hold(key, "queue", min(left, MOST_JOBS), ["queue"])
            moved.stayed += held.stayed
            left -= held.looked
            if held.batch is not None:
                self._bring(held.batch, moved)
                if advance is not None:
                    advance(moved.total)
            elif not held.looked:
                break
        return moved

    def move_members(self, name: str, members: Sequence[bytes]) -> Moved:
        """Move members of `schedule` or `retry` that are still there; see `move_queue`."""
        key, moved = str(getattr(self._keys, name)), Moved()
        for part in _parts(members):
            # Once more, if another batch had to be brought to its end first.
            while (held := self._hold(key, name, len(part), ["set", *part])).batch is not None:
                moved.stayed += held.stayed
                self._bring(held.batch, moved)
                if held.looked:
                    break
            else:
                moved.stayed += held.stayed
        return moved

    def _hold(self, key: str, place: str, most: int, what: Sequence[str | bytes]) -> Held:
        names = [key, self._keys.moving_batch(self._queue), self._keys.moving]
        args: list[str | bytes | float] = [
            self._queue,
            secrets.token_hex(6),
            f"{place} {self._to}",
            self._last,
            most,
            MOST_BYTES,
        ]
        return _held(self._source.script(_HOLD, names, [*args, *what]))

    def _bring(self, batch: Batch, moved: Moved) -> None:
        """Steps 2 and 3."""
        for _ in range(_TURNS):
            if batch.target != self._to:
                raise PayloadError(
                    f"a batch of {self._queue} is on its way to shard {batch.target}"
                )
            jobs = [_payload_of(text) for text in batch.texts]
            locks = _locks_of(jobs)
            last = self._put(batch, jobs, locks)
            if not last:
                if self._drop(batch, locks):
                    count = getattr(moved, batch.place) + len(batch.texts)
                    setattr(moved, batch.place, count)
                return
            # A later batch is there: this one was dropped meanwhile, or the source has lost its last writes.
            self._last = max(self._last, _number(last))
            key = self._keys.queue(self._queue)
            again = self._hold(key, batch.place, 0, ["number", batch.mark]).batch
            if again is None or again.token != batch.token:
                return
            batch = again
        raise RedisUnavailable(
            f"a batch of {self._queue} found a later one on shard {self._to} each time; repeat the command"
        )

    def _drop(self, batch: Batch, locks: Sequence[tuple[str, str]]) -> bool:
        keys = self._keys
        names = [keys.moving_batch(self._queue), keys.locks, keys.locks_look, keys.replaced]
        flat = [each for pair in locks for each in pair]
        return bool(self._source.script(_DROP, names, [batch.mark, *flat]))

    def _put(
        self, batch: Batch, jobs: Sequence[Mapping[str, Any]], locks: Sequence[tuple[str, str]]
    ) -> bytes:
        """Empty once the batch is on the target; else the batch that is there."""
        keys = self._keys
        self._carry_progress(jobs)
        if batch.place == "queue":
            name: str | bytes = bytes_of(self._queue)
            members = list(batch.texts)
        else:
            name = ""
            pairs = zip(batch.scores, batch.texts, strict=True)
            members = [each for pair in pairs for each in pair]
        owned, replaced = self._read_locks(locks)
        destination = keys.queue(self._queue) if name else str(getattr(keys, batch.place))
        names = [destination, keys.moved, keys.queues, keys.locks, keys.locks_look, keys.replaced]
        args: list[str | bytes | float] = [self._field, batch.number, batch.token, name, LOOK_S]
        args += [len(members), *members, len(owned) // 3, *owned, *replaced]
        try:
            return bytes(self._target.script(_PUT, names, args, replicas=self._replicas))
        except NotReplicated as doubt:
            raise PushNotReplicated(
                f"a batch of {self._queue} is on shard {self._to}, but {doubt}; the source keeps it until the same "
                "command is repeated and enough replicas confirm it",
                [str(job.get("jid", "")) for job in jobs],
            ) from doubt

    def _read_locks(
        self, locks: Sequence[tuple[str, str]]
    ) -> tuple[list[str | bytes], list[str | bytes]]:
        """What the source knows: name, until when, jid of each lock that its job owns; until when, jid of the replaced."""
        if not locks:
            return [], []
        keys, now = self._keys, time.time()
        values = self._source.run(*(("HGET", keys.locks, name) for name, _ in locks))
        scores = self._source.run(*(("ZSCORE", keys.replaced, jid) for _, jid in locks))
        owned: list[str | bytes] = []
        replaced: list[str | bytes] = []
        for (name, jid), value, score in zip(locks, values, scores, strict=True):
            until, _, owner = (value or b"").partition(b" ")
            if text_of(owner) == jid and float(until) > now:
                owned += [name, until, jid]
            if score is not None:
                replaced += [score, jid]
        return owned, replaced

    def _carry_progress(self, jobs: Sequence[Mapping[str, Any]]) -> None:
        """Iterable jobs go on where they were: copy their progress, where the target knows nothing of it."""
        states = [
            self._keys.iteration(jid) for job in jobs if isinstance(jid := job.get("jid"), str)
        ]
        found = self._source.run(*(("HGETALL", state) for state in states)) if states else []
        commands: list[tuple[str | bytes | float, ...]] = []
        for state, fields in zip(states, found, strict=True):
            pairs = list(zip(fields[::2], fields[1::2], strict=True))
            commands += [("HSETNX", state, field, value) for field, value in pairs]
            commands += [("EXPIRE", state, ITERATION_S)] if pairs else []
        if commands:
            self._target.run(*commands)


def shard_id(pool: RedisPool, keys: Keys) -> str:
    """What identifies a Redis, whatever it is called in the settings; drawn at the first call.

    Raises:
        RedisUnavailable: it is not known.
    """
    drawn = secrets.token_hex(8)
    _, found = pool.run(("SET", keys.shard_id, drawn, "NX"), ("GET", keys.shard_id))
    return text_of(found)


def pending_batch(pool: RedisPool, keys: Keys, queue: str) -> Batch | None:
    """The batch of a queue that is on its way from this Redis; None: there is none."""
    return _batch_of(pool.call("LRANGE", keys.moving_batch(queue), 0, -1))


def jobs_of_queue(queue: str, members: Iterable[bytes]) -> list[bytes]:
    """Those of some members of a set that are for this queue."""
    payloads = [(text, _payload_of(text)) for text in members]
    return [
        text
        for text, payload in payloads
        if payload and (payload.get("queue") or "default") == queue
    ]


def _held(reply: Sequence[Any]) -> Held:
    looked, stayed, *members = reply
    return Held(looked=looked, stayed=stayed, batch=_batch_of(members))


def _batch_of(members: Sequence[bytes]) -> Batch | None:
    if not members:
        return None
    number, token, place, target = text_of(members[0]).split(" ")
    is_queue = place == "queue"
    return Batch(
        mark=members[0],
        number=int(number),
        token=token,
        place=place,
        target=target,
        texts=members[1:] if is_queue else members[2::2],
        scores=() if is_queue else members[1::2],
    )


def _payload_of(text: bytes) -> Mapping[str, Any]:
    try:
        payload = json_text.loads(text)
    except json_text.MalformedJSON:
        return {}
    return payload if isinstance(payload, dict) else {}


def _locks_of(jobs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Name and jid of the lock of each job that has one."""
    found = []
    for job in jobs:
        flow, jid = flow_of(job), job.get("jid")
        mark = lock_in(flow) if flow is not None else None
        if mark is not None and isinstance(jid, str):
            found.append((mark.name, jid))
    return found


def _parts(members: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    part: list[bytes] = []
    size = 0
    for member in members:
        if part and (len(part) == MOST_JOBS or size + len(member) > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(member)
        size += len(member)
    if part:
        yield part


def _number(mark: bytes | None) -> int:
    number = (mark or b"").partition(b" ")[0]
    return int(number) if number.isdigit() else 0
