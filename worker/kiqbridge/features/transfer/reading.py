"""Reading a queue or a set in chunks while others write it; taking chunks out of it.

The order is the order in which members leave: of a queue the oldest job first, of a set the lowest score.
New jobs of a queue come at the end; what workers take meanwhile is noticed by the last member that was read.

What is taken is in Redis until it is safely written:

1. A script moves a chunk into the list `kb:exporting`, with the id of the export and the chunk's number in front.
2. What its jobs need (state.py), then the chunk is written to the file, and synced.
3. What belongs to these jobs alone is removed; a script deletes the list.

Killed after 1 or 2, the next run finds the list, and in the file whether the chunk is there already. What an export
leaves on its server is counted at its end.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from kiqbridge.errors import PayloadError
from kiqbridge.features.transfer.file import ExportFile, Written
from kiqbridge.features.transfer.form import Chunk, End, Place
from kiqbridge.features.transfer.state import StateSource
from kiqbridge.store import scripts
from kiqbridge.store.key_scan import scan_keys
from kiqbridge.store.redis_pool import RedisLike, RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import bytes_of, text_of

SETS: Final = {
    "schedule": "schedule",
    "retry": "retry",
    "dead": "dead",
    "ends": "flow_ends",
    "reports": "task_reports",
}
"""Sets that can be exported → what `Keys` calls them. The last two have ends of jobs that are still to be applied, and
outcomes that are still to be sent to Step Functions."""

OF_JOBS: Final = ("schedule", "retry", "dead")

FIRST_COUNT: Final = 100
MOST_COUNT: Final = 1000
"""Members of a chunk: reading them takes the server less than a millisecond."""

CHUNK_BYTES: Final = 1_000_000
Read = tuple[Sequence[bytes], Sequence[bytes]]
"""Members, and of a set their scores."""

_HOLD = scripts.load("hold_export", __file__)
_RELEASE = scripts.load("release_export", __file__)
_RETURN = scripts.load("return_export", __file__)


def all_places(pool: RedisPool, keys: Keys) -> list[Place]:
    """All queues by name, the suspects beside them, then the sets; without empty ones that most servers do not have."""
    names = sorted(text_of(name) for name in pool.call("SMEMBERS", keys.queues))
    prefix = keys.suspects("")
    suspects = {key[len(prefix) :] for page in scan_keys(pool, prefix) for key in page}
    rest = [Place(kind="set", name=name) for name in SETS if name not in OF_JOBS]
    return [
        *(Place(kind="queue", name=name) for name in names),
        *(Place(kind="suspects", name=name) for name in sorted(suspects)),
        *(Place(kind="set", name=name) for name in OF_JOBS),
        *(place for place in rest if size_of(pool, keys, place)),
    ]


def key_of(keys: Keys, place: Place) -> str:
    """The key in Redis."""
    if place.kind == "set":
        return str(getattr(keys, SETS[place.name]))
    return keys.queue(place.name) if place.kind == "queue" else keys.suspects(place.name)


def size_of(pool: RedisLike, keys: Keys, place: Place) -> int:
    """How many members it has."""
    command = "ZCARD" if place.kind == "set" else "LLEN"
    return int(pool.call(command, key_of(keys, place)))


def read_place(pool: RedisLike, keys: Keys, place: Place) -> Iterator[Read]:
    """As many members as there are when it begins, in chunks; so it ends, however fast jobs are pushed."""
    left = size_of(pool, keys, place)
    read = _read_set if place.kind == "set" else _read_queue
    for members, scores in read(pool, key_of(keys, place)):
        yield members[:left], scores[:left]
        left -= len(members)
        if left <= 0:
            return


def next_count(members: Sequence[bytes]) -> int:
    """How many to read next, so that a chunk has about `CHUNK_BYTES`."""
    size = sum(map(len, members)) // max(1, len(members))
    return max(1, min(MOST_COUNT, CHUNK_BYTES // max(1, size)))


def _read_queue(pool: RedisLike, key: str) -> Iterator[Read]:
    count, passed, last = FIRST_COUNT, 0, b""
    while True:
        # The last one that was read comes again, in front: if it does not, workers have taken some.
        texts = pool.call("LRANGE", key, -(passed + count), -max(1, passed))[::-1]
        if passed and texts[:1] != [last]:
            passed = _place_of(pool, key, last, passed)
            continue
        members = texts[1:] if passed else texts
        if not members:
            return
        yield members, ()
        passed, last = passed + len(members), members[-1]
        count = next_count(members)


def _place_of(pool: RedisLike, key: str, last: bytes, passed: int) -> int:
    """How many members stand up to this one, counted from the consuming end; 0 if it was taken."""
    for nearest in range(0, passed, MOST_COUNT):
        texts = pool.call("LRANGE", key, -(nearest + MOST_COUNT), -(nearest + 1))[::-1]
        if last in texts:
            return nearest + int(texts.index(last)) + 1
        if len(texts) < MOST_COUNT:
            break
    return 0


def _read_set(pool: RedisLike, key: str) -> Iterator[Read]:
    count, rank = FIRST_COUNT, 0
    last: tuple[float, bytes] | None = None
    while True:
        flat: list[bytes] = pool.call("ZRANGE", key, rank, rank + count, "WITHSCORES")
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        if last is not None and rank and _position(pairs[0] if pairs else (b"", b"inf")) > last:
            rank = _rank_of(pool, key, last)  # lower ones have left since it was found
            continue
        new = [pair for pair in pairs if last is None or _position(pair) > last]
        if not new and len(pairs) <= count:
            return
        if not new:
            rank += count
            continue
        members, scores = zip(*new, strict=True)
        yield members, scores
        last = _position(new[-1])
        count = next_count(members)
        rank = _rank_of(pool, key, last)


def _rank_of(pool: RedisLike, key: str, last: tuple[float, bytes]) -> int:
    """Where the last one that was read stands; if it has left, the place before the first of its score."""
    score, member = last
    rank, now, lower = pool.run(
        ("ZRANK", key, member), ("ZSCORE", key, member), ("ZCOUNT", key, "-inf", f"({score!r}")
    )
    if now is not None and float(now) == score:
        return int(rank)
    return max(0, int(lower) - 1)


def _position(pair: tuple[bytes, bytes]) -> tuple[float, bytes]:
    """A set is ordered by score, then by the bytes."""
    return float(pair[1]), pair[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A chunk that an export has moved out of its place.

    Attributes:
        export: the id of the export.
        file: the file that it is written to, as it was named, and the machine.
        chunk: what it is.
        mark: the first member of the list.
    """

    export: str
    file: str
    chunk: Chunk
    mark: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """An export that takes.

    Attributes:
        pool, keys: where from.
        export: its id.
        file: where to, for people who find what it holds.
        state: what jobs need besides their text.
        is_all: all of the server is exported.
    """

    pool: RedisPool
    keys: Keys
    export: str
    file: str
    state: StateSource
    is_all: bool

    def take(
        self, file: ExportFile, written: Written, sizes: Mapping[Place, int]
    ) -> Iterator[tuple[Place, int]]:
        """Take so many of each place, and end the file; after each chunk its place and how many it has.

        They are as many as there were when it began, so that it ends however fast jobs are pushed.
        """
        number, members = written.chunks, written.members
        held = find_held(self.pool, self.keys)  # by a run which was killed
        for place, size in sizes.items():
            taken, count = 0, FIRST_COUNT
            while held or taken < size:
                is_earlier = held is not None
                held = held or self.hold(place, number + 1, min(count, size - taken))
                if held is None:
                    break
                chunk = held.chunk
                needs = self.state.move(chunk)
                if chunk.number > number:
                    for line in self.state.needed(needs):
                        file.write(line)
                    file.write(chunk)
                    file.sync()
                    number, members = chunk.number, members + len(chunk.members)
                self.state.drop(needs)
                self.release(held)
                held = None
                yield chunk.place, len(chunk.members)
                if not is_earlier:
                    taken += len(chunk.members)
                    count = next_count(chunk.members)
        spans = Place(kind="set", name="schedule") in sizes
        for line in self.state.rest(is_all=self.is_all, with_spans=spans):
            file.write(line)
        file.sync()
        self.state.forget()
        file.write(End(chunks=number, members=members))
        file.sync()

    def hold(self, place: Place, number: int, count: int) -> Held | None:
        """Move the next members out of a place; None if it has none.

        Raises:
            PayloadError: another export holds something meanwhile.
        """
        name = bytes_of(place.name).hex()
        fields = {
            "id": self.export,
            "n": number,
            "kind": place.kind,
            "name": name,
            "file": self.file,
        }
        self.pool.script(
            _HOLD,
            [key_of(self.keys, place), self.keys.exporting],
            [json_text.dumps(fields), "set" if place.kind == "set" else "queue", count],
        )
        held = find_held(self.pool, self.keys)
        if held is not None and held.export != self.export:
            raise held_by_another(held)
        return held

    def release(self, held: Held) -> None:
        """Forget what is held; it is safely written."""
        self.pool.script(_RELEASE, [self.keys.exporting], [held.mark])


def find_held(pool: RedisPool, keys: Keys) -> Held | None:
    """What an export holds at this moment, or has held when it was killed.

    Raises:
        PayloadError: the list is not ours.
    """
    held: list[bytes] = pool.call("LRANGE", keys.exporting, 0, -1)
    if not held:
        return None
    try:
        fields = json_text.loads(held[0])
        place = Place(kind=fields["kind"], name=text_of(bytes.fromhex(fields["name"])))
        is_set = place.kind == "set"
        chunk = Chunk(
            number=fields["n"],
            place=place,
            members=held[1::2] if is_set else held[1:],
            scores=held[2::2] if is_set else (),
        )
        return Held(export=fields["id"], file=fields["file"], chunk=chunk, mark=held[0])
    except (KeyError, TypeError, ValueError, json_text.MalformedJSON) as error:
        raise PayloadError(
            f"{keys.exporting}: this list was not written by an export ({error}); look at it, and rename it"
        ) from error


def give_back(pool: RedisPool, keys: Keys, held: Held) -> int:
    """Put what is held back to where it was; how many members."""
    place = held.chunk.place
    StateSource(pool=pool, keys=keys, takes=True).move_back(held.chunk)
    names = [key_of(keys, place), keys.exporting]
    kind = "set" if place.kind == "set" else "queue"
    return int(pool.script(_RETURN, names, [held.mark, kind]))


def held_by_another(held: Held) -> PayloadError:
    """What to do about an export that was not finished."""
    return PayloadError(
        f"an export to {held.file} was not finished, and holds {len(held.chunk.members):,} jobs of "
        f"{held.chunk.place}; continue it there by the same command, or put them back with "
        "kiqbridge export --give-back if it does not run any more"
    )


_WHOLE: Final = {
    "locks": "locks of unique jobs",
    "flow_spans": "spans of debounced and throttled jobs",
    "schedules": "schedules",
    "schedule_states": "pauses and skips of schedules",
    "ledgers": "ledgers of schedules",
    "guards": "guards against duplicates",
    "pauses": "pauses",
    "alerts": "fields of alerts",
    "cron_jobs": "schedules of sidekiq-cron",
}
"""Attribute of `Keys` → what its members are."""

_BY_PREFIX: Final = {"kb:limit:": "limiters", "it-": "states of iterable jobs"}
"""Beginning of keys → what each of them is."""

_SIZE: Final = {b"set": "SCARD", b"zset": "ZCARD", b"hash": "HLEN", b"list": "LLEN"}


def count_left(pool: RedisPool, keys: Keys, exported: Collection[Place]) -> Mapping[str, int]:
    """What is there besides what was exported → how many, without what there is none of.

    What is about this server or its workers (processes, signs of life, counters, the audit log) does not count.
    """
    places = [place for place in all_places(pool, keys) if place not in exported]
    found = {str(place): _size(pool, key_of(keys, place)) for place in places}
    lists = chain.from_iterable(scan_keys(pool, f"{keys.prefix}kb:inflight:"))
    found["jobs that workers hold"] = sum(_size(pool, key) for key in lists)
    found |= {what: _size(pool, getattr(keys, name)) for name, what in _WHOLE.items()}
    for prefix, what in _BY_PREFIX.items():
        found[what] = sum(map(len, scan_keys(pool, keys.prefix + prefix)))
    return {what: count for what, count in found.items() if count}


def _size(pool: RedisPool, key: str) -> int:
    """Members of a key of any type, so that one that something else has written ends no export."""
    command = _SIZE.get(pool.call("TYPE", key))
    return 0 if command is None else int(pool.call(command, key))
