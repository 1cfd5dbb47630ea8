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

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, TypeVar

from kiqbridge.client.lifecycle import Event, Events, L
from kiqbridge.client.middleware import Chain, ClientMiddleware, ServerMiddleware
from kiqbridge.errors import ConfigError
from kiqbridge.records import dataclass
from kiqbridge.wire.queues import parse_queue

ErrorHandler = Callable[[BaseException, Mapping[str, Any]], object]
"""(error, context): `context` says what happened, under `context`, `job` and, unparsed, `jobstr`."""

DeathHandler = Callable[[Mapping[str, Any], BaseException], object]
"""(payload, error) of a job that is given up: dead, or dropped."""

MissedTickHandler = Callable[[Any], object]
"""(tick) that did not come: a `kiqbridge.clocks.missed.MissedTick`."""

BacktraceCleaner = Callable[[list[str]], list[str]]
"""Lines of a backtrace, innermost first → those to keep (§8.6)."""

T = TypeVar("T")
E = TypeVar("E", bound=ErrorHandler)
D = TypeVar("D", bound=DeathHandler)
M = TypeVar("M", bound=MissedTickHandler)

_MISSING: Any = object()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleSetup:
    """A capsule declared in code: queues with weights (0 = none) and how many jobs run at once."""

    name: str
    queues: tuple[tuple[str, int], ...]
    concurrency: int
    middleware: Chain[ServerMiddleware] | None


class Server:
    """See the module.

    Attributes:
        middleware: around each job.
        client_middleware: around each push of the worker, also when it moves a scheduled job.
        backtrace_cleaner: applied before a backtrace is kept with a failed job.
        error_handlers, death_handlers: called in order; their own errors are logged.
        missed_tick_handlers: called with ticks of schedules that did not come; likewise.
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
        """
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
