"""Whether a failed job is tried again, discarded or dead, and when (protocol §7.4, §8): a pure decision.

As its developer lives it: the job raises, the message is logged, and it is tried again after 15 s,
16 s, 31 s, 96 s and so on, 25 times within about 20 days. Then it is dead: kept for up to six months,
where the Web UI can revive it. `retry: N` changes the number, `retry: 0` means dead at once and
`retry: false` discarded at once.

1. A job raised. If its error is one that a feature names (`Feature.puts_off`), it has not failed: it comes back later
   (`put_off_after`).
2. Its payload gets what is recorded of the failure (`failed_payload`), with `backtrace: 1` also that line:
   `{"class":"Mail","args":[7],"retry":true,…,"error_class":"OSError","retry_count":0,"failed_at":1700000000.5}`.
3. The rule that `on_error` of its class has for the error counts first: `"discard"`, `"kill"`, seconds.
   An argument that does not fit (`ArgumentMismatch`) is `"kill"`: the next try would meet the same one.
4. Without `retry` it is discarded, nothing is recorded. With no tries left it is dead, unless
   `retries_exhausted` or `dead: false` discards it.
5. Else it is tried again after `retry_in` of its class, or count⁴ + 15 s, and a jitter; with `retry_jitter=False`
   of its class what that says is exact.

The functions of a class are called here; all else is given: payload, error, settings, time and chance.
Writing the decision is one script (settling.py).
"""

import base64
import json
import logging
import random
import zlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kiqbridge import seams
from kiqbridge.client.registry import Handling, JobDefinition
from kiqbridge.client.server import BacktraceCleaner
from kiqbridge.engine.settle.ending import Target
from kiqbridge.engine.settle.error_report import (
    backtrace_lines,
    error_class,
    error_message,
    failure_of,
    rule_for,
)
from kiqbridge.runtime import user_code
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import Profile, read_timestamp, timestamp
from kiqbridge.wire.raw_job import showable

logger = logging.getLogger(__name__)

LONGEST_S: Final = 1_000_000_000
"""No try is put off for longer, about 32 years: a `retry_count` or an answer of `retry_in` may be any
number, and its sum with the time must still be a score."""


DEFAULT_HANDLING = Handling()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDecision:
    """The target, the payload as it shall be kept, and for a retry its time (epoch seconds)."""

    target: Target
    payload: dict[str, Any]
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """What of the worker's settings a decision depends on."""

    max_retries: int
    profile: Profile
    backtrace_cleaner: BacktraceCleaner | None = None

    def failed(
        self, payload: Mapping[str, Any], error: BaseException, *, queue: str, now: float
    ) -> dict[str, Any]:
        """The payload of a job with what is recorded of its failure at `now`."""
        return failed_payload(
            payload,
            error,
            queue=queue,
            profile=self.profile,
            now=now,
            cleaner=self.backtrace_cleaner,
        )


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
            was not found, and the job is then discarded (§7.4).
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
    failed = policy.failed(payload, error, queue=queue, now=now)
    answer = rule_for(error, handling.on_error)
    if answer == "discard":
        return _discarded(failed, policy, now)
    if retry is None or retry is False:  # nothing is recorded of its failure
        return RetryDecision(target=Target.DISCARD, payload=dict(payload))
    limit = retry if isinstance(retry, int) and retry is not True else policy.max_retries
    count = failed["retry_count"]
    if answer == "kill" or _exhausted(failed, count, limit, now):
        return _died(failed, error, handling, policy, now)
    if answer is None and handling.retry_in is not None:
        answer = _ask(handling.retry_in, count, error, failed)
        if answer == "discard":
            return _discarded(failed, policy, now)
        if answer == "kill":
            return _died(failed, error, handling, policy, now)
    seconds = _seconds(answer)
    if seconds is None or handling.retry_jitter:
        seconds = retry_delay(count, rng, seconds)
    return RetryDecision(target=Target.RETRY, payload=failed, at=now + min(seconds, LONGEST_S))


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


def _discarded(failed: dict[str, Any], policy: RetryPolicy, now: float) -> RetryDecision:
    failed["discarded_at"] = timestamp(now, policy.profile)  # only the death handlers see it (§8.3)
    return RetryDecision(target=Target.DISCARD, payload=failed)


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
        return _discarded(failed, policy, now)
    return RetryDecision(target=Target.DEAD, payload=failed)


def _exhausted(failed: Mapping[str, Any], count: int, limit: int, now: float) -> bool:
    window = failed.get("retry_for")
    if window:
        since = read_timestamp(failed.get("failed_at"))
        if since is not None:  # without a first failure the window has no start: the count ends it
            return since + whole_number(window) < now
    return count >= limit


def retry_delay(count: int, rng: random.Random, seconds: float | None = None) -> float:
    """Seconds until the next try: count⁴ + 15 and a jitter of 0…9 times (count + 1).

    `seconds` is a job's own choice instead of count⁴ + 15; the jitter stays (§8.3).

    `count` is the new `retry_count`, 0 at the first failure. The jitter is that of Sidekiq
    6.2.2 to 7, which also lies in the range of 8. A count below 0 (a job retried by
    hand from the UI before, §8.7) counts as 0.
    """
    count = min(max(count, 0), LONGEST_S)
    base = count**4 + 15 if seconds is None else seconds
    return min(base + rng.randrange(10) * (count + 1), LONGEST_S)


class PutOff(NamedTuple):
    """How a job is put off that has not failed.

    Attributes:
        delay_s: for so many seconds.
        jitter: up to this part of the delay is added to it, so that jobs do not come back together.
        attributes: what is changed in its payload.
        line: what the log says in place of `done`.
        said: follows the delay in the log, such as "for the 3. time".
    """

    delay_s: float
    jitter: float = 0.0
    attributes: Mapping[str, Any] = {}
    line: str = "put off"
    said: str = ""


def put_off_after(
    text: bytes, error: BaseException, definition: JobDefinition | None
) -> PutOff | None:
    """How a job is put off that ended with this error; None: it has failed.

    The error is of a class that a feature names, or of one derived from it; classes are compared by their names, so that
    no feature is loaded for it. A rule for it in `on_error` of the job's class counts instead, and so does a failure of
    the feature's function. A child process asks, as the error is there; its worker gets the answer with the error
    (`Failure.put_off`).

    Args:
        text: the job, as fetched.
        error: what it ended with.
        definition: of its class, if it was found.
    """
    if (failure := failure_of(error)) is not None:
        return None if failure.put_off is None else PutOff(**failure.put_off)
    kind: type = type(error)
    if (judge := seams.judge_of(kind)) is None:
        return None
    kind, rule = judge
    on_error = definition.handling.on_error if definition is not None else {}
    if any(issubclass(each, kind) and isinstance(error, each) for each in on_error):
        return None
    failed = f"a feature's rule for {kind.__qualname__} failed: the job counts as failed"
    found = user_code.call(rule, json_text.loads(text), error, log=logger, failed=failed)
    return found if isinstance(found, PutOff) else None


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


def whole_number(value: object) -> int:
    """An integer out of whatever a foreign producer wrote; 0 when there is none."""
    try:
        return int(float(str(value)))
    except (ValueError, OverflowError):
        return 0


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
