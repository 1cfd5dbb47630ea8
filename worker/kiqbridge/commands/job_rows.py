"""Jobs as commands print them: fields for JSON, cells for tables."""

import json
from collections.abc import Sequence
from typing import Any, Final

from kiqbridge.api import JobRecord, SortedEntry
from kiqbridge.commands.output import fields_of
from kiqbridge.wire.amounts import span_text

_MOST_ARGS: Final = 200
"""Characters of the arguments in a table."""


def job_fields(job: JobRecord) -> dict[str, Any]:
    """What JSON output has of a job; times are epoch seconds, and null where the job has none."""
    names = "jid display_class queue tags created_at enqueued_at failed_at retried_at retry_count"
    names += " error_class error_message" + (" at" if isinstance(job, SortedEntry) else "")
    more = {"class": job.job_class, "args": job.display_args, "readable": job.is_readable}
    return {**fields_of(job, names), **more}


def class_cell(job: JobRecord) -> str:
    """The class, or that the text cannot be read."""
    return job.display_class or ("(unreadable)" if not job.is_readable else "(no class)")


def args_cell(args: Sequence[Any], *, most: int = _MOST_ARGS) -> str:
    """Arguments with commas between them, as JSON, cut to what a table has room for."""
    text = ""
    for value in args:
        shown = json.dumps(value, ensure_ascii=False, default=str)
        text = f"{text}, {shown}" if text else shown
        if len(text) > most:
            return text[: most - 1] + "…"
    return text


def error_cell(job: JobRecord) -> str:
    """`CLASS: message` of the last failure."""
    if not job.error_class:
        return job.error_message[:_MOST_ARGS]
    return f"{job.error_class}: {job.error_message}"[:_MOST_ARGS]


def since_cell(at: float | None, now: float) -> str:
    """`12 min ago`, `in 3 h`, or a dash."""
    if at is None:
        return "-"
    return f"in {span_text(at - now)}" if at > now else f"{span_text(now - at)} ago"
