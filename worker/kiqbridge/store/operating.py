"""An operator's actions on jobs of a sorted set or a queue: a batch of them in one script.

The caller decides what becomes of each job. What another client or a worker has moved, deleted or
rescheduled since it was read is left alone; a batch that is repeated does nothing (`audit_log`).

The audit log of operators' actions: `kb:audit` (id → time), its entries, and their counts.

An action of many batches is one entry. Each script that does a part of it gets the entry and the
number of the batch, and answers with the count of all batches: so a repeated call neither acts nor
counts twice, and the total is known although a reply was lost.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from kiqbridge.store import scripts
from kiqbridge.store.effects import Effect, packed
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.batches import BATCH_BYTES
from kiqbridge.wire.keys import Keys

MOST_ENTRIES: Final = 10_000
"""The last so many are kept; the number in `parts/audit.lua`."""

_NOTE = scripts.load("audit_note")


class Note(NamedTuple):
    """An entry to be: its id, its time (epoch seconds), and its text."""

    id: str
    at: float
    text: bytes


class Noted(NamedTuple):
    """An entry as it lies in Redis."""

    id: str
    text: bytes
    done: int


def audit_keys(keys: Keys) -> list[str]:
    """The three keys, in the order in which scripts get them."""
    return [keys.audit, keys.audit_entries, keys.audit_counts]


def write_note(pool: RedisPool, keys: Keys, note: Note, count: int) -> None:
    """Add an entry that belongs to no script; with a count of 0 nothing is added.

    Raises:
        RedisUnavailable: repeat it with the same note.
    """
    pool.script(_NOTE, audit_keys(keys), [note.id, repr(note.at), note.text, count])


def read_notes(pool: RedisPool, keys: Keys, most: int, before: str | None) -> list[Noted]:
    """Entries, the last first; of `before`, an id, those that are older. Empty if it was forgotten.

    Args:
        pool: of the server.
        keys: the namespace.
        most: how many at most.
        before: id of an entry.

    Raises:
        RedisUnavailable: nothing was read.
    """
    first = 0
    if before is not None:
        rank = pool.call("ZREVRANK", keys.audit, before)
        if rank is None:
            return []
        first = int(rank) + 1
    ids = pool.call("ZRANGE", keys.audit, first, first + most - 1, "REV")
    if not ids:
        return []
    texts, counts = pool.run(
        ("HMGET", keys.audit_entries, *ids), ("HMGET", keys.audit_counts, *ids)
    )
    return [
        Noted(each.decode("utf-8", "replace"), text, int((count or b"0").split()[0]))
        for each, text, count in zip(ids, texts, counts, strict=True)
        if text is not None
    ]


BATCH: Final = 250
"""Jobs that one script moves, at most: about 1 ms at the server. Bytes bound it, too (`wire.batches`)."""

LOOK: Final = 500
"""Jobs that one script looks at, at most: about 0.3 ms at the server."""

_LOOK_QUEUE: Final = 256
_STEP: Final = 128
"""Jobs that one script looks at in one piece: each piece of a long list takes up to a millisecond to find."""

NEAR: Final = 5_000
"""Jobs from an end of a queue within which a job is removed by comparing texts: up to 0.2 ms at the server."""

SEEK: Final = 1_500
_SEEK_KEYS: Final = 500
"""Jobs, or `BATCH_BYTES` of them, and keys that one script looks through for a text, at most: a millisecond at the server."""

_AROUND: Final = 1_000
_AROUND_BYTES: Final = 1_000_000
"""Where a job is looked for that is not in its place: so many jobs before and behind it, or bytes."""

CLEARED_S: Final = 86_400
"""Seconds for which what was cleared is kept, should its jobs not be ended."""

SEEN: Final = 20
"""Members that are named to `read_set` as seen: some of them may have left the set."""

_OPERATE = scripts.load("operate")
_CLEAR = scripts.load("operate_clear")
_END_CLEARED = scripts.load("end_cleared")
_READ_SET = scripts.load("read_set")
_READ_QUEUE = scripts.load("read_queue")
_SEEK = scripts.load("seek")


class Act(NamedTuple):
    """What becomes of a job.

    Attributes:
        member: its text as read.
        place: its score as read; in a queue how many were to be taken before it, None = not known.
        effect: pushed, kept in the dead set, dropped, or given another score or text.
        text: to push, or to keep; of `score` one in the place of the batch's, or nothing.
        queue: to push to.
        effects: of its end (engine/settle/ending.py).
    """

    member: bytes
    place: float | None
    effect: Literal["push", "bury", "drop", "score", "text"]
    text: bytes = b""
    queue: str = ""
    effects: Sequence[Effect] = ()


class Batch(NamedTuple):
    """What a batch has besides its jobs.

    Attributes:
        note: the entry of the audit log.
        number: of this batch, from 1 on.
        score: that is set: of what dies now, or the new time of what is rescheduled.
    """

    note: Note
    number: int
    score: float


def operate(
    pool: RedisPool,
    keys: Keys,
    source: str,
    acts: Sequence[Act],
    batch: Batch,
    *,
    is_queue: bool,
    thorough: bool = False,
) -> int:
    """Carry out a batch on a queue or a sorted set; returns how many jobs all batches of its note have moved.

    Args:
        pool: where to write.
        keys: the namespace.
        source: key of the queue or the set.
        acts: what becomes of which job.
        batch: all else.
        is_queue: whether it is a queue.
        thorough: look through the whole queue for a job that is not in its place. Takes 20 ms where
            1,000,000 jobs wait; else such a job is skipped.

    Raises:
        RedisUnavailable: repeat it; what was moved is not moved again.
        RedisRefused: a key is of another type; nothing was moved.
    """
    note = batch.note
    around = min(_AROUND, _AROUND_BYTES // max(len(act.member) for act in acts) + 1)
    queues = list(dict.fromkeys(act.queue for act in acts if act.effect == "push"))
    numbers = {queue: number for number, queue in enumerate(queues, 1)}
    args: list[str | bytes | float] = [note.id, batch.number, repr(note.at), note.text]
    args += [repr(batch.score), "list" if is_queue else "zset"]
    args += [NEAR, around, "all" if thorough else ""]
    args += [len(queues), *queues]
    targets = [source, keys.dead, keys.queues, *audit_keys(keys), *map(keys.queue, queues)]
    for act in acts:
        place = "" if act.place is None else repr(act.place)
        its_keys, its_args = packed(act.effects)
        targets += its_keys
        args += [act.member, place, act.effect, act.text, numbers.get(act.queue, ""), *its_args]
    return int(pool.script(_OPERATE, targets, args))


def clear(pool: RedisPool, keys: Keys, key: str, *, queue: str, note: Note, has_ends: bool) -> int:
    """Delete a whole list (`queue` names it) or sorted set (`queue` is empty); how many jobs it held.

    Args:
        pool: where to write.
        keys: the namespace.
        key: of the list or the set.
        queue: see above.
        note: the entry of the audit log.
        has_ends: its jobs have not ended: they are kept as `keys.cleared(note.id)` for `end_cleared`.

    Raises:
        RedisUnavailable: repeat it with the same note.
        RedisRefused: the key is of another type; nothing was deleted.
    """
    held = keys.cleared(note.id) if has_ends else key
    args: list[str | bytes | float] = [note.id, repr(note.at), note.text, queue, CLEARED_S]
    return int(pool.script(_CLEAR, [key, keys.queues, *audit_keys(keys), held], args))


def end_cleared(pool: RedisPool, held: str, left: int, effects: Sequence[Effect]) -> None:
    """Let the ends of jobs that were cleared have their effects, and keep `left` of those that are held.

    Raises:
        RedisUnavailable: repeat it.
        RedisRefused: a key is of another type; nothing was done.
    """
    keys, args = packed(effects)
    pool.script(_END_CLEARED, [held, *keys], [left, *args])


class Read(NamedTuple):
    """A part of a sorted set that was read.

    Attributes:
        first: rank of the first member that was looked at.
        looked_at: how many were; 0 at the end of the set.
        last: the last of them, with its score.
        members: those that contain the text, with their scores.
    """

    first: int
    looked_at: int
    last: tuple[bytes, float]
    members: list[tuple[bytes, float]]


def read_set(
    pool: RedisPool,
    source: str,
    first: int,
    seen: Sequence[tuple[bytes, float]],
    *,
    needle: bytes = b"",
) -> Read:
    """Members of a sorted set by rank, bounded in number and bytes.

    Args:
        pool: where to read.
        source: key of the set.
        first: rank to begin with, unless a member of `seen` is there.
        seen: members that were read before and left, with their scores, the last one first: it goes on
            behind the first of them that is as it was. `SEEN` of them are looked at.
        needle: only members that contain these bytes, or one of its lines.

    Raises:
        RedisUnavailable: nothing was read.
    """
    known = [part for member, score in seen[:SEEN] for part in (member, repr(score))]
    args: list[str | bytes | float] = [first, LOOK, BATCH_BYTES, needle, *known]
    rank, looked_at, last, score, *found = pool.script(_READ_SET, [source], args)
    pairs = zip(found[::2], found[1::2], strict=True)
    members = [(member, float(each)) for member, each in pairs]
    return Read(int(rank), int(looked_at), (last, float(score)), members)


class ReadQueue(NamedTuple):
    """A part of a queue that was read.

    Attributes:
        length: of the queue.
        looked_at: how many jobs were looked at; 0 at its end.
        step: how many jobs of that size may be read in one piece, for the next call.
        jobs: those that contain the text, each with how many are to be taken before it.
    """

    length: int
    looked_at: int
    step: int
    jobs: list[tuple[bytes, int]]


def read_queue(
    pool: RedisPool,
    key: str,
    passed_over: int,
    *,
    from_tail: bool,
    needle: bytes = b"",
    step: int = 1,
    most: int = _LOOK_QUEUE,
) -> ReadQueue:
    """Jobs of a queue from an end on, without the first of them, bounded in number (`most`) and bytes.

    Raises:
        RedisUnavailable: nothing was read.
    """
    end = "tail" if from_tail else "head"
    args: list[str | bytes | float] = [passed_over, end, most, BATCH_BYTES, needle, step]
    length, looked_at, largest, *found = pool.script(_READ_QUEUE, [key], args)
    places = [place if from_tail else max(0, length - 1 - place) for place in found[::2]]
    fitting = max(1, min(_STEP, BATCH_BYTES // largest))
    return ReadQueue(length, looked_at, fitting, list(zip(found[1::2], places, strict=True)))


class Spot(NamedTuple):
    """Where `seek` goes on.

    Attributes:
        key: the number of the key, from 0 on.
        passed_over: jobs of it that were looked at.
        step: how many to read at first.
    """

    key: int = 0
    passed_over: int = 0
    step: int = 1


def seek(
    pool: RedisPool, names: Sequence[str], needle: bytes, spot: Spot
) -> tuple[list[tuple[int, float, bytes]], Spot]:
    """Look for jobs that contain these bytes in queues and sorted sets, up to `SEEK` jobs in one script.

    A job that is added meanwhile lets others be read twice; what is taken out of the midst of a list lets one be missed.

    Returns:
        Of each the number of its key, its score (in a queue how many are to be taken before it) and its text; where
        it goes on, `len(names)` = these were all.

    Raises:
        RedisUnavailable: nothing was read.
        RedisRefused: a key is of another type.
    """
    keys = names[spot.key : spot.key + _SEEK_KEYS]
    args: list[str | bytes | float] = [needle, SEEK, BATCH_BYTES, spot.passed_over, spot.step]
    key, passed_over, step, *found = pool.script(_SEEK, keys, args)
    rows = zip(found[::3], found[1::3], found[2::3], strict=True)
    jobs = [(spot.key + number, float(place), text) for number, place, text in rows]
    return jobs, Spot(spot.key + key, passed_over, step)
