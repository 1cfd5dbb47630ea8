"""What a declaration says about unique, debounced and throttled jobs; public as `kiqbridge.flow`.

Pure: from the arguments of a job to the name under which it is one of its kind. guarded_push.py writes it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.store.locks import LOOK_S
from kiqbridge.wire.locks import Until, flow_name
from kiqbridge.wire.payload import FLOW

if TYPE_CHECKING:
    from kiqbridge.client.registry import JobDefinition

By = Sequence[str] | Callable[..., object] | None
"""Which arguments count: names of parameters; a function that is called with the arguments and answers what JSON
can carry; None: all."""

OnConflict = Literal["drop", "replace", "raise"]
Over = Literal["drop", "later"]

DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """Rule: one job of a class with the same arguments waits at a time, or waits and runs.

    Attributes:
        until: "done": from the push until the job has succeeded, died or was deleted, retries included; "start":
            until it begins.
        by: which arguments count, default all: names of parameters, or a function that is called with the
            arguments as they are on the wire.
        on_conflict: "drop": nothing is pushed, and the answer is None. "replace": the new job is pushed, and
            the earlier one is discarded when it comes up. "raise": `NotUnique`, with the jid of the earlier one.
        ttl_s: seconds after the time of the job from which the lock does not count any more, whatever
            became of the job: the last resort. Default: 30 days, more than the usual retries take.

    Raises:
        ConfigError: a value that cannot be used.
    """

    until: Until = "done"
    by: By = None
    on_conflict: OnConflict = "drop"
    ttl_s: float = 30 * DAY_S

    def __post_init__(self) -> None:
        _check_choice("unique: until", self.until, get_args(Until))
        _check_choice("unique: on_conflict", self.on_conflict, get_args(OnConflict))
        _check_seconds("unique: ttl_s", self.ttl_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Debounce:
    """Rule: the last of several pushes with the same arguments runs, once no more have come for a while.

    Attributes:
        wait_s: seconds without another push until the job runs.
        by: which arguments count, as for `Unique`.
        max_wait_s: seconds after the first of these pushes when the job runs at the latest; None = as long as
            others come.

    Raises:
        ConfigError: a value that cannot be used.
    """

    wait_s: float
    by: By = None
    max_wait_s: float | None = None

    def __post_init__(self) -> None:
        _check_seconds("debounce: wait_s", self.wait_s)
        if self.max_wait_s is not None:
            _check_seconds("debounce: max_wait_s", self.max_wait_s)
            if self.max_wait_s < self.wait_s:
                raise ConfigError(
                    f"debounce: max_wait_s {self.max_wait_s:g} is less than wait_s {self.wait_s:g}; "
                    "make it longer, or leave it out"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """Rule: at most `limit` jobs with the same arguments run in each span of time.

    Attributes:
        limit: jobs that may run in each span.
        per_s: length of a span in seconds. Spans are fixed: with 60, each begins with the minute of the clock of
            Redis.
        by: which arguments count, as for `Unique`.
        over: "drop": what is too much is not pushed, and the answer is None. "later": it is scheduled for the
            next span with room.

    Raises:
        ConfigError: a value that cannot be used.
    """

    limit: int = 1
    per_s: float
    by: By = None
    over: Over = "drop"

    def __post_init__(self) -> None:
        if type(self.limit) is not int or self.limit < 1:
            raise ConfigError(
                f"throttle: limit {shorten(self.limit)} is not a whole number above 0"
            )
        _check_seconds("throttle: per_s", self.per_s)
        _check_choice("throttle: over", self.over, get_args(Over))


Rule = Unique | Debounce | Throttle

KINDS: Final[Mapping[str, type[Rule]]] = {
    "unique": Unique,
    "debounce": Debounce,
    "throttle": Throttle,
}
"""Option of a declaration → what it takes."""


def rule_among(options: Mapping[str, Any]) -> Rule | None:
    """The rule that options of a declaration or of `set` give; None: none.

    Raises:
        ConfigError: the value of one is of another kind, or there are two.
    """
    given = {name: options[name] for name in KINDS if options.get(name) is not None}
    for name, value in given.items():
        kind = KINDS[name]
        if not isinstance(value, kind):
            raise ConfigError(
                f"{name}: {shorten(value)} is not a kiqbridge.flow.{kind.__name__}(…)"
            )
    if len(given) > 1:
        raise ConfigError(f"{' and '.join(given)}: a job can have one of them; leave the other out")
    return next(iter(given.values()), None)


def check_rule(rule: Rule, definition: "JobDefinition") -> None:
    """Refuse names in `by` that are no parameters of the job.

    Raises:
        ConfigError: names the first one.
    """
    if rule.by is None or callable(rule.by):
        return
    if isinstance(rule.by, str) or not rule.by:
        raise ConfigError(
            f'by {rule.by!r} is not a list of names of parameters, such as by=("user_id",), or a function'
        )
    for name in rule.by:
        if name not in definition.signature.parameters:
            known = ", ".join(definition.signature.parameters) or "none"
            raise ConfigError(f"by {name!r} is not a parameter of it; it has: {known}")


def stamp(rule: Rule, payload: dict[str, Any], name: str, *, is_taken: bool) -> None:
    """Note the lock of a unique job in its payload; `is_taken`: its push takes it. Other rules note nothing."""
    if isinstance(rule, Unique):
        members: dict[str, Any] = {"lock": name, "until": rule.until}
        if not is_taken:
            members["take"] = rule.ttl_s
        flow = payload.get(FLOW)
        payload[FLOW] = {**flow, **members} if isinstance(flow, dict) else members


def script_args(
    rule: Rule,
    payload: Mapping[str, Any],
    name: str,
    at: float | None,
    later: Callable[[], bytes],
) -> Sequence[str | bytes | float]:
    """The kind of a rule and its arguments for the script that pushes (push_by_lock.lua, push_by_span.lua).

    Args:
        rule: of the job.
        payload: of the job.
        name: `name_of`.
        at: when it is to run, epoch seconds; None = at once.
        later: makes its text as it is put into the schedule.

    Raises:
        PayloadError: the job cannot be left out, or cannot be debounced, as it is.
    """
    if isinstance(rule, Unique):
        return ("lock", name, rule.ttl_s, rule.on_conflict, LOOK_S)
    what = "debounced" if isinstance(rule, Debounce) else "throttled"
    if (
        FLOW in payload
    ):  # one that may be left out, or replaced, without an end cannot be waited for
        raise PayloadError(
            f"{FLOW}: a {what} job ({payload['class']}) may be left out, so that it cannot be a part of "
            "a batch or a chain, nor have a result; push it from within them"
        )
    if isinstance(rule, Throttle):
        text = later() if rule.over == "later" else b""
        return ("throttle", name, rule.limit, float(rule.per_s), rule.over, text)
    if at is not None:
        raise PayloadError(
            f"at: a debounced job ({payload['class']}) runs once its wait is over; push it without a "
            "time"
        )
    longest = "" if rule.max_wait_s is None else float(rule.max_wait_s)
    return ("debounce", name, float(rule.wait_s), longest)


def name_of(rule: Rule, definition: "JobDefinition | None", payload: Mapping[str, Any]) -> str:
    """The name under which a job is one of its kind.

    Raises:
        PayloadError: `by` raised an error, or answered what JSON cannot carry; or it has names, and the job is not
            declared here.
    """
    job_class, args = payload["class"], payload["args"]
    try:
        return flow_name(job_class, _chosen(rule.by, definition, args))
    except PayloadError:
        raise
    except Exception as error:
        raise PayloadError(
            f"by: of job {job_class} with {shorten(args)}: {type(error).__name__}: {error}; it is called with "
            "the arguments, and answers what JSON can carry"
        ) from error


def _chosen(by: By, definition: "JobDefinition | None", args: list[Any]) -> object:
    if by is None:
        return args
    if callable(by):
        return by(*args)
    if definition is None:
        raise PayloadError(f"by: {', '.join(by)}: names need a job that is declared here")
    bound = definition.signature.bind(*args)
    bound.apply_defaults()
    return [bound.arguments[name] for name in by]


def _check_choice(what: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ConfigError(f"{what} {shorten(value)} is not one of {', '.join(allowed)}")


def _check_seconds(what: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:  # type: ignore[operator] # it is a number here
        raise ConfigError(f"{what} {shorten(value)} is not a number of seconds above 0")
