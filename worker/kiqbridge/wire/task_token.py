"""What a payload says about the task of a state machine that waits for the job (AWS Step Functions).

A task with `.waitForTaskToken` enqueues the job with `"task_token.$": "$$.Task.Token"`; who performs the
job sends the token back with its outcome. The token is a secret: whoever has it can end the task.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from kiqbridge.records import dataclass
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import MAX_TASK_TOKEN, TASK_HEARTBEAT_S, TASK_TOKEN
from kiqbridge.wire.raw_job import outline

_NAME: Final = b'"task_token"'
_MAX_PARSED_BYTES: Final = 100_000
"""A longer text is looked at by its bytes alone: it may be one that kills its parser."""


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


def task_in(text: bytes) -> Task | None:
    """As `task_of`, from the text of a job, in time and memory that its length bounds.

    Of a text above 100,000 bytes `task_heartbeat_s` is not known.
    """
    if not may_have_task(text):
        return None
    if len(text) > _MAX_PARSED_BYTES:
        found = outline(text)
        strings = found.strings if found else {}
        return task_of(
            {
                name.decode(errors="replace"): value.decode(errors="replace")
                for name, value in strings.items()
                if name in _SHORT
            }
        )
    try:
        payload = json_text.loads(text)
    except json_text.MalformedJSON:
        return None
    return task_of(payload) if isinstance(payload, dict) else None


_SHORT: Final = (b"task_token", b"jid", b"class", b"wrapped")


def _heartbeat_s(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value == 0 or 1 <= value < float("inf") else None
