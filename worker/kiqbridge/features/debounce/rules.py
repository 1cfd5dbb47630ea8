"""What a declaration says about debounced and throttled jobs; public as `kiqbridge.flow`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import FLOW
from kiqbridge.wire.rules import By, Rule, RuledJob, check_choice, check_seconds

Over = Literal["drop", "later"]


class _SpanRule(Rule):
    """A rule of spans: what the two have in common."""

    __slots__ = ()
    part: ClassVar = "debounce.push_by_span"
    adjective: ClassVar[str]

    def keys(self, keys: Keys) -> Sequence[str]:
        """The keys that the script reads and writes."""
        return keys.flow_spans, keys.flow_spans_until

    def check_payload(self, payload: Mapping[str, Any]) -> None:
        """Refuse a job that may be left out, or replaced, without an end, and has one that is waited for."""
        if FLOW in payload:
            raise PayloadError(
                f"{FLOW}: a {self.adjective} job ({payload['class']}) may be left out, so that it cannot be a part of "
                "a batch or a chain, and cannot have a result; push it from within them"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Debounce(_SpanRule):
    """Rule: the last of several pushes with the same arguments runs, once no other one has come for a while.

    Attributes:
        wait_s: seconds without another push until the job runs.
        by: which arguments count, as for `Unique`.
        max_wait_s: seconds after the first of these pushes when the job runs at the latest; None = as long as
            others come.

    Raises:
        ConfigError: a value that cannot be used.
    """

    option: ClassVar = "debounce"
    adjective: ClassVar = "debounced"
    is_later: ClassVar = True

    wait_s: float
    by: By = None
    max_wait_s: float | None = None

    def __post_init__(self) -> None:
        check_seconds("debounce: wait_s", self.wait_s)
        if self.max_wait_s is not None:
            check_seconds("debounce: max_wait_s", self.max_wait_s)
            if self.max_wait_s < self.wait_s:
                raise ConfigError(
                    f"debounce: max_wait_s {self.max_wait_s:g} is less than wait_s {self.wait_s:g}; "
                    "make it longer, or leave it out"
                )

    def script_args(self, job: RuledJob) -> Sequence[str | bytes | float]:
        """The arguments of the script for one job; refuses a job that cannot have this rule."""
        self.check_payload(job.payload)
        if job.at is not None:
            raise PayloadError(
                f"at: a debounced job ({job.payload['class']}) runs once its wait is over; push it without a time"
            )
        longest = "" if self.max_wait_s is None else float(self.max_wait_s)
        return job.name, float(self.wait_s), longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle(_SpanRule):
    """Rule: at most `limit` jobs with the same arguments run in each span of time.

    Attributes:
        limit: jobs that may run in each span.
        per_s: length of a span in seconds. Spans are fixed: with 60, each begins with the minute of the clock of
            Redis.
        by: which arguments count, as for `Unique`.
        over: "drop": further jobs are not pushed, and the answer is None. "later": it is scheduled for the
            next span with room.

    Raises:
        ConfigError: a value that cannot be used.
    """

    option: ClassVar = "throttle"
    adjective: ClassVar = "throttled"

    limit: int = 1
    per_s: float
    by: By = None
    over: Over = "drop"

    def __post_init__(self) -> None:
        if type(self.limit) is not int or self.limit < 1:
            raise ConfigError(
                f"throttle: limit {shorten(self.limit)} is not a whole number above 0"
            )
        check_seconds("throttle: per_s", self.per_s)
        check_choice("throttle: over", self.over, get_args(Over))

    def script_args(self, job: RuledJob) -> Sequence[str | bytes | float]:
        """The arguments of the script for one job; refuses a job that cannot have this rule."""
        self.check_payload(job.payload)
        text = job.later() if self.over == "later" else b""
        return job.name, self.limit, float(self.per_s), self.over, text
