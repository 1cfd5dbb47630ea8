"""What runs at this moment, as the heartbeat publishes it (protocol §10.4)."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import MAX_DEPTH
from kiqbridge.wire.raw_job import (
    is_nested_deeper,
    outline,
    replacements,
    showable,
    unreadable_job,
    with_more,
)

_MAX_PARSED_BYTES = 100_000
"""A longer text is looked at by its bytes alone: parsing it would hold up the beat and the jobs."""


class RunningJob(NamedTuple):
    """A running job: its queue, its text as fetched, and when it began (epoch seconds)."""

    queue: str
    text: bytes
    run_at: float


class Holder(Protocol):
    """Who runs jobs: a processor, or an event loop."""

    def holding(self) -> Iterator[tuple[str, Chunk, RunningJob]]:
        """The running jobs as (id, chunk, job)."""

    def end_one(self, tid: str, job: RunningJob) -> None:
        """Interrupt one that was taken away."""


def shown_text(job: RunningJob) -> bytes:
    """The job's text as Ruby's Busy page can show it: one that it cannot takes down the page."""
    text = job.text
    if len(text) > _MAX_PARSED_BYTES:
        found = outline(text)
        if found is None or is_nested_deeper(text, MAX_DEPTH):
            return _unreadable(job)
        odd = replacements(found.strings, found.others)
        return with_more(text.strip(), odd) if odd else text
    # As it is published: what is no UTF-8 is replaced.
    payload = json_text.read_object(text.decode("utf-8", "replace").encode())
    if payload:
        shown = showable(payload)
        return text if shown is payload else json_text.dumps_moved(shown, text)
    return _unreadable(job)


def _unreadable(job: RunningJob) -> bytes:
    return unreadable_job(
        job.text, error_class="", error_message="", queue=job.queue, now=job.run_at, profile="7"
    )
