"""Results as they are kept in Redis: read, and waited for.

They are kept only of jobs that ask for it (`result_ttl`), by a worker of ours, once the job has ended: a failure
that is tried again is no end. Waiting is a short command again and again, less often the longer it takes, so it
needs no connection of its own and no setting of the server.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.client.off_loop import off_loop
from kiqbridge.errors import JobFailed, PayloadError, ResultOmitted, ResultTimeout
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import json_text
from kiqbridge.wire.result import Result, parse_result

if TYPE_CHECKING:
    from kiqbridge.client.client import Client

FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.25
_GROWTH: Final = 1.5


def fetch(jid: str, client: "Client") -> Result | None:
    """How a job has ended, or None; raises as `fetch_result`."""
    if not isinstance(jid, str) or not jid:
        raise PayloadError(
            f"jid: {shorten(jid)} is no job's id; a push that middleware stopped has none"
        )
    text = client.pool.call("GET", client.keys.result(jid))
    return None if text is None else _plain(jid, parse_result(text))


def wait(jid: str, client: "Client", timeout_s: float) -> Any:
    """What a job returned, once it has ended; blocks, and raises, as `await_result`."""
    pauses = _pauses(jid, timeout_s)
    while (found := fetch(jid, client)) is None:
        time.sleep(next(pauses))
    return _value(jid, found)


async def await_(jid: str, client: "Client", timeout_s: float) -> Any:
    """As `wait`, without blocking the event loop."""
    pauses = _pauses(jid, timeout_s)
    while (found := await off_loop(fetch, jid, client)) is None:  # noqa: ASYNC110 - Redis sends no event
        await asyncio.sleep(next(pauses))
    return _value(jid, found)


def _plain(jid: str, found: Result) -> Result:
    if not found.is_encrypted:
        return found
    from kiqbridge.client.sealing import sealing  # noqa: PLC0415 - for few

    value = json_text.loads(sealing().decrypt_value(jid, found.value).encode())
    return replace(found, value=value, is_encrypted=False)


def _pauses(jid: str, timeout_s: float) -> Iterator[float]:
    """Seconds from one look to the next; raises ResultTimeout when there is no time left."""
    until, pause_s = time.monotonic() + timeout_s, FIRST_PAUSE_S
    while (left_s := until - time.monotonic()) > 0:
        yield min(pause_s, left_s)
        pause_s = min(pause_s * _GROWTH, LONGEST_PAUSE_S)
    raise ResultTimeout(
        f"there is no result of job {jid} after {timeout_s:g} s: it has not ended, or is tried again, or its result "
        "is gone, or none was asked for (result_ttl), or Ruby performed it, which keeps none"
    )


def _value(jid: str, found: Result) -> Any:
    if found.outcome != "done":
        raise JobFailed(jid, found.outcome, found.error, found.message)
    if found.is_omitted:
        raise ResultOmitted(
            f"job {jid} is done, but what it returned is no JSON, or longer than 256 KiB, and was not kept; the "
            "worker's log has the reason"
        )
    return found.value
