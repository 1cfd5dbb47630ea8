"""What comes about when a job ends, as effects of the script by which it leaves Redis. Pure.

Three kinds of waiters may watch for the end of a job (wire/job_text.py). `ending` is the only place that knows them:

    tick         how it ended is added to the ends of its schedule (wire/tick_mark.py)
    flow         its end is added to `kb:flow:ends`: the outbox frees its lock, counts its batch, begins the next job
    task_token   the same end carries its outcome for Step Functions, which the outbox passes on (task_report.py)

A job that goes on, by a retry or another push, has no end. Nearly all jobs are watched by nobody, and have no effects.
A new consequence of an end is an effect here, and its part in store/scripts/parts/leave.lua.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kiqbridge.engine.settle.failed_payload import error_class, error_message
from kiqbridge.engine.settle.task_report import TaskOutput, failure_report, success_report
from kiqbridge.errors import ConfigError, JobSkipped
from kiqbridge.store.effects import Effect
from kiqbridge.wire.flow_mark import FlowEnd, flow_of
from kiqbridge.wire.flow_steps import passes_value
from kiqbridge.wire.job_text import is_watched, watched_payload
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import ENCRYPTED
from kiqbridge.wire.task_token import task_of
from kiqbridge.wire.tick_mark import EndKind, JobEnd, tick_mark_of

logger = logging.getLogger(__name__)

MOST_MESSAGE: Final = 2_000
"""Characters of an error's message that are kept with an end."""

_FAILED: Final = ("dead", "discarded")


def ending(
    keys: Keys,
    payload: Mapping[str, Any],
    outcome: EndKind,
    now: float,
    *,
    error: BaseException | None = None,
    output: TaskOutput | None = None,
    took_s: float | None = None,
    kept: Mapping[str, Any] | None = None,
) -> Sequence[Effect]:
    """The effects of a job's end.

    Args:
        keys: the namespace.
        payload: the job as it was fetched; of a text its `watched_payload`.
        outcome: how it ended.
        now: epoch seconds.
        error: the last one, or what stands for it; None: it is done.
        output: what it returned, if it is done.
        took_s: seconds that its last run took; None = it was not run.
        kept: the job as it is kept, for its number of retries.
    """
    if not is_watched(payload):
        return ()
    effects = []
    task, flow = task_of(payload), flow_of(payload)
    if task is not None or flow is not None:
        report, text = b"", None
        if error is None:
            output = output or TaskOutput("null")
            report = success_report(task, output, now) if task is not None else b""
            text = _value(payload, output) if flow is not None else None
        elif task is not None:
            report = failure_report(task, error, now, kept or {})
        end = FlowEnd(
            flow=flow or {},
            jid=str(payload.get("jid", "")),
            job_class=str(payload.get("wrapped") or payload.get("class", "")),
            queue=str(payload.get("queue", "")),
            outcome=outcome,
            at=now,
            error=error_class(error) if error is not None else "",
            message=error_message(error)[:MOST_MESSAGE] if error is not None else "",
            output=text,
            encrypted=text is not None and ENCRYPTED in payload,
            report=report.decode(),
        )
        effects.append(Effect("add", [keys.flow_ends], [0, end.to_text()]))
    mark = tick_mark_of(payload)
    if mark is not None:
        count = payload.get("retry_count")
        job_end = JobEnd(
            at=mark.at,
            jid=str(payload.get("jid", "")),
            outcome=outcome,
            ended_at=now,
            took_s=took_s,
            error=error_class(error) if error is not None and outcome in _FAILED else "",
            retries=count + 1 if type(count) is int and count >= 0 else 0,
        )
        ledger = [keys.ends(mark.schedule), keys.ticks(mark.schedule)]
        effects.append(Effect("ledger", ledger, [mark.at, job_end.to_text()]))
    return effects


def stopped_ending(keys: Keys, text: bytes, now: float) -> Sequence[Effect]:
    """The effects of the end of a due job, `text`, whose push client middleware has stopped."""
    error = JobSkipped("client middleware stopped the push of this job when it was due")
    return ending(keys, watched_payload(text), "skipped", now, error=error)


def wants_output(payload: Mapping[str, Any]) -> bool:
    """Whether what the job returns is to be encoded."""
    if task_of(payload) is not None:
        return True
    flow = flow_of(payload)
    return flow is not None and ("result_ttl_s" in flow or passes_value(flow))


def _value(payload: Mapping[str, Any], output: TaskOutput) -> str | None:
    """What the job returned, as it is kept with its end. None: nobody asked for it, or it cannot be kept."""
    if output.omitted or not wants_output(payload):
        return None
    if ENCRYPTED not in payload:
        return output.text
    from kiqbridge.client.encryption import encrypt_value  # noqa: PLC0415 - for few

    try:
        return encrypt_value(str(payload.get("jid", "")), output.text)
    except ConfigError as error:  # the job is done, and must not run again
        logger.error("what an encrypted job returned is not kept: %s", error)  # noqa: TRY400 - it says all
        return None
