"""What becomes of a failed job (protocol §7.4, §8), decided without touching Redis.

As its developer lives it: the job raises, the message is logged, and it is tried again after 15 s,
16 s, 31 s, 96 s and so on, 25 times within about 20 days. Then it is dead: kept for six months,
where the Web UI can revive it. `retry: N` changes the number, `retry: 0` means dead at once and
`retry: false` dropped at once. The decision is a pure function; writing it is one script.
"""

import base64
import json
import os
import random
import re
import traceback
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from kiqbridge.backoff import retry_delay
from kiqbridge.errors import JobNotFound
from kiqbridge.payload import Profile, read_timestamp, timestamp

MESSAGE_LIMIT = 10_000
"""Characters of an error message that are kept (§8.6)."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_ENGINE = f"{Path(__file__).parent}{os.sep}"


class Verdict(StrEnum):
    """Where a failed job goes."""

    RETRY = "retry"
    DEAD = "dead"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDecision:
    """The verdict, the payload as it shall be kept, and for a retry its time (epoch seconds)."""

    verdict: Verdict
    payload: dict[str, Any]
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """What of the worker's settings a decision depends on."""

    max_retries: int
    profile: Profile


def decide(
    payload: Mapping[str, Any],
    error: BaseException,
    *,
    queue: str,
    class_retry: bool | int | None,
    policy: RetryPolicy,
    now: float,
    rng: random.Random,
) -> RetryDecision:
    """Decide about a failed job.

    Args:
        payload: the job as it was fetched.
        error: what it raised.
        queue: where it was fetched from.
        class_retry: the class' own `retry`, for a payload that says nothing; None when the class
            was not found, and the job is then dropped (§7.4).
        policy: the worker's settings.
        now: epoch seconds.
        rng: for the jitter.
    """
    retry = payload.get("retry")
    if retry is None and class_retry is not None:
        retry = class_retry
        payload = {**payload, "retry": retry}  # kept with the job, as Ruby does
    failed = failed_payload(payload, error, queue=queue, profile=policy.profile, now=now)
    if retry is None or retry is False:
        return RetryDecision(verdict=Verdict.DROP, payload=failed)
    limit = retry if isinstance(retry, int) and retry is not True else policy.max_retries
    count = failed["retry_count"]
    if _exhausted(failed, count, limit, now):
        kept = failed.get("dead") is not False
        return RetryDecision(verdict=Verdict.DEAD if kept else Verdict.DROP, payload=failed)
    return RetryDecision(verdict=Verdict.RETRY, payload=failed, at=now + retry_delay(count, rng))


def failed_payload(
    payload: Mapping[str, Any], error: BaseException, *, queue: str, profile: Profile, now: float
) -> dict[str, Any]:
    """The payload with what is recorded about a failure, in Ruby's order (§3.4, §8.1)."""
    failed = dict(payload)
    failed["queue"] = payload.get("retry_queue") or queue
    failed["error_message"] = error_message(error)
    failed["error_class"] = error_class(error)
    count = payload.get("retry_count")
    if count is None:
        failed["failed_at"] = timestamp(now, profile)
        failed["retry_count"] = 0
    else:
        failed["retried_at"] = timestamp(now, profile)
        failed["retry_count"] = _whole(count) + 1
    lines = payload.get("backtrace")
    if lines:
        failed["error_backtrace"] = _backtrace(error, None if lines is True else _whole(lines))
    return failed


def error_message(error: BaseException) -> str:
    """The first 10,000 characters, always encodable."""
    try:
        text = str(error)
    except Exception as unreadable:  # noqa: BLE001 - a broken __str__ must not cost the job
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


def _exhausted(failed: Mapping[str, Any], count: int, limit: int, now: float) -> bool:
    window = failed.get("retry_for")
    if window:
        since = read_timestamp(failed.get("failed_at"))
        if since is not None:  # without a first failure the window has no start: the count ends it
            return since + _whole(window) < now
    return count >= limit


def _whole(value: object) -> int:
    """An integer out of whatever a foreign producer wrote; 0 when there is none."""
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return 0


def _backtrace(error: BaseException, most: int | None) -> str:
    """Base64 of deflated JSON: the lines, innermost first, without ours (§8.6)."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_ENGINE)] or list(frames)
    lines = [f"{frame.filename}:{frame.lineno}:in '{frame.name}'" for frame in reversed(own)]
    text = json.dumps(lines[:most], ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"))).decode("ascii")
