"""Trace headers: what brought a job is carried in its payload, so that its log lines belong to the trace.

The attributes of a job are named as OpenTelemetry's instrumentation of Sidekiq names them: the propagator's
header names, `traceparent` and `tracestate` (W3C Trace Context) and `X-Amzn-Trace-Id` (X-Ray). A header
that is not in its form is left out, as W3C demands; a job is never refused for what a proxy sent.
"""

import re
from collections.abc import Mapping
from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
XRAY: Final = "X-Amzn-Trace-Id"

_PARENT: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_STATE: Final = re.compile(r"[\x21-\x7e][\x20-\x7e\t]{0,511}")
_XRAY: Final = re.compile(r"[\w.:;=-]{1,256}", re.ASCII)

FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    TRACEPARENT: _PARENT,
    TRACESTATE: _STATE,
    XRAY: _XRAY,
}
"""Attribute of a job → what its value must look like, in full."""


def attributes(
    *, parent: object = None, state: object = None, xray: object = None
) -> dict[str, str]:
    """The attributes of a job for these headers, without those that are missing or malformed."""
    given = {TRACEPARENT: parent, TRACESTATE: state, XRAY: xray}
    found = {
        name: value
        for name, value in given.items()
        if isinstance(value, str) and FORMS[name].fullmatch(value)
    }
    if TRACEPARENT not in found:
        found.pop(TRACESTATE, None)  # it means nothing without (W3C, 3.3)
    return found
