"""Pushing jobs by one script, each by what guards it.

That is a dedupe key, under which it is pushed once, and the rule of its job: unique, throttled or debounced
(docs/how_to/flow.md). A job may have both.

What guards a job is written in the script that enqueues it. So a repeated call with keys, after a lost reply or by a
caller that retries, enqueues nothing twice and answers with the jids of the first one. Without a key a lost reply is
`PushOutcomeUnknown`, as of a plain push: a lock may be free again by the time of a repetition, since its job has ended.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kiqbridge.client.job_writer import (
    JobWriter,
    are_pushed_after,
    not_replicated,
    outcome_unknown,
    score,
)
from kiqbridge.client.prepare import PreparedJob
from kiqbridge.errors import KiqbridgeError, PayloadError, QueueTooDeep
from kiqbridge.runtime.records import dataclass
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import NotReplicated, ReplyLost
from kiqbridge.wire import active_job
from kiqbridge.wire.bulk import BATCH_SIZE
from kiqbridge.wire.guards import Identity, guard_field, keep_s
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.payload import check_json


class GuardedPush(NamedTuple):
    """A job to push: place among the items of the call, guard (empty: none), seconds to remember that."""

    place: int
    job: PreparedJob
    guard: str = ""
    keep_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What became of one job.

    Attributes:
        index: its place among the items of the call: those that middleware stopped are in no answer.
        jid: that of the job in Redis, new or earlier.
        at: when it runs, epoch seconds; None = at once.
        duplicate: nothing was enqueued for it.
        left_out: the option whose rule left a duplicate out: of `unique` `jid` is that of the job which has its lock,
            else its own. "" if its key was known.
    """

    index: int
    jid: str
    job_class: str
    queue: str
    at: float | None
    duplicate: bool
    left_out: str = ""


def push_jobs(
    jobs: Sequence[GuardedPush],
    writer: JobWriter,
    *,
    now: float,
    limits: Mapping[str, int] | None = None,
) -> list[Enqueued]:
    """Push jobs in one script, all or none, each by its guard and its rule; see `Client.push_once`.

    Their rules must have been stamped for this (`prepare(…, by_rule=True)`).

    Raises:
        PayloadError: a job cannot be debounced or throttled as it is; nothing was written.
        NotUnique: unique jobs that are to raise; nothing was written.
        QueueTooDeep: names all queues that are at their limit; nothing was written.
        KiqbridgeError: as `Client.push`.
    """
    if not jobs:
        return []
    limits = limits or {}
    first = jobs[0].job
    if len(jobs) == 1 and not jobs[0].guard and first.rule is None and first.queue not in limits:
        writer.write([first])  # a script would take the server ten times as long
        return [outcome_of(jobs[0], b"")]
    script, keys, args = script_part("push", jobs, writer, now, limits)
    repeatable = all(each.guard for each in jobs)
    try:
        answers, doubt = writer.run_script(script, keys, args, repeatable=repeatable)
    except KiqbridgeError as error:
        for each in jobs:
            each.job.is_pushed = are_pushed_after(error, [[script.sha]])
        if isinstance(error, ReplyLost):
            raise outcome_unknown(first.jid, first.payload["class"], error) from error
        raise
    return outcomes_of(jobs, answers, doubt)


script_of: Final = functools.cache(scripts.load)
"""Scripts that push, each with the parts of some rules."""

script_of("push")  # read before a job comes


def script_part(
    name: str, jobs: Sequence[GuardedPush], writer: JobWriter, now: float, limits: Mapping[str, int]
) -> tuple[scripts.Script, list[str], list[str | bytes | float]]:
    """A script that pushes jobs, and their keys and arguments for it (parts/push_jobs.lua)."""
    own = writer.keys
    keys = [own.queues, own.schedule]
    rules = {job.rule.option: job.rule for _, job, _, _ in jobs if job.rule is not None}
    has_keys = any(job.guard for job in jobs)
    if has_keys:
        keys += [own.guards, own.guards_until]
    for each in rules.values():
        keys += each.keys(own)
    # More than are added, so that they grow fewer; an unpack takes no more than a script's jobs.
    args: list[str | bytes | float] = [
        "k" if has_keys else "",
        min(2 * len(jobs) + 10, BATCH_SIZE),
        len(jobs),
        ",".join(rules),
    ]
    for _, job, guard, seconds in jobs:
        queue, rule = job.queue, job.rule
        keys.append(own.queue(queue))
        args += (
            queue,
            "" if job.at is None else score(job.at),
            _later(job, writer, now)
            if rule is not None and rule.is_later
            else writer.text(job, now),
            limits.get(queue, "") if job.at is None else "",
            job.jid,
            guard,
            seconds if guard else "",
            "" if rule is None else rule.option,
        )
        if rule is not None:
            from kiqbridge.wire.rules import RuledJob  # noqa: PLC0415 - few jobs have one

            later = functools.partial(_later, job, writer, now)
            args += rule.script_args(RuledJob(job.payload, job.name, job.at, later))
    parts = tuple(sorted({each.part for each in rules.values()}))
    return script_of(name, parts=parts) if parts else script_of(name), keys, args


def outcomes_of(
    jobs: Sequence[GuardedPush], answers: Sequence[Any], doubt: NotReplicated | None
) -> list[Enqueued]:
    """What the answers of such a script say.

    Raises:
        NotUnique, QueueTooDeep: nothing was pushed.
        PushNotReplicated: they are pushed.
    """
    if answers and isinstance(answers[0], list):
        raise _refused(jobs, {number - 1: why for number, why in answers})
    outcomes = [outcome_of(each, answer) for each, answer in zip(jobs, answers, strict=True)]
    if doubt:
        raise not_replicated([each.jid for each in outcomes], doubt) from doubt
    return outcomes


def outcome_of(each: GuardedPush, answer: bytes) -> Enqueued:
    """What one answer says (parts/push_jobs.lua)."""
    job = each.job
    if not answer:  # as nearly always
        job.is_pushed = True
        return _outcome(each.place, job, job.jid, at=job.at, duplicate=False)
    kind, value = answer[:1], text_of(answer[1:])
    if kind == b"k" and job.own_jid and value == job.jid:
        kind = b""  # by an earlier try of this call
    job.is_pushed = kind in (b"", b"t")
    return _outcome(
        each.place,
        job,
        value if kind in (b"k", b"o") else job.jid,
        at=float(value) if kind == b"t" else job.at,
        duplicate=not job.is_pushed,
        left_out=_rule_of(job) if kind in (b"o", b"-") else "",
    )


def _outcome(
    place: int,
    job: PreparedJob,
    jid: str,
    *,
    duplicate: bool,
    at: float | None = None,
    left_out: str = "",
) -> Enqueued:
    return Enqueued(
        index=place,
        jid=jid,
        job_class=shown_class(job.payload),
        queue=job.queue,
        at=at,
        duplicate=duplicate,
        left_out=left_out,
    )


def _rule_of(job: PreparedJob) -> str:
    """The option that left a job out; its key may have been used by one with a rule, and this one have none."""
    return "throttle" if job.rule is None else job.rule.option


def _later(job: PreparedJob, writer: JobWriter, now: float) -> bytes:
    """The text of a job that its rule puts into the schedule: without `enqueued_at`."""
    return writer.text(replace(job, at=now), now)


def _refused(jobs: Sequence[GuardedPush], why: Mapping[int, Any]) -> KiqbridgeError:
    """The error for an answer that names jobs, with the length of a queue that is at its limit, or what its rule answers."""
    places = {jobs[place].place: value for place, value in why.items()}
    first = min(why)
    place, job = jobs[first].place, jobs[first].job
    if isinstance(why[first], bytes) and job.rule is not None:
        answers = {place: text_of(answer) for place, answer in places.items()}
        return job.rule.refusal(job.payload["class"], answers[place], answers)
    return QueueTooDeep({jobs[place].job.queue: length for place, length in why.items()}, places)


def guarded(
    place: int, job: PreparedJob, dedupe_key: str | Identity | None, ttl_s: int | None
) -> GuardedPush:
    """A job with its guard, kept for `ttl_s` seconds, None = as long as its source may deliver again.

    Raises:
        PayloadError: as `guard_of`.
    """
    if ttl_s is None:
        ttl_s = keep_s(dedupe_key) if dedupe_key else 0
    return GuardedPush(place, job, guard_of(job, dedupe_key), ttl_s)


def guard_of(job: PreparedJob, dedupe_key: str | Identity | None) -> str:
    """The name of a job's guard, empty for none.

    Raises:
        PayloadError: the key cannot be sent.
    """
    if not dedupe_key:
        return ""
    try:
        return guard_field(dedupe_key, performed_class(job.payload), job.queue)
    except UnicodeEncodeError:
        for part in (dedupe_key,) if isinstance(dedupe_key, str) else dedupe_key.parts:
            check_json(part, "dedupe_key")
        raise


def check_count(count: int) -> None:
    """Refuse more jobs than one script takes.

    Raises:
        PayloadError: more than 1,000.
    """
    if count > BATCH_SIZE:
        raise PayloadError(
            f"jobs: {count} jobs in one call, but all or nothing holds for {BATCH_SIZE:,}; split them"
        )


def shown_class(payload: Mapping[str, Any]) -> str:
    """The class that people know: that inside Active Job's wrapper, as Sidekiq shows it (§17)."""
    name: str = payload["class"]
    if name not in active_job.WRAPPERS:
        return name
    wrapped = payload.get("wrapped")
    return wrapped if isinstance(wrapped, str) and wrapped else name


def performed_class(payload: Mapping[str, Any]) -> str:
    """The class whose code runs: of a Rails job the one inside, whether or not its wrapper names it."""
    shown = shown_class(payload)
    if shown in active_job.WRAPPERS and payload["args"] and isinstance(payload["args"][0], Mapping):
        inner = payload["args"][0].get("job_class")
        return inner if isinstance(inner, str) and inner else shown
    return shown


def find_jids(redis: RedisPool, keys: Keys, guards: Sequence[str], now: float) -> list[str | None]:
    """For each guard the jid of its job; None if there is none, or it is over at `now`, or the guard is ""."""
    named = [guard for guard in guards if guard]
    # Commands that a push needs as well: its user in Redis may have no others (docs/reference/security.md).
    values = redis.run(*(["HGET", keys.guards, guard] for guard in named)) if named else []
    found: dict[str, str | None] = {}
    for guard, value in zip(named, values, strict=True):
        until, _, jid = (value or b"").partition(b" ")
        found[guard] = text_of(jid) if jid and float(until) > now else None
    return [found.get(guard) for guard in guards]
