"""Running a job here and now, as if it had been enqueued and fetched (protocol §5.8).

Normalized, through client middleware, checked, through JSON, then through server middleware: what
could not be enqueued fails here too. Redis is not asked, an error is the caller's, and there is no
retry.
"""

import inspect
from collections.abc import Coroutine, Mapping
from typing import Any, Literal

from kiqbridge.client import Client
from kiqbridge.registry import default_registry


def perform(client: Client, item: Mapping[str, Any]) -> Literal[True] | None:
    """Run one job on the calling thread.

    Args:
        client: whose middleware, that of pushes and `server_middleware`, goes around it.
        item: as for `Client.push`; `at` is ignored.

    Returns:
        True, or None when a middleware stopped it.

    Raises:
        PayloadError: as `Client.push`.
        JobNotFound: its class is not declared here.
    """
    payload = client.prepare_inline(item)
    if payload is None:
        return None
    definition = default_registry.require(payload["class"])
    instance = definition.instantiate(payload["jid"])

    def call() -> Literal[True]:
        result = definition.perform_of(instance)(*payload["args"])
        if inspect.iscoroutine(result):
            _finish(result)
        return True

    passed = client.server_middleware.invoke((instance, payload, payload["queue"]), call)
    return True if passed else None


def _finish(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Run a coroutine to its end, on a thread of its own where this one runs a loop already."""
    import asyncio  # noqa: PLC0415 - most who only enqueue never need it

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(coroutine)
        return
    import contextvars  # noqa: PLC0415 - as asyncio
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as asyncio

    with ThreadPoolExecutor(1) as thread:
        thread.submit(contextvars.copy_context().run, asyncio.run, coroutine).result()
