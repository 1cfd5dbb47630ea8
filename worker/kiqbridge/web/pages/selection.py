"""Which jobs a form means: each row carries where it was seen and a digest of its text.

A jid would not do: a job may have none, and two may have the same. Whoever has moved a job, or written
it anew, has changed place or digest, and it is not found: so a form that lay open never hits another job.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from kiqbridge.api import JobRecord, JobSet, Queue, QueuedJob, SortedEntry
from kiqbridge.api.sets import score_text

MOST: Final = 200
"""Jobs of one form."""
_AT_ONE_SCORE: Final = 10_000
_READ_AT_ONCE: Final = 500
_TAKEN_MEANWHILE: Final = 50_000
_JOINED_MEANWHILE: Final = 200
"""Jobs that may have been given back to the consuming end of a queue since it was shown."""


def digest_of(job: JobRecord) -> str:
    """Sixteen characters that stand for a text."""
    return hashlib.blake2b(job.text, digest_size=8).hexdigest()


def token_of(job: JobRecord) -> str:
    """`SCORE-DIGEST` of a member of a set, `FROM_TAIL-DIGEST` of a job in a queue; empty for others."""
    if isinstance(job, SortedEntry):
        return f"{score_text(job.score)}-{digest_of(job)}"
    return f"{job.from_tail or 0}-{digest_of(job)}" if isinstance(job, QueuedJob) else ""


def find_jobs(place: JobSet | Queue, tokens: Sequence[str]) -> Sequence[JobRecord]:
    """The jobs that these tokens mean, those left out that are not there any more."""
    known = tokens[:MOST]
    return _in_queue(place, known) if isinstance(place, Queue) else _in_set(place, known)


def _in_set(job_set: JobSet, tokens: Sequence[str]) -> list[SortedEntry]:
    wanted: defaultdict[float, set[str]] = defaultdict(set)
    for token in tokens:
        score, _, digest = token.rpartition("-")
        number = _score(score)
        if number is not None:
            wanted[number].add(digest)
    return [entry for at, digests in wanted.items() for entry in _at_score(job_set, at, digests)]


def _in_queue(queue: Queue, tokens: Sequence[str]) -> list[QueuedJob]:
    """A job comes nearer to the consuming end when others are taken: it is looked for from where it was to that end."""
    wanted: dict[str, int] = {}
    for token in tokens:
        place, _, digest = token.partition("-")
        if place.isascii() and place.isdecimal() and len(place) < len(str(10**12)):
            wanted[digest] = int(place)
    found: list[QueuedJob] = []
    end = max(wanted.values(), default=-1) + _JOINED_MEANWHILE
    least = max(0, min(wanted.values(), default=0) - _TAKEN_MEANWHILE)
    while wanted and end >= least:
        first = max(0, end - _READ_AT_ONCE + 1)
        found += [
            job
            for job in queue.oldest(first, end - first + 1)
            if wanted.pop(digest_of(job), None) is not None
        ]
        end = first - 1
    return sorted(found, key=lambda job: job.from_tail or 0)  # as they would be taken


def _at_score(job_set: JobSet, score: float, digests: set[str]) -> list[SortedEntry]:
    text = score_text(score)
    found: list[SortedEntry] = []
    for offset in range(0, _AT_ONE_SCORE, _READ_AT_ONCE):
        rows = job_set.operator.pool.call(
            "ZRANGE", job_set.redis_key, text, text, "BYSCORE", "LIMIT", offset, _READ_AT_ONCE
        )
        entries = [SortedEntry(job_set, row, score) for row in rows]
        found += [entry for entry in entries if digest_of(entry) in digests]
        if len(found) == len(digests) or len(rows) < _READ_AT_ONCE:
            break
    return found


def _score(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None  # no token of ours
    return None if math.isnan(number) else number
