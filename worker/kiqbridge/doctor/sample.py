"""Some jobs of each place: never more than a bounded number, of bounded size, in bounded time."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.api import JobRecord
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys

MOST_QUEUES: Final = 200
MOST_OF_A_PLACE: Final = 200
MOST_BYTES: Final = 32_000_000
MOST_S: Final = 2.0
AT_ONCE: Final = 20
"""Jobs that one command reads: they may have 10 MB each."""

SETS: Final = ("retry", "schedule", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A job that was looked at.

    Attributes:
        place: `queue NAME`, `retry`, `schedule` or `dead`.
        job: what it says.
    """

    place: str
    job: JobRecord

    @property
    def is_dead(self) -> bool:
        """Whether nothing happens to it any more by itself."""
        return self.place == "dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was looked at.

    Attributes:
        jobs: those.
        total: how many there are.
        sizes: queue → how many jobs wait in it.
    """

    jobs: Sequence[Sampled]
    total: int
    sizes: dict[str, int]

    @property
    def scope(self) -> str:
        """How many were looked at, for people."""
        if len(self.jobs) == self.total:
            return f"all {self.total:,} jobs were looked at"
        return f"{len(self.jobs):,} of {self.total:,} jobs were looked at"


def take_sample(
    connection: RedisConnection, keys: Keys, queues: Sequence[str], sets: Sequence[str]
) -> Sample:
    """The oldest and the newest jobs of each place, as many as there is time for.

    Args:
        connection: reads.
        keys: the namespace.
        queues: names of queues whose keys are lists.
        sets: those of `SETS` whose keys are sorted sets.
    """
    queues = queues[:MOST_QUEUES]
    lengths = (
        connection.run(
            *(("ZCARD", getattr(keys, name)) for name in sets),
            *(("LLEN", keys.queue(name)) for name in queues),
        )
        if (queues or sets)
        else []
    )
    sizes = dict(zip(queues, lengths[len(sets) :], strict=True))
    places = [
        *(("LRANGE", f"queue {name}", keys.queue(name), size) for name, size in sizes.items()),
        *(
            ("ZRANGE", name, str(getattr(keys, name)), size)
            for name, size in zip(sets, lengths, strict=False)
        ),
    ]
    found: list[Sampled] = []
    end, size_read = time.monotonic() + MOST_S, 0
    for command, place, key, size in places:
        for first, last in _spans(size):
            if time.monotonic() > end or size_read > MOST_BYTES:
                break
            for text in connection.call(command, key, first, last):
                size_read += len(text)
                queue = place.removeprefix("queue ") if command == "LRANGE" else None
                found.append(Sampled(place=place, job=JobRecord(text, queue=queue)))
    return Sample(jobs=found, total=sum(lengths), sizes=sizes)


def _spans(size: int) -> Iterator[tuple[int, int]]:
    """The positions that are read of a place with so many members: its begin, and its end."""
    half = MOST_OF_A_PLACE // 2
    parts = [(0, size)] if size <= MOST_OF_A_PLACE else [(0, half), (size - half, size)]
    for begin, end in parts:
        for first in range(begin, end, AT_ONCE):
            yield first, min(first + AT_ONCE, end) - 1
