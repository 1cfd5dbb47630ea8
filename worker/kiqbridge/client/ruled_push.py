"""Pushes of unique, debounced and throttled jobs: one script each, which decides and pushes in the same step.

A lost reply is `PushOutcomeUnknown`, as of a plain push: a lock may be free again by the time of a repetition, since
its job has ended. Pushing again with the same jid does nothing while the first job has its lock.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from kiqbridge.client.job_writer import (
    JobWriter,
    are_pushed_after,
    not_replicated,
    outcome_unknown,
    score,
)
from kiqbridge.client.prepare import PreparedJob
from kiqbridge.client.unique import Debounce, Throttle, Unique
from kiqbridge.errors import KiqbridgeError, NotUnique, PayloadError
from kiqbridge.store import scripts
from kiqbridge.store.locks import LOOK_S
from kiqbridge.store.replies import ReplyLost
from kiqbridge.store.scripts import Script
from kiqbridge.wire.names import text_of
from kiqbridge.wire.payload import FLOW

_PUSH_UNIQUE: Final = scripts.load("push_unique")
_PUSH_DEBOUNCED: Final = scripts.load("push_debounced")
_PUSH_THROTTLED: Final = scripts.load("push_throttled")


def push_ruled(jobs: Sequence[PreparedJob], writer: JobWriter, *, now: float) -> list[str | None]:
    """Push jobs that have a rule and were prepared for this (`by_rule`), in their order.

    Jobs of the same kind that follow each other are pushed by one script.

    Returns:
        The jids, None in the place of a job that was left out.

    Raises:
        PayloadError: a job cannot be debounced as it is; nothing was written.
        NotUnique: a job that is to raise; nothing of its script was pushed.
        KiqbridgeError: as `Client.push`.
    """
    push: dict[Any, Any] = {Debounce: _push_debounced, Throttle: _push_throttled}
    groups = groupby(jobs, key=lambda job: type(job.rule))
    return [
        jid for kind, group in groups for jid in push.get(kind, _push_unique)([*group], writer, now)
    ]


def _push_unique(jobs: Sequence[PreparedJob], writer: JobWriter, now: float) -> list[str | None]:
    own = writer.keys
    keys = [own.queues, own.locks, own.locks_look, own.replaced]
    args: list[str | bytes | float] = [LOOK_S, len(jobs)]
    for job in jobs:
        rule = job.rule
        assert isinstance(rule, Unique)  # noqa: S101 - `push_ruled` has grouped them
        at = "" if job.at is None else score(job.at)
        keys.append(own.queue(job.queue) if job.at is None else own.schedule)
        args += [job.name, rule.ttl_s, job.jid, rule.on_conflict]
        args += [job.queue, at, writer.text(job, now)]
    answers = _run(_PUSH_UNIQUE, keys, args, jobs, writer)
    if isinstance(answers[0], list):
        owners = {number - 1: text_of(jid) for number, jid in answers}
        first = min(owners)
        raise NotUnique(jobs[first].payload["class"], owners[first], places=owners)
    for job, owner in zip(jobs, answers, strict=True):
        job.is_pushed = not owner
    return [job.jid if job.is_pushed else None for job in jobs]


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
        job.at = now
        later = writer.text(job, now) if rule.over == "later" else text
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
