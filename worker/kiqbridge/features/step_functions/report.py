r"""What Step Functions gets to know of a job that has ended, as it is kept in Redis until it is sent.

A report goes along with the job's end (`report_end`). The outbox moves it to the sorted set `kb:reports`:

    {"task_token":"AQC…","jid":"b4a5…","class":"Bill","at":1700000000.5,"output":"{\"total\":7}"}
    {"task_token":"AQC…","jid":"b4a5…","class":"Bill","at":1700000000.5,"error":"OSError","cause":"{…}"}

Pure: building and reading it. Who sends it: features/step_functions/reporter.py.

What a payload says about the task of a state machine that waits for the job (AWS Step Functions).

A task with `.waitForTaskToken` enqueues the job with `"task_token.$": "$$.Task.Token"`; who performs the
job sends the token back with its outcome. The token is a secret: anyone who has it can end the task.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from kiqbridge.client.client import Client
from kiqbridge.engine.settle.ending import EndedJob
from kiqbridge.engine.settle.error_report import error_class, error_message
from kiqbridge.engine.settle.output import JobOutput
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.effects import Effect
from kiqbridge.wire import json_text
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.payload import MAX_TASK_TOKEN, TASK_HEARTBEAT_S, TASK_TOKEN

REFUSED: Final = f"{TASK_TOKEN} is no text of 1 to {MAX_TASK_TOKEN} characters: nothing is reported to Step Functions"
"""Of a job whose token can be none."""

_NAME: Final = b'"task_token"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task that waits for a job.

    Attributes:
        token: what Step Functions knows it by; a secret.
        heartbeat_s: seconds between two heartbeats that the payload asks for, 0 = none; None = it does not
            say, or no number of seconds from 1.
        jid, job_class: of the job, for log lines.
    """

    token: str = field(repr=False)
    heartbeat_s: float | None = None
    jid: str = ""
    job_class: str = ""


def task_of(payload: Mapping[str, Any]) -> Task | None:
    """The task that waits for this job; None: there is none, or its token is no text that can be one."""
    token = payload.get(TASK_TOKEN)
    if not isinstance(token, str) or not 0 < len(token) <= MAX_TASK_TOKEN:
        return None
    shown = payload.get("wrapped") or payload.get("class")
    return Task(
        token=token,
        heartbeat_s=_heartbeat_s(payload.get(TASK_HEARTBEAT_S)),
        jid=str(payload.get("jid", "")),
        job_class=shown if isinstance(shown, str) else "",
    )


def may_have_task(text: bytes) -> bool:
    """Whether the text of a job may name a task; one that does not is not worth parsing."""
    return _NAME in text


def _heartbeat_s(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value == 0 or 1 <= value < float("inf") else None


logger = logging.getLogger(__name__)

MAX_ERROR: Final = 256
MAX_CAUSE: Final = 32_768
"""Characters of `error` and `cause`; Step Functions, API reference, SendTaskFailure."""

_MAX_TEXT_BYTES: Final = 5000
"""Bytes of the error's message in a cause: with what JSON adds to it, the cause stays within its limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """One report.

    Attributes:
        token: of the task; a secret.
        jid, job_class: of the job.
        at: when it ended, epoch seconds.
        output: JSON text for SendTaskSuccess; None = SendTaskFailure with `error` and `cause`.
    """

    token: str = field(repr=False)
    jid: str
    job_class: str
    at: float
    output: str | None = None
    error: str = ""
    cause: str = ""

    def to_text(self) -> bytes:
        """As it is kept in Redis."""
        outcome: dict[str, Any] = (
            {"error": self.error, "cause": self.cause}
            if self.output is None
            else {"output": self.output}
        )
        named = {TASK_TOKEN: self.token, "jid": self.jid, "class": self.job_class, "at": self.at}
        return json_text.dumps({**named, **outcome})

    @classmethod
    def from_text(cls, text: bytes) -> "TaskReport":
        """The counterpart of `to_text`.

        Raises:
            ValueError: it is no report.
        """
        read = json_text.loads(text)
        try:
            return cls(
                token=str(read[TASK_TOKEN]),
                jid=str(read["jid"]),
                job_class=str(read["class"]),
                at=float(read["at"]),
                output=read.get("output"),
                error=str(read.get("error", "")),
                cause=str(read.get("cause", "")),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("it lacks what every report has") from error


def report_end(ended: EndedJob) -> Sequence[Effect]:
    """An end that carries the report, of a job with a task token."""
    task = task_of(ended.payload)
    if task is None:
        logger.warning(REFUSED)
        return ()
    if ended.error is not None:
        if ended.outcome == "skipped":
            logger.warning("%s; Step Functions gets a failure", ended.error)
        report = failure_report(task, ended.error, ended.at, ended.kept)
    else:
        if ended.output.omitted:
            logger.warning(
                "the return value %s: Step Functions gets an object with the members jid and omitted in its place",
                ended.output.omitted,
            )
        report = success_report(task, ended.output, ended.at)
    return [ended.for_outbox(report=report.decode())]


def pass_on(end: FlowEnd, client: Client) -> Sequence[Effect]:
    """The consequence of an end that carries a report: it waits to be sent."""
    return [Effect("add", [client.keys.task_reports], [0, end.report])] if end.report else ()


def success_report(task: Task, output: JobOutput, now: float) -> bytes:
    """The report of a job that has succeeded at `now` (epoch seconds)."""
    text = omitted_output(task.jid, output.omitted) if output.omitted else output.text
    return _report(task, now, output=text)


def omitted_output(jid: str, why: str) -> str:
    """What is sent in the place of a return value that cannot be: the state machine goes on with it."""
    return json.dumps({"jid": jid, "omitted": f"the return value {why}"})


def failure_report(
    task: Task, error: BaseException, now: float, payload: Mapping[str, Any]
) -> bytes:
    """The report of a job that is dead or dropped.

    Args:
        task: that waits for it.
        error: the last one; what stands for it if it was raised in a child process.
        now: epoch seconds.
        payload: the job as it was kept, for its number of retries.
    """
    message = error_message(error)
    cause = {
        "errorType": error_class(error)[:MAX_ERROR],
        "errorMessage": message.encode()[:_MAX_TEXT_BYTES].decode(errors="ignore"),
        "jid": task.jid,
        "class": task.job_class,
        "retry_count": payload.get("retry_count"),
    }
    return _report(task, now, error=str(cause["errorType"]), cause=json.dumps(cause)[:MAX_CAUSE])


def _report(task: Task, now: float, **outcome: str) -> bytes:
    return TaskReport(
        token=task.token, jid=task.jid, job_class=task.job_class, at=now, **outcome
    ).to_text()
