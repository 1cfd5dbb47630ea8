"""The forms in which an event, a message or a body asks for jobs; every source of events may carry them.

Three forms are jobs; anything else needs a mapping, or is refused:

1. one job: an object with `class` (or `active_job`) and `args` as our client takes it, besides `in`
   or `at` (when to run) and `dedupe_key` (enqueue once, however often it is delivered);
2. several: `{"jobs": […]}`, all or none;
3. a tick: one or several jobs and beside them `"tick": {"schedule": …, "at": …}`, the name of the
   rule and the time for which it was due; that pair is enqueued once. It may have the policies of
   the schedule, too (wire/tick_mark.py). `in` counts from the
   delivery, not from that time. Scheduler's context attributes under `"_schedule"` are a tick, too:
   `schedule-arn` and `scheduled-time` count, attempt and execution do not.

A job with a `task_token` goes by that: Step Functions may deliver it twice. What has neither token, tick nor
`dedupe_key` goes by the identity of what brought it (`Record.identity`) and by
its place among the jobs. A `dedupe_key` of its own wins, since it also finds an event that was sent
twice, with two ids.

What Sidekiq does not know in a job goes into the payload as it is, as with Sidekiq's own client.
What Ruby's pages show of a job must be plain, see `plain.py`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard

import orjson

from kiqbridge.aws.plain import check_plain, is_plain_job
from kiqbridge.client import rails
from kiqbridge.client.guarded_push import Enqueued
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.runtime import redaction
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire import active_job, json_text, payload
from kiqbridge.wire.expiry import EXPIRES_IN, set_expiry
from kiqbridge.wire.guards import Identity, task_identity
from kiqbridge.wire.tick_mark import Overlap, policy_faults

_LONGEST_ARGS: Final = 200
JOB_KEYS: Final = frozenset({"class", "args", "jobs", active_job.KEY})
OWN_KEYS: Final = ("in", "at", "dedupe_key")
"""Keys of a job that are ours; they do not go into the payload as they are."""
MINUTE: Final = 60

_FILLED_IN_BY: Final = (
    "only EventBridge Scheduler (a ScheduleV2 event) does that, in its Input, and for the attributes "
    "schedule-arn, scheduled-time, execution-id and attempt-number of aws.scheduler; <aws.events.…> "
    "is filled in by a rule's InputTransformer alone"
)

_CONTEXT_ATTRIBUTE: Final = re.compile(r"<aws\.[^>]*>?")
_KNOWN_ATTRIBUTE: Final = re.compile(
    r"<aws\.(?:scheduler\.(?:schedule-arn|scheduled-time|execution-id|attempt-number)"
    r"|events\.(?:rule-arn|rule-name|event(?:\.json|\.ingestion-time)?))>"
)
_ARGUMENTS: Final = frozenset({"args", "arguments", "kwargs"})
_PLACEHOLDER: Final = re.compile(r"<[^>]*>?|\$\{[^}]*\}?")
_TICK_FORM: Final = (
    '"tick": {"schedule": "STACK/RULE", "at": "<aws.scheduler.scheduled-time>"} beside the job'
)
_CONTEXT: Final = "_schedule"
_SCHEDULE_ARN: Final = "schedule-arn"
_SCHEDULED_TIME: Final = "scheduled-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One occurrence of a schedule, the same from every service that delivers it.

    Attributes:
        schedule: name of the schedule, `STACK/RULE`, or an ARN taken as text.
        instant: the time for which it was due, epoch seconds floored to the minute.
        at: that time as it was delivered.
        ignore_stale: whether one that is too old is answered instead of being an error.
        overlap: what its jobs do while an earlier job of the schedule runs.
        max_age_s: seconds after `instant` from which a job is not begun any more; None = never.
    """

    schedule: str
    instant: int
    at: str | float
    ignore_stale: bool = False
    overlap: Overlap = "allow"
    max_age_s: float | None = None


@dataclass(slots=True)
class JobRequest:
    """One job: `item` as for `Client.push`; it is enqueued once for each class and `dedupe_key`.

    The key is the caller's own text, or the identity of the event that brought the job. `jid` is one that
    was drawn for an item without, so that the job has it wherever it goes; it is set in place.
    """

    item: Mapping[str, Any]
    dedupe_key: str | Identity | None = None
    jid: str | None = None

    @property
    def queue(self) -> str:
        """The queue to which it is pushed."""
        return str(self.item.get("queue") or payload.DEFAULT_OPTIONS["queue"])

    @property
    def item_with_jid(self) -> Mapping[str, Any]:
        """The item with the jid that was drawn for it."""
        return self.item if self.jid is None else {**self.item, "jid": self.jid}

    def answered(self, index: int, jid: str | None = None, *, duplicate: bool = False) -> Enqueued:
        """The job as answers show it, by its own jid if no other one is given."""
        return Enqueued(
            index=index,
            jid=str(self.jid or self.item.get("jid", "")) if jid is None else jid,
            job_class=str(self.item.get("class", self.item.get(active_job.KEY))),
            queue=self.queue,
            at=self.item.get("at"),
            duplicate=duplicate,
        )


def is_job_form(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value asks for jobs in one of the forms above, well or badly.

    It has a class and `args`, or in `jobs` at least one object that has: one of these words alone makes no job of an
    event.
    """
    if not isinstance(value, (dict, Mapping)):
        return False
    if "args" in value and ("class" in value or active_job.KEY in value):
        return True
    jobs = value.get("jobs")
    return isinstance(jobs, list) and any(
        isinstance(each, (dict, Mapping)) and "jobs" not in each and is_job_form(each)
        for each in jobs
    )


def resembles_job(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value has a word of a job: where no mapping takes it, it is refused as a job with a fault."""
    return isinstance(value, (dict, Mapping)) and not JOB_KEYS.isdisjoint(value)


def parse_jobs(
    value: Mapping[str, Any], now: float, identity: Identity | None = None
) -> tuple[list[JobRequest], Tick | None]:
    """The jobs and the tick of one of the forms above; each job can then be enqueued at `now` (epoch seconds).

    Args:
        value: what `resembles_job` is true of.
        now: from when `in` counts.
        identity: of what brought it; None = a job without `dedupe_key` is enqueued at each delivery.

    Raises:
        EventError: it asks for no job, or its tick cannot be read.
        PayloadError: one of its jobs cannot be one; among several the message begins with jobs[N].
    """
    _refuse_unfilled(value)
    value = _with_tick(value)
    tick = _tick(value["tick"]) if "tick" in value else None
    if tick is not None:
        identity = None  # they go by the tick
    if "jobs" not in value:
        alone = {key: each for key, each in value.items() if key != "tick"} if tick else value
        return [_job(alone, now, tick, identity and identity.of_job(0))], tick
    items = value["jobs"]
    if not isinstance(items, list) or not items:
        raise EventError(
            f"jobs: {redaction.shorten_argument(items)} is not a list with at least one job"
        )
    if others := [key for key in value if key not in ("jobs", "tick")]:
        raise EventError(
            f"{others[0]}: cannot stand beside jobs, where only tick may; move it into each job"
        )
    return _all(items, now, tick, identity), tick


def parse_mapped(
    items: Sequence[Mapping[str, Any]], now: float, identity: Identity | None
) -> list[JobRequest]:
    """The jobs that a mapping made of an event, as `parse_jobs` reads them; their values are data.

    Raises:
        PayloadError: one of them cannot be a job; among several the message begins with jobs[N].
    """
    if len(items) == 1:
        return [_job(items[0], now, None, identity and identity.of_job(0))]
    return _all(items, now, None, identity)


def _refuse_unfilled(event: Mapping[str, Any]) -> None:
    """A schedule's `<aws.…>` that arrives as it was written would look the same at every firing.

    Among arguments only the names that AWS fills in are looked for: a user's text may have anything.
    """
    try:  # the text of all is searched in less time than each of its texts
        if b"<aws." not in orjson.dumps(event):
            return
    except TypeError:
        pass  # too deep or too large for it, or with a lone surrogate
    pending: list[tuple[str, object, re.Pattern[str]]] = [("", event, _CONTEXT_ATTRIBUTE)]
    while pending:  # not recursive: depth is judged later, and by a clear message
        path, value, sought = pending.pop()
        if isinstance(value, Mapping):
            for key, child in value.items():
                within = _KNOWN_ATTRIBUTE if key in _ARGUMENTS else sought
                pending += [(path, key, sought), (f"{path}.{key}".lstrip("."), child, within)]
        elif isinstance(value, list):
            pending += [(f"{path}[{index}]", child, sought) for index, child in enumerate(value)]
        elif isinstance(value, str) and (found := sought.search(value)):
            raise EventError(
                f"{path}: {redaction.shorten(found[0])} was not filled in; {_FILLED_IN_BY}"
            )


def _with_tick(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The event with a tick in the place of Scheduler's context attributes under `_schedule`."""
    if _CONTEXT not in event:
        return event
    context = event[_CONTEXT]
    if "tick" in event:
        raise EventError(f"{_CONTEXT}: cannot stand beside tick, which says the same; leave it out")
    wanted = (_SCHEDULE_ARN, _SCHEDULED_TIME)
    if not isinstance(context, Mapping) or not all(name in context for name in wanted):
        raise EventError(
            f"{_CONTEXT}: {redaction.shorten(context)} needs {_SCHEDULE_ARN} and {_SCHEDULED_TIME}: without both, "
            f"attempts of Scheduler look like occurrences; write {_TICK_FORM} instead"
        )
    others = {name: value for name, value in event.items() if name != _CONTEXT}
    return {**others, "tick": {"schedule": context[_SCHEDULE_ARN], "at": context[_SCHEDULED_TIME]}}


def _tick(tick: object) -> Tick:
    if not isinstance(tick, Mapping) or "schedule" not in tick or "at" not in tick:
        raise EventError(
            f"tick: {redaction.shorten(tick)} needs schedule and at; write {_TICK_FORM}"
        )
    schedule, at = tick["schedule"], tick["at"]
    for field, value in (("schedule", schedule), ("at", at)):
        if isinstance(value, str) and (found := _PLACEHOLDER.search(value)):
            raise EventError(
                f"tick.{field}: {redaction.shorten(found[0])} was not filled in; a rule's InputTransformer "
                "fills in what its InputPathsMap names, and !Sub what stands in ${…}"
            )
    if not isinstance(schedule, str) or not schedule.strip():
        raise EventError(
            f"tick.schedule: {redaction.shorten(schedule)} is not a name; write the text STACK/RULE"
        )
    try:
        payload.check_json(schedule, "tick.schedule")
        instant = int(_point_in_time(at, field="tick.at")) // MINUTE * MINUTE
    except PayloadError as error:
        raise EventError(str(error)) from error
    on_stale = tick.get("on_stale", "error")
    if on_stale not in ("error", "ignore"):
        raise EventError(
            f"tick.on_stale: {redaction.shorten(on_stale)} is neither error nor ignore"
        )
    for fault in policy_faults(tick):
        raise EventError(f"tick.{fault}")
    return Tick(
        schedule=schedule,
        instant=instant,
        at=at,
        ignore_stale=on_stale == "ignore",
        overlap=tick.get("overlap", "allow"),
        max_age_s=tick.get("max_age_s"),
    )


def _all(
    items: Sequence[object], now: float, tick: Tick | None, identity: Identity | None
) -> list[JobRequest]:
    jobs = []
    for index, item in enumerate(items):
        try:
            jobs.append(_job(item, now, tick, identity and identity.of_job(index)))
        except (PayloadError, EventError) as error:
            raise type(error)(f"jobs[{index}]: {error}") from error
    return jobs


def _job(item: object, now: float, tick: Tick | None, identity: Identity | None) -> JobRequest:
    """The job; by the identity, that of its place in what brought it, unless it has a key of its own."""
    if not isinstance(item, (dict, Mapping)):
        raise PayloadError(
            f"job: {redaction.shorten_argument(item)} is not an object with the keys class and args"
        )
    if "tick" in item:
        raise EventError("tick: belongs beside jobs, once for all of them; move it there")
    if "dedupe_key" in item and tick:
        raise EventError("dedupe_key: a tick is enqueued once already; leave it out")
    if len(item) == 2 and is_plain_job(item):  # noqa: PLR2004 - class and args, as nearly all jobs
        return JobRequest(item, identity)
    job = {key: value for key, value in item.items() if key not in OWN_KEYS}
    # Checked as the client will wrap it; which wrapper, the client knows.
    payload.validate(rails.parse(job).wrap(now, "7") if active_job.is_active_job(job) else job)
    payload.check_queue(job.get("queue", payload.DEFAULT_OPTIONS["queue"]))
    check_plain(job)
    dedupe_key: str | Identity | None = identity
    if "dedupe_key" in item:
        dedupe_key = _dedupe_key(item["dedupe_key"])
    elif job.get(payload.TASK_TOKEN) is not None and tick is None:
        dedupe_key = task_identity(job[payload.TASK_TOKEN])
    at = _run_at(item, now)
    if at is not None:
        job["at"] = at
    if EXPIRES_IN in job:
        # Refuses what is no time, also of a job that is spilled.
        set_expiry({EXPIRES_IN: job[EXPIRES_IN]}, now)
    payload.check_payload(job)
    return JobRequest(job, dedupe_key)


def _dedupe_key(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise PayloadError(
            f"dedupe_key: {redaction.shorten(value)} is not a text with at least one character"
        )
    payload.check_json(value, "dedupe_key")
    return value


def _run_at(job: Mapping[str, Any], now: float) -> float | None:
    """When to run (epoch seconds), None = at once, also for what lies in the past (§5.6)."""
    if "in" in job and "at" in job:
        raise PayloadError(
            f"in: {redaction.shorten(job['in'])} cannot be given together with at; leave one of them out"
        )
    if "in" in job:
        at = now + _interval(job["in"])
    elif "at" in job:
        at = _point_in_time(job["at"], field="at")
    else:
        return None
    return at if at > now else None


def _interval(value: object) -> float:
    seconds = _seconds(value, "in", "is not a number of seconds from now, such as 60")
    if seconds >= payload.INTERVAL_LIMIT:
        raise PayloadError(
            f"in: {redaction.shorten(value)} seconds are over 31 years; give a point in time as at"
        )
    return seconds


def _point_in_time(value: object, *, field: str) -> float:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is not None:
                return moment.astimezone(UTC).timestamp()
        except (ValueError, OverflowError) as error:
            raise PayloadError(
                f"{field}: {redaction.shorten(value)} is no ISO 8601 time; write a text such as "
                "2026-11-20T02:00:00Z or epoch seconds as a number"
            ) from error
        raise PayloadError(
            f"{field}: {redaction.shorten(value)} has no time zone; append Z, or an offset such as +01:00"
        )
    instead = "write epoch seconds or a text such as 2026-11-20T02:00:00Z"
    seconds = _seconds(value, field, f"is no point in time; {instead}")
    if seconds >= payload.MILLISECONDS_FROM:
        raise PayloadError(
            f"{field}: {redaction.shorten(value)} are milliseconds by their size; write epoch seconds"
        )
    return seconds


def _seconds(value: object, field: str, fault: str) -> float:
    try:
        return float(payload.epoch_seconds(value, field=field))
    except PayloadError as error:
        raise PayloadError(f"{field}: {redaction.shorten(value)} {fault}") from error


def described(job: JobRequest) -> str:
    """A job as `make check` and `kiqbridge enqueue --dry-run` show it, arguments included."""
    item = job.item
    args = json_text.dumps(item["args"]).decode()
    if len(args) > _LONGEST_ARGS:
        args = f"{args[:_LONGEST_ARGS]}…"
    queue = item.get("queue", payload.DEFAULT_OPTIONS["queue"])
    at = f", at {item['at']}" if "at" in item else ""
    return f"{item.get('class', item.get(active_job.KEY))} {args} into {queue}{at}"
