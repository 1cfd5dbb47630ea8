"""The only maker of a dead job: whoever lets a job die asks here for what is written of it.

A worker lets a job die that has no tries left, is refused, overran, killed its child process, or cannot be read; the
poller one that cannot become a job when it is due; an operator one that was killed. Each death has the text for
`dead`, as Ruby's pages can show it, and the effects of the job's end (ending.py). Pure.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kiqbridge.engine.settle.ending import ending
from kiqbridge.engine.settle.failed_payload import error_class, error_message
from kiqbridge.engine.settle.settlement import Settlement, Target
from kiqbridge.errors import JobRemoved
from kiqbridge.wire import json_text
from kiqbridge.wire.job_text import JobText, watched_payload
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import Profile
from kiqbridge.wire.raw_job import MAX_PARSED_BYTES, failed_text, unreadable_job
from kiqbridge.wire.showable import KEPT_IN, showable


def dead(
    keys: Keys,
    text: bytes,
    payload: Mapping[str, Any],
    kept: Mapping[str, Any],
    error: BaseException,
    *,
    now: float,
    took_s: float | None = None,
    notify: Callable[[], None] | None = None,
) -> Settlement:
    """A job dies whose text is read.

    Args:
        keys: the namespace.
        text: as it was fetched.
        payload: what that says.
        kept: the payload with what is recorded of the failure (failed_payload.py).
        error: the last one.
        now: epoch seconds.
        took_s: seconds that its last run took; None = it was not run.
        notify: calls the handlers, once it is written.
    """
    return Settlement(
        target=Target.DEAD,
        score=now,
        text=json_text.dumps_moved(kept, text),
        counted=True,
        notify=notify,
        effects=ending(keys, payload, "dead", now, error=error, took_s=took_s, kept=kept),
    )


def dead_unread(
    keys: Keys,
    text: bytes,
    error: BaseException,
    *,
    queue: str,
    now: float,
    profile: Profile,
    is_job: bool = False,
    notify: Callable[[], None] | None = None,
) -> Settlement:
    """A text dies that is not read: it is kept as the argument of a job that every Sidekiq can show.

    Arguments as those of `dead`, and:
        queue: where it was found.
        profile: the form of timestamps.
        is_job: it can be a job, but is no reading: what is recorded of its failure is added to its bytes.
    """
    kept, record = text, unreadable_job
    if is_job:
        job = JobText(text)
        if job.is_readable:
            item = showable({"jid": None, **job.item})
            kept = json_text.dumps_moved(item, text) if KEPT_IN in item else text
        if job.is_readable or len(text) > MAX_PARSED_BYTES:
            record = failed_text
    return Settlement(
        target=Target.DEAD,
        score=now,
        text=record(
            kept,
            error_class=error_class(error),
            error_message=error_message(error),
            queue=queue,
            now=now,
            profile=profile,
        ),
        counted=is_job,
        notify=notify,
        effects=ending(keys, watched_payload(text), "dead", now, error=error),
    )


def killed(keys: Keys, job: JobText, by: str, *, now: float, profile: Profile) -> Settlement:
    """An operator kills a job; `by` says who. It is kept as it is, if its text is an object."""
    error = JobRemoved(f"{by} killed it")
    if not job.item:
        return dead_unread(keys, job.text, error, queue=job.queue, now=now, profile=profile)
    effects = ending(keys, watched_payload(job.text), "dead", now, error=error)
    return Settlement(target=Target.DEAD, score=now, text=job.text, counted=False, effects=effects)
