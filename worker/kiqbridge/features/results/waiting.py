"""Results of jobs as they are kept in Redis: fetched, and waited for. Public as `kiqbridge.results`.

They are kept only of jobs that ask for it (`result_ttl`), by a worker of ours, once the job has ended: a failure
that is tried again is no end. Waiting is a short command again and again, less often the longer it takes, so it
needs no connection of its own and no setting of the server.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from kiqbridge.client.client import Client
from kiqbridge.client.default_client import default_client
from kiqbridge.client.off_loop import off_loop
from kiqbridge.errors import JobFailed, PayloadError, ResultOmitted, ResultTimeout
from kiqbridge.features.results.kept import Result, parse_result
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import json_text

FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.25
_GROWTH: Final = 1.5
_AT_ONCE: Final = 500


def fetch_result(jid: str, *, client: Client | None = None) -> Result | None:
    """How a job has ended; None: it has not, or no result of it is kept (any more).

    Args:
        jid: its id, as `perform_async` returned it.
        client: of the Redis where it was enqueued; default: that of declared jobs.

    Raises:
        PayloadError: the jid is no text; `perform_async` returns None when middleware stopped the push.
        RedisUnavailable: Redis is away.
        DecryptionFailed: the job has encrypted arguments, and its key is not here.
    """
    if not isinstance(jid, str) or not jid:
        raise PayloadError(
            f"jid: {shorten(jid)} is no job's id; a push that middleware stopped has none"
        )
    client = client or default_client()
    text = client.pool.call("GET", client.keys.result(jid))
    return None if text is None else _plain(jid, parse_result(text))


def fetch_results(jids: Sequence[str], *, client: Client | None = None) -> dict[str, Result]:
    """How many jobs have ended: those of which a result is kept, by jid; raises as `fetch_result`."""
    client = client or default_client()
    found: dict[str, Result] = {}
    for start in range(0, len(jids), _AT_ONCE):
        part = jids[start : start + _AT_ONCE]
        texts = client.pool.run(*(("GET", client.keys.result(jid)) for jid in part))
        found |= {
            jid: _plain(jid, parse_result(text))
            for jid, text in zip(part, texts, strict=True)
            if text is not None
        }
    return found


def await_result(jid: str, *, timeout_s: float = 30.0, client: Client | None = None) -> Any:
    """What a job returned, once it has ended; blocks until then.

    Args:
        jid: its id.
        timeout_s: seconds to wait at most; 0 looks once.
        client: as for `fetch_result`.

    Raises:
        JobFailed: it has ended without success: it is dead, or was discarded.
        ResultOmitted: it is done, but its result could not be stored.
        ResultTimeout: there is no result yet.
        PayloadError, RedisUnavailable, DecryptionFailed: as `fetch_result`.
    """
    pauses = _pauses(jid, timeout_s)
    while (found := fetch_result(jid, client=client)) is None:
        time.sleep(next(pauses))
    return _value(jid, found)


async def aawait_result(jid: str, *, timeout_s: float = 30.0, client: Client | None = None) -> Any:
    """Wait for the result of a job as `await_result` does, without blocking the event loop."""
    pauses = _pauses(jid, timeout_s)
    while (found := await off_loop(fetch_result, jid, client=client)) is None:  # noqa: ASYNC110 - Redis sends no event
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
