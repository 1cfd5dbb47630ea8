r"""What Step Functions gets to know of a job that has ended, as it is kept in Redis until it is sent.

A report is a part of the job's end (ending.py). The outbox moves it to the sorted set `kb:reports`:

    {"task_token":"AQC…","jid":"b4a5…","class":"Bill","at":1700000000.5,"output":"{\"total\":7}"}
    {"task_token":"AQC…","jid":"b4a5…","class":"Bill","at":1700000000.5,"error":"OSError","cause":"{…}"}

Pure: building and reading it. Who sends it: engine/step_functions/reporter.py.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from kiqbridge.engine.settle.failed_payload import error_class, error_message
from kiqbridge.errors import PayloadError
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import TASK_TOKEN
from kiqbridge.wire.task_token import Task

MAX_OUTPUT_BYTES: Final = 262_144
"""Bytes of a task's output as UTF-8; Step Functions, quotas, 256 KiB."""

MAX_ERROR: Final = 256
MAX_CAUSE: Final = 32_768
"""Characters of `error` and `cause`; Step Functions, API reference, SendTaskFailure."""

_MAX_TEXT_BYTES: Final = 5000
"""Bytes of the error's message in a cause: with what JSON adds to it, the cause stays within its limit."""

MAX_VALUE_DEPTH: Final = 98
"""Lists and dicts in each other: a result and the arguments of a job hold the value within two more, and
`json_text` reads 100."""

NOT_PERFORMED: Final = object()
"""The return value of a job that was not called, because middleware has skipped it."""


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """A return value as JSON text.

    Attributes:
        text: the JSON; empty when it is left out.
        omitted: why it is left out, as a sentence without its subject.
    """

    text: str
    omitted: str = ""


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


def encode_output(result: object) -> TaskOutput:
    """A job's return value as JSON for Step Functions; in the time that its limit bounds, and never an error.

    Args:
        result: the value, or a `TaskOutput` that was made in a child process.
    """
    if isinstance(result, TaskOutput):
        return result
    if result is None:  # as of most jobs; the encoder takes a third of the time of a whole end
        return TaskOutput("null")
    parts: list[str] = []
    size = 0
    try:
        for part in _ENCODER.iterencode(result):
            size += len(part.encode())
            if size > MAX_OUTPUT_BYTES:
                return TaskOutput(
                    "", f"is longer than the {MAX_OUTPUT_BYTES} bytes that Step Functions takes"
                )
            parts.append(part)
        _check_readable(result)
    except BaseException as error:  # noqa: BLE001 - the job is done, and must not run again because of its result
        why = str(error) if isinstance(error, PayloadError) else type(error).__name__
        return TaskOutput("", f"is no JSON ({why}: type {type(result).__name__})")
    return TaskOutput("".join(parts))


def _check_readable(result: object) -> None:
    """Refuse what the encoder would alter: keys that are no texts, some of which it would make one and the same.

    Called once a value was encoded, so that it is finite, and as small as its limit.

    Raises:
        PayloadError: that, or it is nested deeper than a reader goes.
    """
    level: list[object] = [result]
    for _ in range(MAX_VALUE_DEPTH + 1):
        containers = [each for each in level if isinstance(each, dict | list | tuple)]
        if not containers:
            return
        for each in containers:
            if isinstance(each, dict) and not all(isinstance(key, str) for key in each):
                raise PayloadError("keys that are no texts")
        level = [
            child
            for each in containers
            for child in (each.values() if isinstance(each, dict) else each)
        ]
    raise PayloadError(f"nested deeper than {MAX_VALUE_DEPTH} levels")


def success_report(task: Task, output: TaskOutput, now: float) -> bytes:
    """The report of a job that has succeeded at `now` (epoch seconds)."""
    text = omitted_output(task, output.omitted) if output.omitted else output.text
    return _report(task, now, output=text)


def omitted_output(task: Task, why: str) -> str:
    """What is sent in the place of a return value that cannot be: the state machine goes on with it."""
    return json.dumps({"jid": task.jid, "omitted": f"the return value {why}"})


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


# Not orjson: it turns long integers into floats. In parts, so that a long value is given up early; \uXXXX
# in the place of other characters would make a text that fits too long, so it is not used.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
