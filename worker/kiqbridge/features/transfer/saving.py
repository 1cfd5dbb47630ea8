"""Jobs that are about to be deleted, killed or moved, written into a file that `kiqbridge restore` reads."""

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from kiqbridge.api import Filter, Operator
from kiqbridge.api.sets import score_text
from kiqbridge.features.transfer.command import header_of
from kiqbridge.features.transfer.file import ExportFile, whole_file
from kiqbridge.features.transfer.form import Chunk, End, Place
from kiqbridge.features.transfer.state import StateSource
from kiqbridge.wire.job_record import JobRecord


class Saved(Filter):
    """Of the jobs that match only those that were saved: what came since then is not in the file."""

    texts: frozenset[int]

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return super().__str__() or "all"

    def matches(self, job: JobRecord, now: float) -> bool:
        """Whether the job was chosen, and matches the filter."""
        return hash(job.text) in self.texts and super().matches(job, now)


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
    with whole_file(path) as file:
        writer = _Writer(operator, file)
        for place in places:
            place.visit(where, lambda jobs, place=place: writer.write(place, jobs))
        writer.end()
    made = Saved(**{each.name: getattr(where, each.name) for each in fields(where)})
    object.__setattr__(made, "texts", frozenset(writer.texts))
    return made


class _Writer:
    """Writes jobs as they are read, in the order in which they leave their place.

    Attributes:
        texts: hashes of those that were written.
    """

    def __init__(self, operator: Operator, file: ExportFile) -> None:
        self._file = file
        self._state = StateSource(pool=operator.pool, keys=operator.keys, takes=False)
        self._number = self._members = 0
        self.texts: set[int] = set()
        file.write(header_of(operator, os.urandom(12).hex()))

    def write(self, place: Any, jobs: Sequence[Any]) -> None:
        """A part of a queue may be read twice."""
        new = [job for job in jobs if hash(job.text) not in self.texts]
        if not new:
            return
        self.texts.update(hash(job.text) for job in new)
        self._number += 1
        self._members += len(new)
        chunk = Chunk(
            number=self._number,
            place=Place(kind="queue" if place.is_queue else "set", name=place.name),
            members=[job.text for job in new],
            scores=() if place.is_queue else [score_text(job.score).encode() for job in new],
        )
        for needed in self._state.needed(self._state.move(chunk)):
            self._file.write(needed)
        self._file.write(chunk)

    def end(self) -> None:
        """What is left to be said, and the last line."""
        for line in self._state.rest(is_all=False, with_spans=False):
            self._file.write(line)
        self._file.write(End(chunks=self._number, members=self._members))
