"""What becomes of a failed job (protocol §7.4, §8), decided without touching Redis.

As its developer lives it: the job raises, the message is logged, and it is tried again after 15 s,
16 s, 31 s, 96 s and so on, 25 times within about 20 days. Then it is dead: kept for six months,
where the Web UI can revive it. `retry: N` changes the number, `retry: 0` means dead at once and
`retry: false` dropped at once. The decision is a pure function, but for the rules that a class
brings along; writing it is one script.
"""

import base64
import json
import logging
import os
import random
import re
import traceback
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from kiqbridge import user_code
from kiqbridge.backoff import retry_delay
from kiqbridge.child_messages import failure_of
from kiqbridge.errors import JobNotFound
from kiqbridge.payload import Profile, read_timestamp, timestamp
from kiqbridge.registry import Handling, OnError
from kiqbridge.server import BacktraceCleaner
from kiqbridge.showable import showable

logger = logging.getLogger(__name__)

DEFAULT_HANDLING = Handling()

MESSAGE_LIMIT = 10_000
"""Characters of an error message that are kept (§8.6)."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_ENGINE = f"{Path(__file__).parent}{os.sep}"


class Verdict(StrEnum):
    """Where a job goes that did not succeed.

    REPUSH is the end of its queue, for an iterable job that makes room; SCHEDULE puts it off,
    untouched. ROUTE is the end of another queue, untouched as well.
    """

    RETRY = "retry"
    DEAD = "dead"
    DROP = "drop"
    REPUSH = "repush"
    SCHEDULE = "schedule"
    ROUTE = "route"


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
    backtrace_cleaner: BacktraceCleaner | None = None


def decide(
    payload: Mapping[str, Any],
    error: BaseException,
    *,
    queue: str,
    class_retry: bool | int | None,
    policy: RetryPolicy,
    now: float,
    rng: random.Random,
    handling: Handling = DEFAULT_HANDLING,
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
        handling: the class' own rules; their functions are called here, at most once each, and an
            error in them is logged and counts as if they had said nothing.
    """
    retry = payload.get("retry")
    if retry is None and class_retry is not None:
        retry = class_retry
        payload = {**payload, "retry": retry}  # kept with the job, as Ruby does
    failed = failed_payload(payload, error, queue=queue, policy=policy, now=now)
    answer = _rule_for(error, handling.on_error)
    if answer == "discard":
        return _dropped(failed, policy, now)
    if retry is None or retry is False:  # nothing is recorded of its failure
        return RetryDecision(verdict=Verdict.DROP, payload=dict(payload))
    limit = retry if isinstance(retry, int) and retry is not True else policy.max_retries
    count = failed["retry_count"]
    if answer == "kill" or _exhausted(failed, count, limit, now):
        return _died(failed, error, handling, policy, now)
    if answer is None and handling.retry_in is not None:
        answer = _ask(handling.retry_in, count, error, failed)
        if answer == "discard":
            return _dropped(failed, policy, now)
        if answer == "kill":
            return _died(failed, error, handling, policy, now)
    delay = retry_delay(count, rng, _seconds(answer))
    return RetryDecision(verdict=Verdict.RETRY, payload=failed, at=now + delay)


def _rule_for(error: BaseException, rules: OnError) -> str | float | None:
    """What is declared for the nearest class of an error."""
    if not rules:
        return None
    return next((rules[kind] for kind in type(error).__mro__ if kind in rules), None)


def _ask(function: Callable[..., object], *args: object) -> Any:
    """What a rule of a class answers; one that fails, with whatever error, has said nothing."""
    failed = "a rule failed, and the job is treated as if it had said nothing"
    return user_code.call(function, *args, log=logger, failed=failed)


def _seconds(answer: object) -> float | None:
    """A job's own delay; None where it stands for the usual one (§8.3)."""
    if isinstance(answer, timedelta):
        answer = answer.total_seconds()
    if isinstance(answer, bool) or not isinstance(answer, int | float) or not answer > 0:
        return None
    return answer


def _dropped(failed: dict[str, Any], policy: RetryPolicy, now: float) -> RetryDecision:
    failed["discarded_at"] = timestamp(now, policy.profile)  # only the death handlers see it (§8.3)
    return RetryDecision(verdict=Verdict.DROP, payload=failed)


def _died(
    failed: dict[str, Any],
    error: BaseException,
    handling: Handling,
    policy: RetryPolicy,
    now: float,
) -> RetryDecision:
    """No tries are left (§8.4)."""
    answer = handling.retries_exhausted and _ask(handling.retries_exhausted, failed, error)
    if answer == "discard" or failed.get("dead") is False:
        return _dropped(failed, policy, now)
    return RetryDecision(verdict=Verdict.DEAD, payload=failed)


def failed_payload(
    payload: Mapping[str, Any],
    error: BaseException,
    *,
    queue: str,
    policy: RetryPolicy,
    now: float,
) -> dict[str, Any]:
    """The payload with what is recorded about a failure, in Ruby's order (§3.4, §8.1).

    What Ruby's readers cannot show is put aside: see `showable`.
    """
    failed = showable(dict(payload))
    failed["queue"] = payload.get("retry_queue") or queue
    failed["error_message"] = error_message(error)
    failed["error_class"] = error_class(error)
    count = payload.get("retry_count")
    if count is None:
        failed["failed_at"] = timestamp(now, policy.profile)
        failed["retry_count"] = 0
    else:
        failed["retried_at"] = timestamp(now, policy.profile)
        failed["retry_count"] = _whole(count) + 1
        if failed["retry_count"] <= 0 and failed.get("failed_at") is None:
            failed["failed_at"] = failed["retried_at"]  # Ruby's page of the job shows this one then
    lines = payload.get("backtrace")
    if lines:
        most = None if lines is True else _whole(lines)
        failed["error_backtrace"] = _backtrace(error, most, policy.backtrace_cleaner)
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
        cleaned = _ask(cleaner, lines)
        if cleaned and isinstance(cleaned, list) and all(type(line) is str for line in cleaned):
            lines = cleaned
    text = json.dumps(lines[:most], ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"))).decode("ascii")
