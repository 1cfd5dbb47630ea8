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
from functools import partial
from typing import Any, Final

from kiqbridge import seams
from kiqbridge.errors import PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import active_job, payload
from kiqbridge.wire.payload import FLOW, MAX_TASK_TOKEN, TASK_HEARTBEAT_S, TASK_TOKEN

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
XRAY: Final = "X-Amzn-Trace-Id"
TRACE_FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    TRACEPARENT: re.compile(
        r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
    ),
    TRACESTATE: re.compile(r"[\x21-\x7e][\x20-\x7e\t]{0,511}"),
    XRAY: re.compile(r"[\w.:;=-]{1,256}", re.ASCII),
}
"""Attribute of a job → what its value must look like, in full."""

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
        if check is None and _CURRENT_ATTRIBUTES.fullmatch(name):
            check = _OBJECT
        if check is not None and not check[0](value):
            shown = "it" if name == TASK_TOKEN else shorten(value)  # which is a secret
            raise PayloadError(f"{name}: {shown} {check[1]}")
    if seams.missing() and (found := seams.lacking(job)) is not None:
        raise PayloadError(
            f"{found[0]}: it is of the feature {found[1]}, which is not installed; leave it out"
        )


def is_plain_job(job: Mapping[str, Any]) -> bool:
    """A quick look at a job of two keys, which passes nearly all that are right; others need every check."""
    name, args = job.get("class"), job.get("args")
    return (
        type(name) is str
        and type(args) is list
        and _NAME_FORM.fullmatch(name) is not None
        and payload.is_plain(args)
    )


def _has_form(form: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


_Check = tuple[Callable[[Any], bool], str]
"""Whether a value is right, and what else it is."""

_NAME_FORM: Final = re.compile(r"[\w.:-]+")
_NAME: Final[_Check] = (
    partial(_has_form, _NAME_FORM),
    (
        "is not a plain name; an event may use letters, digits and the characters _ : . - in it, since "
        "Sidekiq's Web UI shows it"
    ),
)
_NUMBER: Final[_Check] = (
    payload.is_number,
    "is not a number; leave it out, or write epoch seconds",
)
_OBJECT: Final[_Check] = (
    lambda value: isinstance(value, Mapping),
    "is not an object, as current attributes are; leave it out or write an object",
)
_CHECKS: Final[Mapping[str, _Check]] = {
    **dict.fromkeys(
        (
            *("class", active_job.KEY, "queue", "retry_queue", "jid", "bid", "wrapped"),
            *("display_class", "locale", "error_class"),
        ),
        _NAME,
    ),
    **dict.fromkeys(
        ("created_at", "enqueued_at", "failed_at", "retried_at", "retry_count"), _NUMBER
    ),
    "tags": (
        lambda value: isinstance(value, list) and all(isinstance(tag, str) for tag in value),
        "is not a list of texts",
    ),
    **{
        name: (
            partial(_has_form, form),
            "is not in the form of that header; leave it out, and the trace of the event is carried instead",
        )
        for name, form in TRACE_FORMS.items()
    },
    FLOW: (
        lambda _value: False,
        "is written by our own clients alone: it names jobs to push and locks to free; leave it out",
    ),
    TASK_TOKEN: (
        lambda value: (
            isinstance(value, str) and 0 < len(value) <= MAX_TASK_TOKEN and value.isascii()
        ),
        (
            f'is not the token of a task: write "{TASK_TOKEN}.$": "$$.Task.Token" in the Payload of a state '
            f"whose Resource ends in .waitForTaskToken (a text of 1 to {MAX_TASK_TOKEN} ASCII characters)"
        ),
    ),
    TASK_HEARTBEAT_S: (
        lambda value: payload.is_number(value) and (value == 0 or 1 <= value < float("inf")),
        "is not a number of seconds from 1 (0 = no heartbeats)",
    ),
}
"""Attribute of a job → what an event may set it to."""


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
