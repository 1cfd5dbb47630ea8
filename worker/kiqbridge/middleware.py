"""Chains of functions wrapped around a push or a job (protocol §5.4, §7.1, §15.5).

A middleware is a function whose last argument calls on to the rest of the chain. The first one
added is the outermost. One that does not call on stops the push, or skips the job.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

ClientMiddleware = Callable[
    [Any, dict[str, Any], str, Callable[[], dict[str, Any] | None]], dict[str, Any] | None
]
"""(job class or name, payload, queue, call_next) → the payload to push, or None to stop."""

ServerMiddleware = Callable[[Any, dict[str, Any], str, Callable[[], Any]], Any]
"""(job instance, payload, queue, call_next) → what the job returned."""

M = TypeVar("M", bound=Callable[..., Any])
R = TypeVar("R")


class Chain(Generic[M]):
    """An ordered set of middleware; adding one again moves it."""

    def __init__(self, *entries: M) -> None:
        self._entries: list[M] = list(entries)

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
        """Put at the end: innermost."""
        self.remove(entry)
        self._entries.append(entry)

    def prepend(self, entry: M) -> None:
        """Put at the front: outermost."""
        self.remove(entry)
        self._entries.insert(0, entry)

    def insert_before(self, anchor: M, entry: M) -> None:
        """Put right outside the anchor, or at the front when there is no such anchor."""
        self.remove(entry)
        index = self._entries.index(anchor) if anchor in self._entries else 0
        self._entries.insert(index, entry)

    def insert_after(self, anchor: M, entry: M) -> None:
        """Put right inside the anchor, or at the end when there is no such anchor."""
        self.remove(entry)
        index = self._entries.index(anchor) + 1 if anchor in self._entries else len(self)
        self._entries.insert(index, entry)

    def remove(self, entry: M) -> None:
        """Take out, if it is in."""
        if entry in self._entries:
            self._entries.remove(entry)

    def clear(self) -> None:
        """Take out all."""
        self._entries.clear()

    def invoke(self, args: tuple[Any, ...], final: Callable[[], R]) -> R | None:
        """Run the chain around `final` with the same arguments for each middleware."""
        call: Callable[[], Any] = final
        for entry in reversed(self._entries):
            call = _link(entry, args, call)
        result: R | None = call()
        return result


def _link(
    entry: Callable[..., Any], args: tuple[Any, ...], call_next: Callable[[], Any]
) -> Callable[[], Any]:
    return lambda: entry(*args, call_next)
