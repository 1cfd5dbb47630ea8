"""What gets the pushes of this thread or task in place of Redis."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol


class Collector(Protocol):
    """Takes the pushes of a thread or task in place of Redis: a batch that is being made, or a call that is noted."""

    def takes_from(self, client: object) -> bool:
        """Whether it takes what is pushed through this `Client`."""

    def push(self, item: Mapping[str, Any]) -> str | None:
        """As `Client.push`."""

    def push_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        """As `Client.push_bulk`."""


COLLECTOR: ContextVar[Collector | None] = ContextVar("kiqbridge_collector", default=None)
"""None: pushes go to Redis."""


def collector_of(client: object) -> Collector | None:
    """Who gets the pushes of this client here; None: Redis."""
    collector = COLLECTOR.get()
    return collector if collector is not None and collector.takes_from(client) else None
