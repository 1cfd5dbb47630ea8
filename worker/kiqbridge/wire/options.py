"""Which options a job may have on the wire, and a suggestion for those that are misspelt.

An unknown option would travel in every payload and do nothing. So unknown names are
refused, and attributes of your own go through an argument that says so: `attributes={…}`.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

if TYPE_CHECKING:
    from kiqbridge.wire.rules import Rule

from kiqbridge.errors import PayloadError, did_you_mean
from kiqbridge.runtime.redaction import shorten
from kiqbridge.seams import shipped, wired


class JobOptions(TypedDict, total=False):
    """Sidekiq's options of a job class beside `queue` and `retry` (protocol §3.2)."""

    backtrace: bool | int
    """True = keep all lines of a failure's backtrace, N = the first N."""
    dead: bool
    """False = never into the dead set."""
    tags: list[str]
    """Shown in the Web UI and logged."""
    retry_for: int
    """Seconds for which a failing job is retried, in place of a number of retries."""
    retry_queue: str
    """Queue for retries."""
    log_level: str | int
    """Log level while the job runs: debug to fatal, or 0 to 4."""
    skip_default_job_logging: bool
    """True = `start`, `done` and `fail` are not logged."""
    display_class: str
    """Class name to show in place of the own one."""
    profile: str
    """Token; Sidekiq 8 profiles the execution of a Ruby job."""
    profiler_options: Mapping[str, Any]
    """For Sidekiq 8's profiler."""
    expires_in: float | timedelta
    """Seconds, or a timedelta, after which the job is not begun any more; the option of Sidekiq Pro."""
    result_ttl: float | timedelta | None
    """Seconds, or a timedelta, for which the job's result is kept (docs/how_to/results.md); default: it is not."""
    attributes: Mapping[str, Any]
    """Attributes of your own, for middleware or other readers of the payload."""


class ScheduleTimes(TypedDict, total=False):
    """What each schedule takes, wherever it is declared."""

    cron: str
    """A crontab line such as `0 3 * * *`, or EventBridge's `cron(…)`."""
    every: float | timedelta | str
    """Seconds, a timedelta, or a text such as `30s`, `5m`, `2h`."""
    timezone: str
    """IANA name; default UTC."""
    overlap: Literal["allow", "skip", "cancel"]
    """What a job does while an earlier one of this schedule runs; cancel ends the earlier one."""
    jitter_s: int
    """Each occurrence is put off by up to so many seconds, always the same for the same instant."""
    max_age_s: float | timedelta | None
    """Seconds after its instant from which an occurrence is neither enqueued late nor begun."""
    missed: Literal["alert", "last", "all"]
    """What is done about occurrences that were not enqueued in time; default last."""
    description: str
    """For people."""


class ScheduledOptions(ScheduleTimes, total=False):
    """The schedule of a job, declared beside it; `cron` or `every` makes one."""

    args: list[Any]
    """Arguments of each occurrence; default: none."""
    schedule_name: str
    """Default: the name of the job."""


class FlowOptions(TypedDict, total=False):
    """Which of several jobs with the same arguments run; one of them may be given (docs/how_to/flow.md)."""

    unique: "Rule | None"
    """A `kiqbridge.flow.Unique`."""
    debounce: "Rule | None"
    """A `kiqbridge.flow.Debounce`."""
    throttle: "Rule | None"
    """A `kiqbridge.flow.Throttle`."""


class DeclaredOptions(JobOptions, ScheduledOptions, FlowOptions, total=False):
    """What a declaration takes beside its own arguments."""


class PushOptions(JobOptions, FlowOptions, total=False):
    """What `set` takes: the options of a job, and those of a single push."""

    queue: str
    """Queue name without prefix."""
    retry: bool | int
    """True = 25 retries, N = at most N, 0 = straight to dead, False = dropped."""
    jid: str
    """The job's id, in place of a new one."""
    bid: str
    """Sidekiq Pro: the batch that the job belongs to."""
    wait: float | timedelta
    """Seconds, or a timedelta, until it runs."""
    wait_until: Any
    """When it runs: epoch seconds or an aware datetime."""
    sync: bool
    """Known to Ruby's `set`; a worker ignores it."""


ATTRIBUTES: Final = "attributes"
"""The option whose members go into the payload as they are."""

SCHEDULED: Final = frozenset(ScheduledOptions.__annotations__)
"""The options that make a schedule."""

FLOW_OPTIONS: Final = frozenset(FlowOptions.__annotations__)
"""The options that go on the wire in another form, or not at all."""

BESIDE: Final = SCHEDULED | FLOW_OPTIONS
"""The options of a declaration that `declaration.scheduled` takes."""

_DECLARED: Final = frozenset({"queue", "retry", *JobOptions.__annotations__})
_PUSHED: Final = frozenset({*_DECLARED, *PushOptions.__annotations__})
LOCAL: Final = BESIDE | {
    *("name", "pool", "timeout_s", "max_run_s", "on_max_run", "retry_in", "retry_jitter"),
    *("retries_exhausted", "on_error", "check_arguments"),
}
"""Options of a declaration that do not go on the wire."""
KNOWN: Final = _DECLARED | LOCAL
"""All options of a declaration but those of features."""
FOREIGN_WORDS: Final[Mapping[str, str]] = {
    # Sidekiq Enterprise
    "unique_for": "unique=Unique(ttl_s=…) of kiqbridge.flow",
    "unique_until": "unique=Unique(ttl_s=…, until=…) of kiqbridge.flow",
    "encrypt": "encrypted=True",
    # sidekiq-unique-jobs
    "lock": "unique=Unique(ttl_s=…) of kiqbridge.flow",
    "lock_ttl": "unique=Unique(ttl_s=…) of kiqbridge.flow",
    "lock_timeout": "unique=Unique(ttl_s=…) of kiqbridge.flow",
    "lock_args_method": "unique=Unique(ttl_s=…, by=…) of kiqbridge.flow",
    "unique_args": "unique=Unique(ttl_s=…, by=…) of kiqbridge.flow",
    "on_conflict": "unique=Unique(ttl_s=…, on_conflict=…) of kiqbridge.flow",
    # sidekiq-throttled
    "sidekiq_throttle": "limiter=… of kiqbridge.flow",
    # blocks of Ruby's classes
    "sidekiq_retry_in": "retry_in",
    "sidekiq_retries_exhausted": "retries_exhausted",
}
"""What Sidekiq Enterprise and gems call what has another name here: a payload would carry it, and nothing would act."""

_OTHER_WORDS: Final[Mapping[str, str]] = {
    **FOREIGN_WORDS,
    "concurrency": "limiter=limiter.concurrent(NAME, N) of kiqbridge.flow",
    "threshold": "limiter=limiter.window(NAME, N, per=…) of kiqbridge.flow",
    "rate_limit": "limiter=limiter.window(NAME, N, per=…) of kiqbridge.flow",
    "max_retries": "retry",
    "retries": "retry",
    "retry_limit": "retry",
    "autoretry_for": "on_error",
    "retry_on": "on_error",
    "discard_on": "on_error",
    "default_retry_delay": "retry_in",
    "retry_backoff": "retry_in",
    "retry_delay": "retry_in",
    "queue_name": "queue",
    "queue_as": "queue",
    "routing_key": "queue",
    "time_limit": "timeout_s",
    "timeout": "timeout_s",
    "soft_time_limit": "timeout_s",
    "expires": "expires_in",
    "class_name": "name",
    "task_id": "jid",
    "job_id": "jid",
    "countdown": "wait",
    "delay": "wait",
    "defer_by": "wait",
    "eta": "wait_until",
    "at": "wait_until",
    "scheduled_at": "wait_until",
    "tag": "tags",
    "result_expires": "result_ttl",
    "keep_result": "result_ttl",
    "store_results": "result_ttl",
}
"""What other libraries call them."""


ENTERPRISE: Final = ("unique_for", "unique_until", "sidekiq_throttle")
"""The foreign options whose meaning is certain in an attribute of a class; a `lock` may mean anything."""


def unknown_declared(options: Iterable[str]) -> str | None:
    """Why options of a declaration are refused, naming the first one; None when all are known."""
    return _first_unknown(options, KNOWN, [*KNOWN, *_of_features()])


def unknown_pushed(options: Iterable[str]) -> str | None:
    """Why options of a single push are refused, naming the first one; None when all are known."""
    return _first_unknown(options, _PUSHED, list(_PUSHED))


def foreign_word(options: Iterable[str]) -> str | None:
    """Why options of gems are refused where the user's own attributes are allowed; None when there are none."""
    return _first_unknown(
        options, frozenset(options) - FOREIGN_WORDS.keys(), [*LOCAL, *_of_features()]
    )


def with_attributes(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they go on the wire: `attributes` replaced by its members, at its place.

    Raises:
        PayloadError: `attributes` is no dict, or as `seams.wired`.
    """
    given = options.get(ATTRIBUTES, {})
    if not isinstance(given, Mapping):
        raise PayloadError(f"attributes: {shorten(given)} is not a dict of names and values")
    found: dict[str, Any] = {}
    for name, value in wired(options).items():
        if name == "expires_in" and isinstance(value, timedelta):
            found[name] = value.total_seconds()
        else:
            found.update(value if name == ATTRIBUTES else {name: value})
    return found


def _of_features() -> list[str]:
    return [option for each in shipped() for option in each.options]


def _first_unknown(options: Iterable[str], known: frozenset[str], near: list[str]) -> str | None:
    for name in options:
        if name not in known:
            return f"{name}: {_suggestion(name, near)}"
    return None


def _suggestion(name: str, near: list[str]) -> str:
    word = _OTHER_WORDS.get(name)
    is_known = word is not None and word.partition("=")[0] in near
    hint = f"; did you mean {word}?" if is_known else did_you_mean(name, sorted(near), ".")
    return (
        f"is no option of a job{hint} An attribute of your own goes into attributes={{{name!r}: …}}"
    )
