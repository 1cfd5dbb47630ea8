"""Jobs that are about to be deleted, killed or moved, written into a file that `kiqbridge restore` reads."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from kiqbridge.api import Filter, Operator
from kiqbridge.api.sets import score_text
from kiqbridge.features.transfer.file import whole_file
from kiqbridge.features.transfer.form import Chunk, End, Header, Kind, Line, Place
from kiqbridge.features.transfer.state import StateSource
from kiqbridge.wire.job_record import JobRecord


class Saved(Filter):
    """Of the jobs that match only those that were saved: what came since then is not in the file."""

    texts: frozenset[int]
    jids: frozenset[str]

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return super().__str__() or "all"

    def matches(self, job: JobRecord, now: float) -> bool:
        """Whether the job was chosen, and matches the filter."""
        is_saved = hash(job.text) in self.texts or job.jid in self.jids  # it may have moved since
        return is_saved and super().matches(job, now)


def save_jobs(operator: Operator, path: Path, places: Sequence[Any], where: Filter) -> Filter:
    """Write the jobs that match, with what they need; when it returns, the disk has all of it.

    Args:
        operator: whose.
        path: of the file, which must not exist.
        places: queues and sets of `kiqbridge.api`.
        where: which jobs.

    Returns:
        A filter for those that the file has.

    Raises:
        PayloadError: the file cannot be written; nothing of it stays.
        RedisUnavailable, RedisRefused: not all was read; nothing of the file stays.
    """
    texts: set[int] = set()
    jids: set[str] = set()
    with whole_file(path) as file:
        writer = ExportWriter(operator, file.write, new_id())

        def add(place: Any, jobs: Sequence[Any]) -> None:
            new = [job for job in jobs if hash(job.text) not in texts]  # some may be read twice
            if new:
                texts.update(hash(job.text) for job in new)
                jids.update(job.jid for job in new if job.jid)
                scores = [] if place.is_queue else [score_text(job.score).encode() for job in new]
                kind: Kind = "queue" if place.is_queue else "set"
                writer.add(Place(kind=kind, name=place.name), [job.text for job in new], scores)

        for place in places:
            place.visit(where, lambda jobs, place=place: add(place, jobs))
        writer.end()
    made = Saved(**{each.name: getattr(where, each.name) for each in fields(where)})
    object.__setattr__(made, "texts", frozenset(texts))
    object.__setattr__(made, "jids", frozenset(jids))
    return made


class ExportWriter:
    """Writes an export that takes nothing away: its header, then jobs, each with what it needs, then the end.

    Args:
        operator: whose jobs.
        write: gets each line.
        name: of the export.

    Attributes:
        members: how many jobs were written.
    """

    def __init__(self, operator: Operator, write: Callable[[Line], object], name: str) -> None:
        self.members = 0
        self._write = write
        self._chunks = 0
        self._state = StateSource(pool=operator.pool, keys=operator.keys, takes=False)
        write(header_of(operator, name))

    def add(self, place: Place, members: Sequence[bytes], scores: Sequence[bytes]) -> None:
        """Jobs of a place, in the order in which they leave it."""
        self._chunks += 1
        self.members += len(members)
        chunk = Chunk(number=self._chunks, place=place, members=members, scores=scores)
        self._write_all(self._state.needed(self._state.move(chunk)))
        self._write(chunk)

    def end(self, *, is_all: bool = False, with_spans: bool = False) -> None:
        """What belongs to no job, as `StateSource.rest` has it, and the last line."""
        self._write_all(self._state.rest(is_all=is_all, with_spans=with_spans))
        self._write(End(chunks=self._chunks, members=self.members))

    def _write_all(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._write(line)


def new_id() -> str:
    """A name for an export."""
    return os.urandom(12).hex()


def header_of(operator: Operator, name: str) -> Header:
    """The first line of an export of this name."""
    return Header(
        id=name,
        at=round(time.time(), 3),
        source=operator.pool.address,
        namespace=operator.keys.prefix,
    )
