"""What an event may set of a job that Ruby's pages show: plain values only.

The enqueue function is a trust boundary for Sidekiq's Web UI, too. Anybody who may invoke it could
put markup into a jid or a class name, which some versions write into their pages as it is, or a
value of another type, on which a page for everybody ends in an error. So these members are checked
where events come in. Clients in code are not restricted: who writes code is trusted.

Trace headers of what brought a job are carried in its payload, so that its log lines belong to the trace.
The attributes of a job are named as OpenTelemetry's instrumentation of Sidekiq names them: the propagator's
header names, `traceparent` and `tracestate` (W3C Trace Context) and `X-Amzn-Trace-Id` (X-Ray). A header
that is not in its form is left out, as W3C demands; a job is never refused for what a proxy sent.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from kiqbridge.errors import PayloadError
from kiqbridge.wire import active_job
from kiqbridge.wire.payload import FLOW, MAX_TASK_TOKEN, TASK_HEARTBEAT_S, TASK_TOKEN, shorten

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
XRAY: Final = "X-Amzn-Trace-Id"

_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_STATE: Final = re.compile(r"[\x21-\x7e][\x20-\x7e\t]{0,511}")
_XRAY: Final = re.compile(r"[\w.:;=-]{1,256}", re.ASCII)

TRACE_FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    TRACEPARENT: _PARENT,
    TRACESTATE: _STATE,
    XRAY: _XRAY,
}
"""Attribute of a job → what its value must look like, in full."""

_PLAIN: Final = re.compile(r"[\w.:-]+")
_CURRENT_ATTRIBUTES: Final = re.compile(r"cattr(_\d+)?")


def check_plain(job: Mapping[str, Any]) -> None:
    """Refuse a job that Ruby's pages could not show, or would show as markup.

    Args:
        job: a job as an event gives it, before it is wrapped or normalized.

    Raises:
        PayloadError: names the field and shows the value.
    """
    for name, value in job.items():
        check = _CHECKS.get(name)
        if check is not None:
            check(name, value)
        elif _CURRENT_ATTRIBUTES.fullmatch(name) and not isinstance(value, Mapping):
            raise PayloadError(
                f"{name}: {shorten(value)} is not an object, as current attributes are; leave it out or "
                "write an object"
            )


def _check_name(field: str, value: object) -> None:
    if not isinstance(value, str) or not _PLAIN.fullmatch(value):
        raise PayloadError(
            f"{field}: {shorten(value)} is not a plain name; an event may use letters, digits and the "
            "characters _ : . - in it, since Sidekiq's Web UI shows it"
        )


def _check_number(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PayloadError(
            f"{field}: {shorten(value)} is not a number; leave it out, or write epoch seconds"
        )


def _check_task_token(field: str, value: object) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TASK_TOKEN or not value.isascii():
        raise PayloadError(  # without the value, which is a secret
            f'{field}: it is not the token of a task: write "{field}.$": "$$.Task.Token" in the Payload of a '
            f"state whose Resource ends in .waitForTaskToken (a text of 1 to {MAX_TASK_TOKEN} ASCII characters)"
        )


def _check_interval(field: str, value: object) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not (value == 0 or 1 <= value < float("inf"))
    ):
        raise PayloadError(
            f"{field}: {shorten(value)} is not a number of seconds from 1 (0 = no heartbeats)"
        )


def _check_tags(field: str, value: object) -> None:
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise PayloadError(f"{field}: {shorten(value)} is not a list of texts")


def _refuse(field: str, value: object) -> None:
    raise PayloadError(
        f"{field}: {shorten(value)} is written by our own clients alone: it names jobs to push and locks to free; "
        "leave it out"
    )


def _check_trace(field: str, value: object) -> None:
    if not isinstance(value, str) or not TRACE_FORMS[field].fullmatch(value):
        raise PayloadError(
            f"{field}: {shorten(value)} is not in the form of that header; leave it out, and the trace of the "
            "event is carried instead"
        )


_CHECKS: Final[Mapping[str, Callable[[str, object], None]]] = {
    **dict.fromkeys(
        ("class", active_job.KEY, "queue", "retry_queue", "jid", "bid", "wrapped", "display_class"),
        _check_name,
    ),
    **dict.fromkeys(("locale", "error_class"), _check_name),
    **dict.fromkeys(
        ("created_at", "enqueued_at", "failed_at", "retried_at", "retry_count"), _check_number
    ),
    "tags": _check_tags,
    **dict.fromkeys(TRACE_FORMS, _check_trace),
    FLOW: _refuse,
    TASK_TOKEN: _check_task_token,
    TASK_HEARTBEAT_S: _check_interval,
}


def trace_attributes(
    *, parent: object = None, state: object = None, xray: object = None
) -> dict[str, str]:
    """The attributes of a job for these headers, without those that are missing or malformed."""
    given = {TRACEPARENT: parent, TRACESTATE: state, XRAY: xray}
    found = {
        name: value
        for name, value in given.items()
        if isinstance(value, str) and TRACE_FORMS[name].fullmatch(value)
    }
    if TRACEPARENT not in found:
        found.pop(TRACESTATE, None)  # it means nothing without (W3C, 3.3)
    return found
