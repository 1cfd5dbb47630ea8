"""What jobs run with, declared beside them: middleware, events, handlers, resources, capsules.

The counterpart of Sidekiq's `configure_server`. A process that only enqueues ignores it.

    from kiqbridge import server

    @server.on("startup")
    def warm_up() -> None: ...

    @server.lifespan
    @contextmanager
    def database() -> Iterator[Pool]: ...      # opened once per process; in a job: database.value

    server.middleware.add(timing)
    server.capsule("single", queues=["single"], concurrency=1)
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
)
from typing import Any, Generic, Literal, TypeVar, get_args

from kiqbridge import seams
from kiqbridge.client.middleware import Chain, ClientMiddleware, ServerMiddleware
from kiqbridge.errors import ConfigError
from kiqbridge.runtime import user_code
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.threads import BoundedCall
from kiqbridge.wire.queues import parse_queue

logger = logging.getLogger(__name__)

Event = Literal["startup", "quiet", "shutdown", "exit", "heartbeat", "beat"]
Listener = Callable[[], object]

EVENTS: tuple[str, ...] = get_args(Event)
_REVERSED = ("quiet", "shutdown", "exit")

ErrorHandler = Callable[[BaseException, Mapping[str, Any]], object]
"""(error, context): `context` says what happened, under `context`, `job` and, unparsed, `jobstr`."""

DeathHandler = Callable[[Mapping[str, Any], BaseException], object]
"""(payload, error) of a job that is given up: dead, or dropped."""

MissedTickHandler = Callable[[Any], object]
"""(tick) that did not come: a `kiqbridge.schedule.missed.MissedTick`."""

BacktraceCleaner = Callable[[list[str]], list[str]]
"""Lines of a backtrace, innermost first → those to keep (§8.6)."""

T = TypeVar("T")
L = TypeVar("L", bound=Listener)
E = TypeVar("E", bound=ErrorHandler)
D = TypeVar("D", bound=DeathHandler)
M = TypeVar("M", bound=MissedTickHandler)

_MISSING: Any = object()


class Events:
    """Listeners by event (protocol §14.1).

    - startup: after the code is loaded, before any thread takes jobs; an error ends the start.
    - quiet: no new jobs are taken from now on.
    - shutdown: the process begins to stop.
    - exit: all is stopped and signed off.
    - heartbeat: the first beat, or the first one after an outage.
    - beat: every beat.
    """

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {name: [] for name in EVENTS}
        self._calling: dict[str, Listener] = {}

    def copy(self) -> "Events":
        """A copy with the same listeners, which are then called independently."""
        copied = Events()
        for name, listeners in self._listeners.items():
            copied._listeners[name] = list(listeners)
        return copied

    def add(self, event: Event, listener: Listener) -> None:
        """Listen to an event.

        Raises:
            ConfigError: there is no such event.
        """
        if event not in self._listeners:
            raise ConfigError(f"on: {event!r} is no event; events are {', '.join(EVENTS)}")
        self._listeners[event].append(listener)

    def fire_aside(self, event: Event) -> Callable[[float], bool]:
        """Call the listeners on a thread of their own, so that none of them delays the end of the process.

        Returns:
            Waits until all have been called, at most so many seconds; if it takes longer, the log says which one hangs.
        """
        call = BoundedCall(f"kiqbridge-{event}", lambda: self.fire(event))

        def wait(within_s: float) -> bool:
            has_ended = call.wait(within_s)
            if not has_ended:
                logger.warning(
                    "a listener to %s has not returned for %.1f s: %s. The process continues without it; "
                    "listeners that come after it are called if it returns in time",
                    event,
                    within_s,
                    user_code.name_of(self._calling.get(event)),
                )
            return has_ended

        return wait

    def fire(self, event: Event, *, raising: bool = False) -> None:
        """Call the listeners: in order, and in reverse for quiet, shutdown and exit.

        Each is called once in the life of a process, except those of `beat`. Errors are logged, or
        with `raising` end it.
        """
        listeners = list(self._listeners[event])
        if event != "beat":
            self._listeners[event].clear()
        for listener in reversed(listeners) if event in _REVERSED else listeners:
            self._calling[event] = listener
            if raising:
                listener()
            else:
                user_code.call(listener, log=logger, failed=f"a listener to {event} failed")


class Resource(Generic[T]):
    """Something that is open while the worker runs."""

    def __init__(
        self, opener: Callable[[], AbstractContextManager[T] | AbstractAsyncContextManager[T]]
    ) -> None:
        self.opener = opener
        self._values: dict[int | None, Any] = {}

    def __repr__(self) -> str:
        return f"<resource {self.name}, {'open' if self._values else 'closed'}>"

    @property
    def name(self) -> str:
        """How messages call it."""
        return getattr(self.opener, "__qualname__", repr(self.opener))

    @property
    def is_open(self) -> bool:
        """Whether it is open anywhere in this process."""
        return bool(self._values)

    @property
    def is_open_for_all(self) -> bool:
        """Whether it is open for all threads, as that of a plain context manager is."""
        return None in self._values

    @property
    def value(self) -> T:
        """What the context manager yielded; an asynchronous one's is that of the running loop.

        Raises:
            ConfigError: it is not open: this is no worker, or no coroutine of the loop.
        """
        values = self._values
        found = values.get(None, _MISSING)
        if found is _MISSING and values:
            found = values.get(_loop_id(), _MISSING)
        if found is _MISSING:
            raise ConfigError(
                f"resource {self.name}: is not open here; a worker opens it, and an asynchronous one "
                "is for `async def` jobs"
            )
        value: T = found
        return value

    def opened(self, value: T, loop: object = None) -> None:
        """Called by the worker when it is open; `loop` is that of an asynchronous one."""
        self._values[None if loop is None else id(loop)] = value

    def closed(self, loop: object = None) -> None:
        """Called by the worker before it is closed."""
        self._values.pop(None if loop is None else id(loop), None)


class ProcessResources:
    """The resources of plain context managers; open for all threads."""

    def __init__(self, resources: Sequence[Resource[Any]]) -> None:
        self._stack = ExitStack()
        self._resources = resources
        self.asynchronous: list[Resource[Any]] = []

    def open(self) -> None:
        """Open in the order of declaration.

        Raises:
            Exception: whatever a context manager raised; what was open is closed.
            ConfigError: what is declared is no context manager.
        """
        with ExitStack() as opening:
            for resource in self._resources:
                manager = resource.opener()
                if isinstance(manager, AbstractContextManager):
                    resource.opened(opening.enter_context(manager))
                    opening.callback(resource.closed)
                elif isinstance(manager, AbstractAsyncContextManager):
                    self.asynchronous.append(resource)
                else:
                    raise ConfigError(
                        f"lifespan {resource.name}: gives {type(manager).__name__}, no context manager; "
                        "put @contextmanager or @asynccontextmanager on it"
                    )
            self._stack = opening.pop_all()

    def close(self) -> None:
        """Close in reverse order."""
        self._stack.close()

    def for_loop(self) -> "LoopResources":
        """The resources that are to be opened on one event loop."""
        return LoopResources(self.asynchronous)


class LoopResources:
    """The resources of asynchronous context managers on one event loop, itself such a manager."""

    def __init__(self, resources: Sequence[Resource[Any]]) -> None:
        self._resources = resources
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> None:
        import asyncio  # noqa: PLC0415 - as in `_loop_id`

        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as opening:
            for resource in self._resources:
                manager: Any = resource.opener()
                resource.opened(await opening.enter_async_context(manager), loop)
                opening.callback(resource.closed, loop)
            self._stack = opening.pop_all()

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleSetup:
    """A capsule declared in code: queues with weights (0 = none) and how many jobs run at once."""

    name: str
    queues: tuple[tuple[str, int], ...]
    concurrency: int
    middleware: Chain[ServerMiddleware] | None


class Server:
    """The configuration of a worker in code: the counterpart of Sidekiq's `configure_server`.

    Attributes:
        middleware: around each job.
        client_middleware: around each push of the worker, also when it moves a scheduled job.
        backtrace_cleaner: applied before a backtrace is kept with a failed job.
        error_handlers, death_handlers: called in order; their own errors are logged.
        missed_tick_handlers: called with missed ticks of schedules; likewise.
        events: see `on`.
        resources: see `lifespan`.
        capsules: see `capsule`.
    """

    def __init__(self) -> None:
        self.middleware: Chain[ServerMiddleware] = Chain()
        self.client_middleware: Chain[ClientMiddleware] = Chain()
        self.backtrace_cleaner: BacktraceCleaner | None = None
        self.error_handlers: list[ErrorHandler] = []
        self.death_handlers: list[DeathHandler] = []
        self.missed_tick_handlers: list[MissedTickHandler] = []
        self.events = Events()
        self.resources: list[Resource[Any]] = []
        self.capsules: dict[str, CapsuleSetup] = {}

    def on(self, event: Event) -> Callable[[L], L]:
        """Listen to an event; see `lifecycle.Events`.

        Raises:
            ConfigError: there is no such event.
        """

        def listen(listener: L) -> L:
            self.events.add(event, listener)
            return listener

        return listen

    def error_handler(self, handler: E) -> E:
        """Call this with each error, that of a job or of the worker itself; usable as a decorator."""
        self.error_handlers.append(handler)
        return handler

    def death_handler(self, handler: D) -> D:
        """Call this with each job that is given up; usable as a decorator."""
        self.death_handlers.append(handler)
        return handler

    def missed_tick_handler(self, handler: M) -> M:
        """Call this with each `MissedTick` that this process finds while it leads the fleet; a decorator too.

        It has `schedule`, `at` (epoch seconds), `instant` (ISO 8601), `late_s`, `policy` and `enqueued`.

        Raises:
            ConfigError: the feature that calls it is not here.
        """
        if seams.named("missed_ticks") is None:
            raise ConfigError(
                "missed_tick_handler: it needs the feature missed_ticks, which is not here; remove the handler"
            )
        self.missed_tick_handlers.append(handler)
        return handler

    def lifespan(
        self, opener: Callable[[], AbstractContextManager[T] | AbstractAsyncContextManager[T]]
    ) -> Resource[T]:
        """Open a context manager once per process before jobs run, and close it after the last.

        An asynchronous one is opened once on each event loop. Usable as a decorator above
        `@contextmanager` or `@asynccontextmanager`. An error while opening ends the start.
        """
        resource: Resource[T] = Resource(opener)
        self.resources.append(resource)
        return resource

    def capsule(
        self,
        name: str,
        *,
        queues: Sequence[str | tuple[str, int]],
        concurrency: int = 1,
        middleware: Chain[ServerMiddleware] | None = None,
    ) -> None:
        """Add a capsule: queues with threads of their own in the same process (§15.4).

        Args:
            name: any text but `default`, which the settings describe.
            queues: names, `name,weight` or pairs.
            concurrency: how many jobs run at once.
            middleware: around its jobs; default: a copy of `Server.middleware`.

        Raises:
            ConfigError: a wrong value, or the name is taken.
        """
        source = f"capsule {name}"
        if not name or name == "default" or name in self.capsules:
            raise ConfigError(
                f"capsule {name!r}: is taken or empty; `default` is described by the settings"
            )
        if type(concurrency) is not int or concurrency < 1:
            raise ConfigError(f"{source}: concurrency {concurrency!r} is not a whole number from 1")
        parsed = tuple(
            parse_queue(
                queue if isinstance(queue, str) else f"{queue[0]},{queue[1]}", source=source
            )
            for queue in queues
        )
        if isinstance(queues, str) or not parsed:
            raise ConfigError(f"{source}: queues {queues!r} is not a list of queue names")
        self.capsules[name] = CapsuleSetup(
            name=name, queues=parsed, concurrency=concurrency, middleware=middleware
        )


server = Server()
"""What `kiqbridge worker` runs with, filled by the code that -r loads."""


def _loop_id() -> int | None:
    import asyncio  # noqa: PLC0415 - most who only enqueue never need it

    try:
        return id(asyncio.get_running_loop())
    except RuntimeError:
        return None
