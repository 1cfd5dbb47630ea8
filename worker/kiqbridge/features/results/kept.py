r"""Results of jobs that are kept because somebody asked for it: the option, and the text that is kept.

`@job(result_ttl=3600)` goes on the wire as `"flow":{"result_ttl_s":3600}`. When such a job has ended, its result is
the string `kb:result:JID` for that time:

    {"outcome":"done","at":1700000000.5,"value":{"total":7}}
    {"outcome":"done","at":1700000000.5,"omitted":true}
    {"outcome":"dead","at":1700000000.5,"error":"ValueError","message":"no luck"}

Pure.
"""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from kiqbridge.errors import PayloadError
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import FLOW, is_number

RESULT_TTL: Final = "result_ttl"
"""The option of a declaration, of `set` and of a schedule file."""

MEMBER: Final = "result_ttl_s"
"""The member of the attribute `flow`."""

MAX_TTL_S: Final = 366 * 86_400
"""A year: Redis is no archive."""

MAX_JID: Final = 256
"""Characters; a longer one is none of any client's, and keeps no result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a job has ended.

    Attributes:
        outcome: "done"; else "dead", "discarded", "skipped", "expired" or "cancelled".
        at: when, epoch seconds.
        value: what it returned, as JSON carries it; None if it did not end well.
        is_encrypted: `value` is that of an encrypted job, and in the form in which Redis has it.
        is_omitted: it is done, but its result is no JSON, or too long.
        error, message: class and message of its last error, or "".
    """

    outcome: str
    at: float
    value: Any = None
    is_encrypted: bool = False
    is_omitted: bool = False
    error: str = ""
    message: str = ""


def with_result(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they go on the wire: `result_ttl` is a member of `flow`; None asks for no result.

    Raises:
        PayloadError: it is no number of seconds, or a longer time than a year.
    """
    wired = dict(options)
    given = wired.pop(RESULT_TTL, None)
    if given is None:
        return wired
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if not _is_ttl(seconds):
        raise PayloadError(
            f"{RESULT_TTL}: {shorten(given)} is not a number of seconds above 0, or a timedelta, of at most "
            f"{MAX_TTL_S} seconds (a year)"
        )
    flow = wired.get(FLOW)
    wired[FLOW] = {**(flow if isinstance(flow, Mapping) else {}), MEMBER: math.ceil(seconds)}
    return wired


def ttl_in(flow: Mapping[str, Any]) -> int | None:
    """For how many seconds the result of a job with this `flow` is to be kept; None: not at all."""
    seconds = flow.get(MEMBER)
    return math.ceil(seconds) if seconds is not None and _is_ttl(seconds) else None


def asks_for_value(flow: Mapping[str, Any]) -> bool:
    """Whether what the job returned is kept: any `result_ttl_s`, which the worker's outbox checks."""
    return MEMBER in flow


def result_text(
    outcome: str,
    at: float,
    *,
    output: str | None,
    encrypted: bool = False,
    error: str = "",
    message: str = "",
) -> bytes:
    """What is kept; `output` is the JSON text of what the job returned, or of its encrypted form."""
    found: dict[str, Any] = {"outcome": outcome, "at": at}
    found |= {name: text for name, text in (("error", error), ("message", message)) if text}
    if outcome == "done" and output is None:
        found["omitted"] = True
    if encrypted:
        found["encrypted"] = True
    text = json_text.dumps(found)
    return text if not output else b'%s,"value":%s}' % (text[:-1], output.encode())


def parse_result(text: bytes) -> Result:
    """The counterpart of `result_text`.

    Raises:
        ValueError: it is no result.
    """
    read = json_text.loads(text)
    try:
        return Result(
            outcome=str(read["outcome"]),
            at=float(read["at"]),
            value=read.get("value"),
            is_encrypted=read.get("encrypted") is True,
            is_omitted=read.get("omitted") is True,
            error=str(read.get("error", "")),
            message=str(read.get("message", "")),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("it lacks what every result has") from error


def _is_ttl(seconds: object) -> bool:
    return is_number(seconds) and 0 < seconds <= MAX_TTL_S
