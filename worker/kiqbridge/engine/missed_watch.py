"""Who is notified of ticks that did not come, by the chores that find them."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kiqbridge.schedule.missed import MissedTick


class Hooks(Protocol):
    """Who is notified, of a feature."""

    def put(self, ticks: "Sequence[MissedTick]") -> None:
        """Notify of these, soon; returns at once."""

    def stop(self) -> None:
        """Wait a little for what is being sent."""


class MissedWatch:
    """Notifies of ticks that did not come; what does is loaded with the first one.

    Args:
        hooks: makes those who are notified; called at most once.

    Attributes:
        found: how many missed ticks this process has recorded.
    """

    def __init__(self, hooks: Callable[[], Iterable[Hooks]]) -> None:
        self._make_hooks = hooks
        self._hooks: Sequence[Hooks] | None = None
        self.found = 0

    def __repr__(self) -> str:
        return f"MissedWatch({self.found} found)"

    def stop(self) -> None:
        """Wait a little for notifications that are being sent."""
        for each in self._hooks or ():
            each.stop()

    def notify(self, ticks: "Sequence[MissedTick]") -> None:
        """Count ticks that are recorded as missed for the first time, and send them to the hooks."""
        self.found += len(ticks)
        if self._hooks is None:
            self._hooks = list(self._make_hooks())
        for each in self._hooks:
            each.put(ticks)
