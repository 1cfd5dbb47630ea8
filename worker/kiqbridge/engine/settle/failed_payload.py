"""What is recorded of a failure with its job: the error's class, message and backtrace, and the count (§8).

A job that failed once, of class `Mail`, with `backtrace: 1`:

    {"class":"Mail","args":[7],"jid":"b4a5…","retry":true,"queue":"default","backtrace":1,
     "error_message":"no route","error_class":"OSError","failed_at":1700000000.5,"retry_count":0,
     "error_backtrace":"eJyL…"}
"""

import base64
import json
import logging
import os
import re
import traceback
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kiqbridge.client.server import BacktraceCleaner
from kiqbridge.engine.settle.error_report import failure_of
from kiqbridge.errors import JobNotFound
from kiqbridge.runtime import user_code
from kiqbridge.wire.payload import Profile, timestamp
from kiqbridge.wire.showable import showable

logger = logging.getLogger(__name__)

MESSAGE_LIMIT = 10_000
"""Characters of an error message that are kept (§8.6)."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_ENGINE = f"{Path(__file__).parents[2]}{os.sep}"


def failed_payload(
    payload: Mapping[str, Any],
    error: BaseException,
    *,
    queue: str,
    profile: Profile,
    now: float,
    cleaner: BacktraceCleaner | None = None,
) -> dict[str, Any]:
    """The payload with what is recorded about a failure, in Ruby's order (§3.4, §8.1).

    What Ruby's readers cannot show is put aside: see `showable`.

    Args:
        payload: the job as it was fetched.
        error: what it raised.
        queue: where it was fetched from.
        profile: the form of timestamps.
        now: epoch seconds.
        cleaner: chooses the lines of a backtrace.
    """
    failed = showable(dict(payload))
    failed["queue"] = payload.get("retry_queue") or queue
    failed["error_message"] = error_message(error)
    failed["error_class"] = error_class(error)
    count = payload.get("retry_count")
    if count is None:
        failed["failed_at"] = timestamp(now, profile)
        failed["retry_count"] = 0
    else:
        failed["retried_at"] = timestamp(now, profile)
        failed["retry_count"] = whole_number(count) + 1
        if failed["retry_count"] <= 0 and failed.get("failed_at") is None:
            failed["failed_at"] = failed["retried_at"]  # Ruby's page of the job shows this one then
    lines = payload.get("backtrace")
    if lines:
        most = None if lines is True else whole_number(lines)
        failed["error_backtrace"] = _backtrace(error, most, cleaner)
    return failed


def error_message(error: BaseException) -> str:
    """The first 10,000 characters, always encodable."""
    try:
        text = str(error)
    except BaseException as unreadable:  # noqa: BLE001 - a broken __str__ must not cost the job
        text = f"(the message could not be read: {type(unreadable).__name__})"
    return _SURROGATES.sub("\ufffd", text[:MESSAGE_LIMIT])


def error_class(error: BaseException) -> str:
    """Builtins by name, others `module.QualName`; an unknown class is Ruby's NameError."""
    if isinstance(error, JobNotFound):
        return "NameError"
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def whole_number(value: object) -> int:
    """An integer out of whatever a foreign producer wrote; 0 when there is none."""
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return 0


def backtrace_lines(error: BaseException) -> list[str]:
    """`FILE:LINE:in 'FUNCTION'`, innermost first, without ours (§8.6)."""
    failure = failure_of(error)
    if failure is not None:  # it was raised in a child process
        return list(failure.backtrace)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_ENGINE)] or list(frames)
    return [f"{frame.filename}:{frame.lineno}:in '{frame.name}'" for frame in reversed(own)]


def _backtrace(error: BaseException, most: int | None, cleaner: BacktraceCleaner | None) -> str:
    """Base64 of deflated JSON, without line breaks (§8.6)."""
    lines = backtrace_lines(error)
    if cleaner is not None:
        cleaned = user_code.call(
            cleaner,
            lines,
            log=logger,
            failed="a backtrace cleaner failed, and the lines stay as they are",
        )
        if cleaned and isinstance(cleaned, list) and all(type(line) is str for line in cleaned):
            lines = cleaned
    text = json.dumps(lines[:most], ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"))).decode("ascii")
