"""Pushes of unique, debounced and throttled jobs: one script each, which decides and pushes in the same step.

A lost reply is `PushOutcomeUnknown`, as of a plain push: a lock may be free again by the time of a repetition, since
its job has ended. Pushing again with the same jid does nothing while the first job has its lock.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from kiqbridge.client.job_writer import (
    JobWriter,
    Placed,
    Writes,
    are_pushed_after,
    not_replicated,
    outcome_unknown,
    push_placed,
    score,
)
from kiqbridge.client.prepare import PreparedJob
from kiqbridge.client.unique import Debounce, Throttle, Unique
from kiqbridge.errors import KiqbridgeError, NotUnique, PayloadError
from kiqbridge.store import scripts
from kiqbridge.store.locks import LOOK_S
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import ReplyLost
from kiqbridge.store.scripts import Script
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.payload import FLOW

_PUSH_UNIQUE: Final = scripts.load("push_unique")
_PUSH_DEBOUNCED: Final = scripts.load("push_debounced")
_PUSH_THROTTLED: Final = scripts.load("push_throttled")
_MOVED: Final = 0
"""What the first of them answers when a queue has moved."""


def push_ruled(jobs: Sequence[PreparedJob], writer: Writes, *, now: float) -> list[str | None]:
    """Push jobs that have a rule and were prepared for this (`by_rule`), in their order.

    One script for those of the same kind, and of one server, that follow each other.

    Returns:
        The jids, None in the place of a job that was left out.

    Raises:
        PayloadError: a job cannot be debounced as it is; nothing was written.
        NotUnique: a job that is to raise; nothing of its script was pushed.
        KiqbridgeError: as `Client.push`.
    """
    jids: list[str | None] = []
    placed = [(type(job.rule), writer.of(job.queue), job) for job in jobs]
    for (kind, place), group in groupby(placed, key=lambda each: each[:2]):
        several = [job for _, _, job in group]
        if kind is Debounce:
            jids += _push_debounced(several, place, now)
        elif kind is Throttle:
            jids += _push_throttled(several, place, now)
        else:
            jids += _push_unique(several, writer, now)
    return jids


def find_owner(redis: RedisPool, keys: Keys, name: str, now: float) -> str | None:
    """The jid of the job that owns a lock, None = it is free.

    Raises:
        RedisUnavailable: nothing was read.
    """
    value = redis.call("HGET", keys.locks, name)
    until, _, jid = (value or b"").partition(b" ")
    return text_of(jid) if jid and float(until) > now else None


def _push_unique(jobs: Sequence[PreparedJob], writer: Writes, now: float) -> list[str | None]:
    parts = push_placed(
        writer,
        list(enumerate(jobs)),
        lambda each: each[1].queue,
        lambda place, part, placed: _push_unique_at(place, part, placed, now),
    )
    jids = {index: jid for part in parts for index, jid in part.items()}
    return [jids[index] for index in range(len(jobs))]


def _push_unique_at(
    writer: JobWriter, indexed: Sequence[tuple[int, PreparedJob]], placed: Placed, now: float
) -> dict[int, str | None] | None:
    """Index → jid, None for a job that was left out; None in all: a queue has moved, and nothing is pushed."""
    jids: dict[int, str | None] = {}
    owned = {}
    if placed.former:
        from kiqbridge.client import former_locks  # noqa: PLC0415 - few queues are moved

        jobs = [job for _, job in indexed]
        owned = former_locks.find_former_locks(jobs, writer.keys, placed, now)
        conflicts = {}
        for index, job in indexed:
            if job.jid in owned and _unique(job).on_conflict == "raise":
                conflicts[index] = owned[job.jid].jid
            elif job.jid in owned and _unique(job).on_conflict == "drop":
                jids[index] = None
        _raise_conflicts(indexed, conflicts)
        indexed = [each for each in indexed if each[0] not in jids]
    if not indexed:
        return jids
    answers = _run_unique([job for _, job in indexed], writer, placed, now)
    if answers == _MOVED:
        return None
    if isinstance(answers[0], list):
        _raise_conflicts(indexed, {indexed[number - 1][0]: text_of(jid) for number, jid in answers})
    for (index, job), owner in zip(indexed, answers, strict=True):
        job.is_pushed = not owner
        jids[index] = None if owner else job.jid
        if job.jid in owned:
            former_locks.replace_former(owned[job.jid], job.name, writer)
    return jids


def _run_unique(jobs: Sequence[PreparedJob], writer: JobWriter, placed: Placed, now: float) -> Any:
    own = writer.keys
    keys = [own.queues, own.locks, own.locks_look, own.replaced]
    args: list[str | bytes | float] = [LOOK_S, len(jobs)]
    for job in jobs:
        rule = _unique(job)
        at = "" if job.at is None else score(job.at)
        keys.append(own.queue(job.queue) if job.at is None else own.schedule)
        args += [job.name, rule.ttl_s, job.jid, rule.on_conflict]
        args += [job.queue, at, writer.text(job, now)]
    return _run(_PUSH_UNIQUE, [*keys, *placed.keys], [*args, *placed.args], jobs, writer)


def _unique(job: PreparedJob) -> Unique:
    assert isinstance(job.rule, Unique)  # noqa: S101 - `push_ruled` has grouped them
    return job.rule


def _raise_conflicts(indexed: Sequence[tuple[int, PreparedJob]], owners: Mapping[int, str]) -> None:
    if owners:
        first = min(owners)
        raise NotUnique(dict(indexed)[first].payload["class"], owners[first], places=owners)


def _push_debounced(jobs: list[PreparedJob], writer: JobWriter, now: float) -> list[str | None]:
    own = writer.keys
    args: list[str | bytes | float] = []
    for job in jobs:
        rule = job.rule
        assert isinstance(rule, Debounce)  # noqa: S101 - as above
        if job.at is not None:
            raise PayloadError(
                f"at: a debounced job ({job.payload['class']}) runs once its wait is over; push it without a "
                "time"
            )
        _refuse_flow(job, "debounced")
        job.at = now  # for a text without `enqueued_at`
        longest = "" if rule.max_wait_s is None else repr(float(rule.max_wait_s))
        args += [job.name, float(rule.wait_s), longest, writer.text(job, now)]
    _run(_PUSH_DEBOUNCED, [own.schedule, own.flow_spans, own.flow_spans_until], args, jobs, writer)
    for job in jobs:
        job.is_pushed = True
    return [job.jid for job in jobs]


def _push_throttled(jobs: list[PreparedJob], writer: JobWriter, now: float) -> list[str | None]:
    own = writer.keys
    keys = [own.queues, own.schedule, own.flow_spans, own.flow_spans_until]
    args: list[str | bytes | float] = []
    for job in jobs:
        rule = job.rule
        assert isinstance(rule, Throttle)  # noqa: S101 - as above
        _refuse_flow(job, "throttled")
        keys.append(own.queue(job.queue))
        given, text = job.at, writer.text(job, now)
        at = "" if given is None else score(given)
        job.at, later = now, text
        if rule.over == "later":
            later = writer.text(job, now)
        job.at = given
        args += [job.name, rule.limit, float(rule.per_s), rule.over, job.queue, at, text, later]
    answers = _run(_PUSH_THROTTLED, keys, args, jobs, writer)
    for job, answer in zip(jobs, answers, strict=True):
        job.is_pushed = answer != b"-"
    return [job.jid if job.is_pushed else None for job in jobs]


def _refuse_flow(job: PreparedJob, what: str) -> None:
    """A job that may be left out, or replaced, without an end cannot be waited for."""
    if FLOW in job.payload:
        raise PayloadError(
            f"{FLOW}: a {what} job ({job.payload['class']}) may be left out, so that it cannot be a part of "
            "a batch or a chain, nor have a result; push it from within them"
        )


def _run(
    script: Script,
    keys: Sequence[str],
    args: Sequence[str | bytes | float],
    jobs: Sequence[PreparedJob],
    writer: JobWriter,
) -> Any:
    try:
        answers, doubt = writer.run_script(script, keys, args, repeatable=False)
    except KiqbridgeError as error:
        for job in jobs:
            job.is_pushed = are_pushed_after(error, [[script.sha]])
        if isinstance(error, ReplyLost):
            raise outcome_unknown(jobs[0].jid, jobs[0].payload["class"], error) from error
        raise
    if doubt:
        for job in jobs:
            job.is_pushed = True
        raise not_replicated([job.jid for job in jobs], doubt) from doubt
    return answers
