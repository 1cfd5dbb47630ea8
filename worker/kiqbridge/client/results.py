"""Results of jobs: fetched, and waited for. Public as `kiqbridge.results`.

What they do is in `kept_results`, which job handles use as well.
"""

from typing import Any

from kiqbridge.client import kept_results
from kiqbridge.client.client import Client
from kiqbridge.client.default_client import default_client
from kiqbridge.wire.result import Result


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
    return kept_results.fetch(jid, client or default_client())


def await_result(jid: str, *, timeout_s: float = 30.0, client: Client | None = None) -> Any:
    """What a job returned, once it has ended; blocks until then.

    Args:
        jid: its id.
        timeout_s: seconds to wait at most; 0 looks once.
        client: as for `fetch_result`.

    Raises:
        JobFailed: it has ended without success: it is dead, or was discarded.
        ResultOmitted: it is done, but what it returned could not be kept.
        ResultTimeout: there is no result yet.
        PayloadError, RedisUnavailable, DecryptionFailed: as `fetch_result`.
    """
    return kept_results.wait(jid, client or default_client(), timeout_s)


async def aawait_result(jid: str, *, timeout_s: float = 30.0, client: Client | None = None) -> Any:
    """As `await_result`, without blocking the event loop; raises the same."""
    return await kept_results.await_(jid, client or default_client(), timeout_s)
