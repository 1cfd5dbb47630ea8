"""Who does the chores of the features."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kiqbridge.client.client import Client
    from kiqbridge.config.config import Config
    from kiqbridge.schedule.missed import MissedTick


class Host(Protocol):
    """A worker's `EngineParts`, or an invocation of a function."""

    @property
    def client(self) -> "Client":
        """What pushes there."""

    @property
    def by(self) -> str:
        """Who it is, for ledgers, such as `worker:IDENTITY`."""

    @property
    def config(self) -> "Config | None":
        """The settings of a worker; None: it is a function."""

    @property
    def notify(self) -> "Callable[[Sequence[MissedTick]], object]":
        """To be called with ticks that were not known as missed."""
