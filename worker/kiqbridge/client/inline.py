"""Running a job here and now, as if it had been enqueued and fetched (protocol §5.8).

1. Normalized, through client middleware, checked, and through JSON: what could not be enqueued fails here
   too.
2. What `@server.lifespan` declares is opened, unless this process has it open already, and closed after
   the job.
3. Through server middleware, within the `timeout_s` of its class, as a worker runs it: `async def` jobs on
   an event loop, all others on the calling thread (those of the process pool, too).

Redis is not asked, an error is the caller's, and there is no retry.
"""

import contextlib
import inspect
import threading
from collections.abc import Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from kiqbridge.client import rails
from kiqbridge.client.client import Client
from kiqbridge.client.current import INLINE
from kiqbridge.client.middleware import Chain, ServerMiddleware
from kiqbridge.client.prepare import prepare, text_of_payload
from kiqbridge.client.registry import JobDefinition, default_registry
from kiqbridge.client.sealing import arguments_in
from kiqbridge.client.server import LoopResources, ProcessResources, server
from kiqbridge.runtime.clock import client_now
from kiqbridge.wire import json_text

if TYPE_CHECKING:
    from kiqbridge.runtime.interruption import Timekeeper

_opening = threading.Lock()
_opened: "ProcessResources | None" = None
_users = 0
_timekeeper: "Timekeeper | None" = None


def perform(client: Client, item: Mapping[str, Any]) -> Any:
    """Run one job on the calling thread.

    Args:
        client: whose middleware, that of pushes and `server_middleware`, goes around it; the latter
            inside that of `kiqbridge.server`.
        item: as for `Client.push`; `at` is ignored.

    Returns:
        What the job returned, as it is; None when a middleware stopped it. Ruby's answers true (§5.8).

    Raises:
        PayloadError: as `Client.push`.
        JobNotFound: its class is not declared here.
        ArgumentMismatch: an argument, which middleware may have changed, does not fit.
        JobTimeout: it took longer than its `timeout_s`.
        Exception: what the job, or a resource while it was opened, raised.
    """
    payload = prepare_inline(client, item)
    if payload is None:
        return None
    definition = rails.require(payload, default_registry)
    chain = Chain(*server.middleware, *client.server_middleware)
    with _resources(), _current(payload):
        instance = definition.instantiate(payload["jid"])
        args = (instance, payload, payload["queue"])
        if definition.handling.pool == "async":
            return _run(_on_a_loop(definition, chain, args))
        returned = None

        def call() -> Any:
            nonlocal returned
            returned = _call(definition, instance, payload)
            return returned

        chain.invoke(args, call)
    return returned


@contextlib.contextmanager
def _current(payload: dict[str, Any]) -> Iterator[None]:
    """Within, this job runs here."""
    token = INLINE.set((payload, payload["queue"]))
    try:
        yield
    finally:
        INLINE.reset(token)


def prepare_inline(client: Client, item: Mapping[str, Any]) -> dict[str, Any] | None:
    """A payload as it would arrive, without Redis (§5.8); None when middleware stops it.

    Raises:
        PayloadError: as `push`.
    """
    job = prepare(item, client_now(), client.middleware, client.fleet_profile.without_redis)
    if job is None:
        return None
    text = text_of_payload(job.payload, client.max_payload_bytes)
    return cast("dict[str, Any]", json_text.loads(text))


def _call(definition: JobDefinition, instance: Any, payload: Mapping[str, Any]) -> Any:
    function, timeout_s = definition.perform_of(instance), definition.handling.timeout_s
    with contextlib.nullcontext() if timeout_s is None else limits().limit(timeout_s):
        return _finish(function(*arguments_in(payload, definition)))


async def _on_a_loop(
    definition: JobDefinition, chain: Chain[ServerMiddleware], args: tuple[Any, ...]
) -> Any:
    """What an `async def` job returned; it runs within its middleware, with the asynchronous resources open on this loop."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - most who only enqueue never need it

    from kiqbridge.runtime.interruption import limited  # noqa: PLC0415 - as above

    instance, payload, _queue = args
    returned = None

    async def call() -> Any:
        nonlocal returned
        running = definition.perform_of(instance)(*arguments_in(payload, definition))
        returned = await limited(running, definition.handling.timeout_s)
        return returned

    # For one more event loop.
    asynchronous = [each for each in server.resources if not each.is_open_for_all]
    async with LoopResources(asynchronous):
        if not len(chain):
            return await call()
        # Each change of kind in the chain takes one thread.
        with ThreadPoolExecutor(len(chain)) as executor:
            await chain.invoke_async(args, call, executor)
    return returned


@contextlib.contextmanager
def _resources() -> Iterator[None]:
    """Open what jobs share, unless this process, a worker say, has it open."""
    global _opened, _users  # noqa: PLW0603 - one set of resources for the process
    with _opening:
        is_open = any(each.is_open for each in server.resources)
        is_ours = bool(server.resources) and (_opened is not None or not is_open)
        if is_ours and _opened is None:
            opening = ProcessResources(server.resources)
            opening.open()
            _opened = opening
        _users += is_ours
    try:
        yield
    finally:
        with _opening:
            _users -= is_ours
            if is_ours and not _users and _opened is not None:
                closing, _opened = _opened, None
                closing.close()


def limits() -> "Timekeeper":
    """Ends jobs that take longer than their `timeout_s`; one thread for the process, started when it is needed."""
    global _timekeeper  # noqa: PLW0603 - it has a thread of its own
    if _timekeeper is None:
        from kiqbridge.runtime.interruption import Timekeeper  # noqa: PLC0415 - few jobs have a limit

        _timekeeper = Timekeeper(lambda: [each.origin for each in default_registry])
    return _timekeeper


def _finish(result: Any) -> Any:
    """What a plain function returned; a coroutine is waited for."""
    return _run(result) if inspect.iscoroutine(result) else result


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end, on a thread of its own where this one runs a loop already."""
    import asyncio  # noqa: PLC0415 - most who only enqueue never need it

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    import contextvars  # noqa: PLC0415 - as asyncio
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as asyncio

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(contextvars.copy_context().run, asyncio.run, coroutine).result()
