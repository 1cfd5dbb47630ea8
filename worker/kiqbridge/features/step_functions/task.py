"""What a payload says about the task of a state machine that waits for the job (AWS Step Functions).

A task with `.waitForTaskToken` enqueues the job with `"task_token.$": "$$.Task.Token"`; who performs the
job sends the token back with its outcome. The token is a secret: anyone who has it can end the task.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from kiqbridge.runtime.records import dataclass
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
