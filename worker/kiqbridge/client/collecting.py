"""Who gets the pushes of this thread or task in place of Redis: a batch that is being made, or a call that is noted.

A context variable, so that what other threads push meanwhile goes to Redis as ever.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kiqbridge.client.client import Client


class Collector(Protocol):
    """Takes jobs that are being pushed."""

    def takes_from(self, client: "Client") -> bool:
        """Whether it takes what is pushed through this client."""

    def push(self, item: Mapping[str, Any]) -> str | None:
        """As `Client.push`."""

    def push_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        """As `Client.push_bulk`."""


COLLECTOR: ContextVar[Collector | None] = ContextVar("kiqbridge_collector", default=None)
"""None: pushes go to Redis."""


def collector_of(client: "Client") -> Collector | None:
    """Who gets the pushes of this client here; None: Redis."""
    collector = COLLECTOR.get()
    return collector if collector is not None and collector.takes_from(client) else None
