"""Chains of functions wrapped around a push or a job, and what gets pushes in place of Redis (protocol §5.4, §7.1, §15.5).

A middleware is a function whose last argument calls on to the rest of the chain. The first one
added is the outermost. One that does not call on stops the push, or skips the job.

It may be `async def`, and then awaits what `call_next` returns. Either kind goes around either kind
of job; where they differ the call crosses threads (bridge.py), which costs some 100 µs and, for plain
middleware around an `async def` job, a thread while the job runs; adjacent plain ones share it. An object that is callable and has
an `async def call_async` with the same arguments is of both kinds, and nothing crosses.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kiqbridge.runtime.user_code import is_async, link

if TYPE_CHECKING:
    from concurrent.futures import Executor

ClientMiddleware = Callable[
    [Any, dict[str, Any], str, Callable[[], dict[str, Any] | None]], dict[str, Any] | None
]
"""(job class or name, payload, queue, call_next) → the payload to push, or None to stop."""

ServerMiddleware = Callable[[Any, dict[str, Any], str, Callable[[], Any]], Any]
"""(job instance, payload, queue, call_next) → what the job returned."""

M = TypeVar("M", bound=Callable[..., Any])
R = TypeVar("R")


class AroundJob:
    """Server middleware that runs each job, plain or `async def`, within a context manager."""

    def within(self, payload: dict[str, Any], queue: str) -> AbstractContextManager[object]:
        """What is open while the job runs."""
        raise NotImplementedError

    def __call__(
        self, _job: Any, payload: dict[str, Any], queue: str, call_next: Callable[[], Any]
    ) -> Any:
        """Around a plain job."""
        with self.within(payload, queue):
            return call_next()

    async def call_async(
        self, _job: Any, payload: dict[str, Any], queue: str, call_next: Callable[[], Any]
    ) -> Any:
        """Around an `async def` job."""
        with self.within(payload, queue):
            return await call_next()


class Chain(Generic[M]):
    """An ordered set of middleware; adding one again moves it."""

    def __init__(self, *entries: M) -> None:
        self._entries: list[M] = list(entries)
        self._classify()

    def __iter__(self) -> Iterator[M]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        names = ", ".join(getattr(entry, "__qualname__", repr(entry)) for entry in self._entries)
        return f"Chain({names})"

    def copy(self) -> "Chain[M]":
        """A chain with the same entries that can be changed on its own."""
        return Chain(*self._entries)

    def add(self, entry: M) -> None:
        """Add an entry at the end: innermost."""
        self._put(entry, lambda: len(self))

    def prepend(self, entry: M) -> None:
        """Add an entry at the front: outermost."""
        self._put(entry, lambda: 0)

    def insert_before(self, anchor: M, entry: M) -> None:
        """Add an entry directly outside the anchor, or at the front without such an anchor."""
        self._put(entry, lambda: self._entries.index(anchor) if anchor in self._entries else 0)

    def insert_after(self, anchor: M, entry: M) -> None:
        """Add an entry directly inside the anchor, or at the end without such an anchor."""
        self._put(
            entry, lambda: self._entries.index(anchor) + 1 if anchor in self._entries else len(self)
        )

    def _put(self, entry: M, place: Callable[[], int]) -> None:
        self.remove(entry)
        self._entries.insert(place(), entry)
        self._classify()

    def remove(self, entry: M) -> None:
        """Remove an entry, if it is in the chain."""
        if entry in self._entries:
            self._entries.remove(entry)
            self._classify()

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._classify()

    def invoke(self, args: tuple[Any, ...], final: Callable[[], R]) -> R | None:
        """Run the chain around `final` with the same arguments for each middleware."""
        if self.is_partly_async:
            from kiqbridge.client import bridge  # noqa: PLC0415 - brings asyncio, which few pushes need

            outcome: R | None = bridge.invoke(self._entries, args, final)
            return outcome
        call: Callable[[], Any] = final
        for entry in reversed(self._entries):
            call = link(entry, args, call)
        result: R | None = call()
        return result

    async def invoke_async(
        self, args: tuple[Any, ...], final: Callable[[], Awaitable[R]], executor: "Executor"
    ) -> R | None:
        """Run the chain around a coroutine; `executor` lends threads to plain entries."""
        from kiqbridge.client import bridge  # noqa: PLC0415 - as in invoke

        outcome: R | None = await bridge.invoke_async(self._entries, args, final, executor)
        return outcome

    def _classify(self) -> None:
        self.is_partly_async = any(is_async(entry) for entry in self._entries)


class Collector(Protocol):
    """Takes the pushes of a thread or task in place of Redis: a batch that is being made, or a call that is noted."""

    def takes_from(self, client: object) -> bool:
        """Whether it takes what is pushed through this `Client`."""

    def push(self, item: Mapping[str, Any]) -> str | None:
        """Enqueue a job; takes, returns and raises what `Client.push` does."""

    def push_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        """Enqueue many jobs; takes, returns and raises what `Client.push_bulk` does."""


COLLECTOR: ContextVar[Collector | None] = ContextVar("kiqbridge_collector", default=None)
"""None: pushes go to Redis."""


def collector_of(client: object) -> Collector | None:
    """Who gets the pushes of this client here; None: Redis."""
    collector = COLLECTOR.get()
    return collector if collector is not None and collector.takes_from(client) else None
