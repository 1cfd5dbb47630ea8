"""Reading a queue or a set in chunks while others write it, without taking anything from it.

The order is the order in which members leave: of a queue the oldest job first, of a set the lowest score.
New jobs of a queue come at the end; what workers take meanwhile is noticed by the last member that was read.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.transfer.form import Place
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

SETS: Final = ("schedule", "retry", "dead")
FIRST_COUNT: Final = 100
MOST_COUNT: Final = 1000
"""Members of a chunk: reading them takes the server less than a millisecond."""
CHUNK_BYTES: Final = 1_000_000

Read = tuple[Sequence[bytes], Sequence[bytes]]
"""Members, and of a set their scores."""


def all_places(pool: RedisPool, keys: Keys) -> list[Place]:
    """All queues by name, then the sets."""
    names = sorted(text_of(name) for name in pool.call("SMEMBERS", keys.queues))
    return [
        *(Place(kind="queue", name=name) for name in names),
        *(Place(kind="set", name=name) for name in SETS),
    ]


def key_of(keys: Keys, place: Place) -> str:
    """The key in Redis."""
    return keys.queue(place.name) if place.kind == "queue" else str(getattr(keys, place.name))


def size_of(pool: RedisPool | RedisConnection, keys: Keys, place: Place) -> int:
    """How many members it has."""
    command = "LLEN" if place.kind == "queue" else "ZCARD"
    return int(pool.call(command, key_of(keys, place)))


def read_place(pool: RedisPool | RedisConnection, keys: Keys, place: Place) -> Iterator[Read]:
    """As many members as there are when it begins, in chunks; so it ends, however fast jobs are pushed."""
    left = size_of(pool, keys, place)
    read = _read_queue if place.kind == "queue" else _read_set
    for members, scores in read(pool, key_of(keys, place)):
        yield members[:left], scores[:left]
        left -= len(members)
        if left <= 0:
            return


def next_count(members: Sequence[bytes]) -> int:
    """How many to read next, so that a chunk has about `CHUNK_BYTES`."""
    size = sum(map(len, members)) // max(1, len(members))
    return max(1, min(MOST_COUNT, CHUNK_BYTES // max(1, size)))


def _read_queue(pool: RedisPool | RedisConnection, key: str) -> Iterator[Read]:
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


def _place_of(pool: RedisPool | RedisConnection, key: str, last: bytes, passed: int) -> int:
    """How many members stand up to this one, counted from the consuming end; 0 if it was taken."""
    for nearest in range(0, passed, MOST_COUNT):
        texts = pool.call("LRANGE", key, -(nearest + MOST_COUNT), -(nearest + 1))[::-1]
        if last in texts:
            return nearest + int(texts.index(last)) + 1
        if len(texts) < MOST_COUNT:
            break
    return 0


def _read_set(pool: RedisPool | RedisConnection, key: str) -> Iterator[Read]:
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


def _rank_of(pool: RedisPool | RedisConnection, key: str, last: tuple[float, bytes]) -> int:
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
