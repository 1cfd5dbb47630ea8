"""Keeping the dead set within its bounds: nothing else of ours removes jobs from it because of them (protocol §8.5).

1. The leader looks every ten seconds how far the set is beyond the bounds.
2. It trims at once when 1,000 jobs are too many, turn after turn, else once a minute; the oldest first.
3. With `dead_archive` they are written there first. What cannot be written stays in the set.
4. A script removes those that are as they were read, and counts what the bound on the number has cost.
5. A line in the log says how many, of which classes, and where they are.

A process that is killed between 3 and 4 leaves them in the set, and the next leader writes them once more.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kiqbridge.engine.parts import EngineParts
from kiqbridge.errors import KiqbridgeError
from kiqbridge.features.transfer.file import packed, whole_file
from kiqbridge.features.transfer.form import Chunk, End, Header, Line, Place
from kiqbridge.features.transfer.reading import Read, read_place
from kiqbridge.runtime import threads
from kiqbridge.store import scripts
from kiqbridge.store.process_set import read_infos
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.amounts import count_text
from kiqbridge.wire.dead_bounds import FIELD, KEPT_S, DeadBounds, fleet_bounds
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import shown
from kiqbridge.wire.raw_job import UNREADABLE_CLASS

_S3: Final = "s3://"
_DEAD: Final = Place(kind="set", name="dead")

CONNECT_S: Final = 5
READ_S: Final = 20


class ArchiveFailed(KiqbridgeError):  # noqa: N818 - reads as what happened
    """A file of the archive was not written; nothing may be removed from Redis."""


class DeadArchive:
    """A folder, or a prefix in S3, to which dead jobs are written before they are removed.

    Args:
        place: the setting `dead_archive`: a folder, which is made, or `s3://BUCKET/PREFIX`.
        source: the address of Redis, without a password.
        namespace: prefix of its keys.
    """

    def __init__(self, place: str, *, source: str, namespace: str) -> None:
        self._place = place.rstrip("/")
        self._source, self._namespace = source, namespace
        self._s3: Any = None

    def __str__(self) -> str:
        return self._place

    def write(self, parts: Sequence[Read], now: float) -> str:
        """Write one file, and wait until it is safely there.

        Args:
            parts: members of the dead set and their scores, as they were read.
            now: epoch seconds.

        Returns:
            The name of the file.

        Raises:
            ArchiveFailed: it may not be there.
        """
        number = os.urandom(8).hex()
        at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        name = f"dead-{at}-{number}.jsonl.gz"
        lines: list[Line] = [
            Header(id=number, at=round(now, 3), source=self._source, namespace=self._namespace),
            *(
                Chunk(number=n, place=_DEAD, members=members, scores=scores)
                for n, (members, scores) in enumerate(parts, 1)
            ),
            End(chunks=len(parts), members=sum(len(members) for members, _ in parts)),
        ]
        try:
            if self._place.startswith(_S3):
                self._put(name, b"".join(map(packed, lines)))
            else:
                _save(Path(self._place), name, lines)
        except ImportError as error:
            raise ArchiveFailed(f"{error}; an archive in S3 needs: kiqbridge[aws]") from error
        except Exception as error:
            raise ArchiveFailed(f"{self._place}: {type(error).__name__}: {error}") from error
        return name

    def _put(self, name: str, text: bytes) -> None:
        if self._s3 is None:
            import boto3  # noqa: PLC0415 - 145 ms, for an archive in S3 alone
            from botocore.config import Config  # noqa: PLC0415 - as above

            self._s3 = boto3.client(
                "s3",
                config=Config(
                    connect_timeout=CONNECT_S,
                    read_timeout=READ_S,
                    retries={"total_max_attempts": 2},
                    max_pool_connections=1,
                ),
            )
        bucket, _, prefix = self._place.removeprefix(_S3).partition("/")
        key = f"{prefix}/{name}".lstrip("/")
        self._s3.put_object(Bucket=bucket, Key=key, Body=text)


def _save(folder: Path, name: str, lines: Sequence[Line]) -> None:
    """For its owner only; under its name only when the disk has it, so that a file of that name is whole."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with whole_file(folder / name) as file:
        for line in lines:
            file.write(line)


logger = logging.getLogger(__name__)

AT_ONCE: Final = 1000
"""Jobs beyond the bounds that are trimmed at once."""

GATHER_S: Final = 60.0
"""How long fewer are gathered: each turn is a line in the log, and a file of the archive."""

TURN_JOBS: Final = 20_000
TURN_BYTES: Final = 8_000_000
"""What one turn removes, and one file of the archive holds, at most; the next turn goes on."""
TURNS: Final = 5
"""Turns of one look, at most."""

WARN_S: Final = 3600.0
NAMED: Final = 5

_TRIM: Final = scripts.load("trim_dead", __file__)


class Excess(NamedTuple):
    """How far the dead set is beyond its bounds.

    Attributes:
        now: of the server, epoch seconds.
        size: jobs in the set.
        most: jobs to remove, the first ones of the set.
        bounds: those that hold.
    """

    now: float
    size: int
    most: int
    bounds: DeadBounds

    @property
    def expired_at(self) -> float:
        """What died up to then has had its time, epoch seconds."""
        return self.now - self.bounds.timeout_s


def read_excess(connection: RedisConnection, keys: Keys, own: DeadBounds) -> Excess:
    """The dead jobs beyond the bounds of this worker; if there are any, beyond the widest bounds of the living fleet.

    One round trip, and three more if it is beyond.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    (seconds, micros), size, first = connection.run(
        ("TIME",), ("ZCARD", keys.dead), ("ZRANGE", keys.dead, 0, 0, "WITHSCORES")
    )
    now = int(seconds) + int(micros) / 1_000_000
    if not own.overflow(size) and (not first or float(first[1]) > now - own.timeout_s):
        return Excess(now, size, 0, own)
    published = read_infos(connection.run, keys, field=FIELD).values()
    bounds = fleet_bounds([own.field(), *published])
    expired = connection.call("ZCOUNT", keys.dead, "-inf", repr(now - bounds.timeout_s))
    return Excess(now, size, max(int(expired), bounds.overflow(size)), bounds)


def remove_dead(
    connection: RedisConnection,
    keys: Keys,
    members: Sequence[bytes],
    scores: Sequence[bytes],
    *,
    now: float,
    expired_at: float,
) -> list[bool]:
    """Remove members that are as they were read; for each whether it was.

    Args:
        connection: where to write.
        keys: the namespace.
        members, scores: as read.
        now: epoch seconds.
        expired_at: what died up to then has had its time; others are counted as dropped.

    Raises:
        RedisUnavailable: some may have been removed, and are counted then.
        RedisRefused: a key is of another type; nothing was removed.
    """
    args: list[str | bytes | float] = [repr(now), repr(expired_at), os.urandom(6).hex()]
    args.append(repr(now - KEPT_S))
    for pair in zip(members, scores, strict=True):
        args += pair
    answers = connection.script(_TRIM, [keys.dead, keys.dead_trimmed], args)
    return [bool(answer) for answer in answers]


class DeadTrim:
    """Trims the dead set while this process leads.

    Args:
        keys: the namespace.
        own: the bounds of this worker; the widest of the fleet hold.
        archive: where jobs are written first; None = they are only dropped.
        monotonic: seconds, for the intervals.
    """

    def __init__(
        self,
        keys: Keys,
        own: DeadBounds,
        *,
        archive: DeadArchive | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._own = own
        self._archive = archive
        self._monotonic = monotonic
        self._trim_at = self._warn_at = float("-inf")

    def look(self, connection: RedisConnection) -> None:
        """Trim the set if it is time.

        Raises:
            RedisUnavailable, RedisRefused: a later call goes on.
            ArchiveFailed: nothing was removed.
        """
        for _ in range(TURNS):
            excess = read_excess(connection, self._keys, self._own)
            if excess.bounds.is_kept and excess.size > excess.bounds.most:
                self._warn_of_growth(excess.size)
            now = self._monotonic()
            if not excess.most or (excess.most < AT_ONCE and now < self._trim_at):
                return
            # Also if it fails: the archive is not tried at each look.
            self._trim_at = now + GATHER_S
            self._trim(connection, excess)

    def _trim(self, connection: RedisConnection, excess: Excess) -> None:
        parts = self._read(connection, min(excess.most, TURN_JOBS))
        name = ""
        if self._archive is not None and parts:
            threads.rest()  # S3 or a disk may take its time
            name = self._archive.write(parts, excess.now)
        expired, dropped = Counter[str](), Counter[str]()
        try:
            for members, scores in parts:
                threads.beat()
                removed = remove_dead(
                    connection,
                    self._keys,
                    members,
                    scores,
                    now=excess.now,
                    expired_at=excess.expired_at,
                )
                for member, score, is_removed in zip(members, scores, removed, strict=True):
                    if is_removed:
                        counts = expired if float(score) <= excess.expired_at else dropped
                        counts[JobRecord(member).own_class or UNREADABLE_CLASS] += 1
        finally:
            self._report(expired, dropped, name)

    def _read(self, connection: RedisConnection, most: int) -> Sequence[Read]:
        parts: list[Read] = []
        left, size = most, 0
        for members, scores in read_place(connection, self._keys, Place(kind="set", name="dead")):
            threads.beat()
            parts.append((members[:left], scores[:left]))
            left -= len(members)
            size += sum(map(len, members))
            if left <= 0 or size >= TURN_BYTES:
                break
        return parts

    def _report(self, expired: Counter[str], dropped: Counter[str], name: str) -> None:
        where = f"they are in {self._archive}/{name}" if name else "they are gone for good"
        if dropped:
            logger.warning(
                "the dead set is full, and its oldest jobs were dropped: %s; %s. Remove the cause, then retry or "
                "delete dead jobs; raise dead_max_jobs, or set dead_overflow: keep, to keep more",
                _counted(dropped),
                where,
            )
        if expired:
            logger.info(
                "dead jobs were dropped, since they have been dead for dead_timeout_in_seconds: %s; %s",
                _counted(expired),
                where,
            )

    def _warn_of_growth(self, size: int) -> None:
        now = self._monotonic()
        if now >= self._warn_at:
            self._warn_at = now + WARN_S
            logger.warning(
                "the dead set has %s, more than dead_max_jobs, and grows until Redis is full (dead_overflow: keep); "
                "remove the cause, then retry or delete them: kiqbridge dead",
                count_text(size, "job"),
            )


def trimming(parts: EngineParts) -> Callable[[RedisConnection], object]:
    """The chore of the leader, by the settings of this worker."""
    config, archive = parts.config, None
    if config.dead_archive:
        # The address of Redis is without a password: it stands in the files of the archive.
        archive = DeadArchive(
            config.dead_archive, source=parts.pool.address, namespace=parts.keys.prefix
        )
    return DeadTrim(parts.keys, config.dead_bounds, archive=archive).look


def _counted(classes: Counter[str]) -> str:
    """`1,250 jobs (Mail 1,000, Bill 250)`."""
    named = [f"{shown(name)} {count:,}" for name, count in classes.most_common(NAMED)]
    if len(classes) > NAMED:
        named.append(f"{len(classes) - NAMED:,} other classes")
    return f"{count_text(classes.total(), 'job')} ({', '.join(named)})"
