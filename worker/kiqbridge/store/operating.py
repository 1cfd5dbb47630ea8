"""An operator's actions on jobs of a sorted set or a queue: a batch of them in one script.

The caller decides what becomes of each job. What another client or a worker has moved, deleted or
rescheduled since it was read is left alone; a batch that is repeated does nothing (`audit_log`).
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from kiqbridge.store import scripts
from kiqbridge.store.audit_log import Note, audit_keys
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import LedgerEnd

BATCH: Final = 500
"""Jobs that one script moves, at most: about 2 ms at the server. Bytes bound it, too (`wire.batches`)."""

SEEN: Final = 20
"""Members that are named to `read_set` as seen: some of them may have left the set."""

Effect = Literal["push", "bury", "drop", "score"]
QueueEffect = Literal["move", "bury", "drop"]

_OPERATE_SET = scripts.load("operate_set")
_OPERATE_QUEUE = scripts.load("operate_queue")
_READ_SET = scripts.load("read_set")


class Act(NamedTuple):
    """What becomes of a member of a sorted set.

    Attributes:
        member: as read.
        score: as read.
        effect: pushed, kept in the dead set, dropped, or given another score.
        text: to push, or to keep.
        queue: to push to.
        report: for Step Functions, or b"".
        end: for the ledger of its schedule.
    """

    member: bytes
    score: float
    effect: Effect
    text: bytes = b""
    queue: str = ""
    report: bytes = b""
    end: LedgerEnd | None = None


class QueueAct(NamedTuple):
    """What becomes of a job of a queue.

    Attributes:
        member: as read.
        from_tail: whether it is nearer to the end from which workers take.
        effect: pushed to another queue, kept in the dead set, or dropped.
        text: to push, or to keep.
        report: for Step Functions, or b"".
        end: for the ledger of its schedule.
    """

    member: bytes
    from_tail: bool
    effect: QueueEffect
    text: bytes = b""
    report: bytes = b""
    end: LedgerEnd | None = None


class Batch(NamedTuple):
    """What a batch has besides its jobs.

    Attributes:
        note: the entry of the audit log.
        number: of this batch, from 1 on.
        score: that is set: of what dies now, or the new time of what is rescheduled.
        bounds: of the dead set: remove what died up to this score; keep the last N - 1 only.
    """

    note: Note
    number: int
    score: float
    bounds: tuple[float, int]

    def arguments(self) -> list[str | bytes | float]:
        """The first seven arguments of both scripts."""
        cutoff, most = self.bounds
        note = self.note
        return [
            *(note.id, self.number, repr(note.at), note.text),
            *(repr(self.score), repr(cutoff), most),
        ]


def operate_on_set(
    pool: RedisPool, keys: Keys, source: str, acts: Sequence[Act], batch: Batch
) -> int:
    """Carry out a batch on a sorted set; returns how many members all batches of its note have moved.

    Raises:
        RedisUnavailable: repeat it; what was moved is not moved again.
        RedisRefused: a key is of another type; nothing was moved.
    """
    queues = list(dict.fromkeys(act.queue for act in acts if act.effect == "push"))
    numbers = {queue: number for number, queue in enumerate(queues, 1)}
    args = [*batch.arguments(), len(queues), *queues]
    ends: list[str] = []
    for act in acts:
        args += [act.member, repr(act.score), act.effect, act.text]
        args += [numbers.get(act.queue, ""), act.report, *_end(act.end)]
        ends += _end_keys(keys, act.end)
    fixed = [source, keys.dead, keys.task_reports, keys.queues, *audit_keys(keys)]
    targets = [*fixed, *(keys.queue(queue) for queue in queues), *ends]
    return int(pool.script(_OPERATE_SET, targets, args))


def operate_on_queue(
    pool: RedisPool, keys: Keys, queue: str, acts: Sequence[QueueAct], batch: Batch, *, to: str = ""
) -> int:
    """Carry out a batch on a queue; `to` is where jobs are moved to. Returns and raises as `operate_on_set`."""
    args = [*batch.arguments(), to]
    ends: list[str] = []
    for act in acts:
        args += [act.member, -1 if act.from_tail else 1, act.effect, act.text, act.report]
        args += _end(act.end)
        ends += _end_keys(keys, act.end)
    source = keys.queue(queue)
    fixed = [source, keys.dead, keys.task_reports, keys.queues, *audit_keys(keys)]
    return int(pool.script(_OPERATE_QUEUE, [*fixed, keys.queue(to) if to else source, *ends], args))


class Read(NamedTuple):
    """Members that were read: the rank of the first one, and each with its score."""

    first: int
    members: list[tuple[bytes, float]]


def read_set(
    pool: RedisPool,
    source: str,
    first: int,
    seen: Sequence[tuple[bytes, float]],
    *,
    most: int,
    max_bytes: int,
) -> Read:
    """Members of a sorted set by rank, bounded in number and bytes, at least one if there is one.

    Args:
        pool: where to read.
        source: key of the set.
        first: rank to begin with, unless a member of `seen` is there.
        seen: members that were read before and left, with their scores, the last one first: it goes on
            behind the first of them that is as it was. `SEEN` of them are looked at.
        most: how many, at most.
        max_bytes: how many bytes, at most.

    Raises:
        RedisUnavailable: nothing was read.
    """
    known = [part for member, score in seen[:SEEN] for part in (member, repr(score))]
    rank, *found = pool.script(_READ_SET, [source], [first, most, max_bytes, *known])
    pairs = zip(found[::2], found[1::2], strict=True)
    return Read(int(rank), [(member, float(score)) for member, score in pairs])


def _end(end: LedgerEnd | None) -> tuple[bytes | str, int | str]:
    return (end.text, end.at) if end else ("", "")


def _end_keys(keys: Keys, end: LedgerEnd | None) -> list[str]:
    return [keys.ends(end.schedule), keys.ticks(end.schedule)] if end else []
