"""What is to become known of a job that has ended, and written by the script that settles it.

Two may wait for its end: a task of Step Functions, which gets a report (task_report.py), and what is under flow
control, such as a lock, a batch or a chain (wire/flow_mark.py). If both wait, the end carries the report along.
The ledger of a schedule gets the end of each of its jobs (`end_of`): a job that is gone from Redis has one, and one
that goes on has none. Pure. b"" stands for nobody waits, which is the case of nearly all jobs.
"""

import logging
from collections.abc import Mapping
from typing import Any

from kiqbridge.errors import ConfigError
from kiqbridge.settle.failed_payload import error_class, error_message
from kiqbridge.settle.task_report import TaskOutput, failure_report, success_report
from kiqbridge.wire.flow_mark import FlowEnd, flow_of
from kiqbridge.wire.flow_steps import passes_value
from kiqbridge.wire.payload import ENCRYPTED, FLOW, TASK_TOKEN, TICK
from kiqbridge.wire.task_token import task_of
from kiqbridge.wire.tick_mark import EndKind, JobEnd, LedgerEnd, tick_mark_of

logger = logging.getLogger(__name__)

MOST_MESSAGE = 2_000
"""Characters of an error's message that are kept with an end."""


def is_awaited(payload: Mapping[str, Any]) -> bool:
    """Whether anybody waits for the end of this job, or for its value."""
    return TASK_TOKEN in payload or FLOW in payload


def wants_output(payload: Mapping[str, Any]) -> bool:
    """Whether what the job returns is to be encoded."""
    flow = flow_of(payload) if FLOW in payload else None
    if TASK_TOKEN in payload:
        return True
    return flow is not None and ("result_ttl_s" in flow or passes_value(flow))


def report_success(payload: Mapping[str, Any], output: TaskOutput, now: float) -> bytes:
    """The report of a job that has succeeded at `now` (epoch seconds)."""
    task = task_of(payload)
    report = success_report(task, output, now) if task is not None else b""
    flow = flow_of(payload)
    if flow is None:
        return report
    text = output.text if wants_output(payload) and not output.omitted else None
    if text is not None and ENCRYPTED in payload:
        text = _encrypted(payload, text)
    return _end(flow, payload, "done", now, output=text, report=report)


def report_failure(
    payload: Mapping[str, Any],
    outcome: EndKind,
    error: BaseException,
    now: float,
    *,
    kept: Mapping[str, Any] | None = None,
) -> bytes:
    """The report of a job that has ended without success.

    Args:
        payload: as it was fetched; of a text that is not parsed its `marked_payload`.
        outcome: how it ended.
        error: the last one, or what stands for it.
        now: epoch seconds.
        kept: the job as it is kept, for its number of retries.
    """
    task, flow = task_of(payload), flow_of(payload)
    report = failure_report(task, error, now, kept or {}) if task is not None else b""
    return report if flow is None else _end(flow, payload, outcome, now, error=error, report=report)


def end_of(
    payload: Mapping[str, Any],
    outcome: EndKind,
    now: float,
    *,
    took_s: float | None = None,
    error: BaseException | None = None,
) -> LedgerEnd | None:
    """The end of a job; None: it belongs to no schedule.

    Args:
        payload: the job as it was fetched; of a text that is not parsed its `marked_payload`.
        outcome: how it ended.
        now: epoch seconds.
        took_s: seconds that its last run took; None = it was not run.
        error: the last one.
    """
    if TICK not in payload or (mark := tick_mark_of(payload)) is None:
        return None
    count = payload.get("retry_count")
    end = JobEnd(
        at=mark.at,
        jid=str(payload.get("jid", "")),
        outcome=outcome,
        ended_at=now,
        took_s=took_s,
        error=error_class(error) if error is not None else "",
        retries=count + 1 if type(count) is int and count >= 0 else 0,
    )
    return LedgerEnd(mark.schedule, mark.at, end.to_text())


def _encrypted(payload: Mapping[str, Any], text: str) -> str | None:
    """What an encrypted job returned, encrypted; None without a key: the job is done, and must not run again."""
    from kiqbridge.client.encryption import encrypt_value  # noqa: PLC0415 - for few

    try:
        return encrypt_value(str(payload.get("jid", "")), text)
    except ConfigError as error:
        logger.error("what an encrypted job returned is not kept: %s", error)  # noqa: TRY400 - it says all
        return None


def _end(
    flow: Mapping[str, Any],
    payload: Mapping[str, Any],
    outcome: EndKind,
    now: float,
    *,
    error: BaseException | None = None,
    output: str | None = None,
    report: bytes = b"",
) -> bytes:
    return FlowEnd(
        flow=flow,
        jid=str(payload.get("jid", "")),
        job_class=str(payload.get("wrapped") or payload.get("class", "")),
        queue=str(payload.get("queue", "")),
        outcome=outcome,
        at=now,
        error=error_class(error) if error is not None else "",
        message=error_message(error)[:MOST_MESSAGE] if error is not None else "",
        output=output,
        encrypted=output is not None and ENCRYPTED in payload,
        report=report.decode(),
    ).to_text()
