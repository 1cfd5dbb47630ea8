"""The chore that looks for ticks that do not come."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kiqbridge.client.client import Client
from kiqbridge.engine.leader import Chore
from kiqbridge.store.redis_connection import RedisConnection

if TYPE_CHECKING:
    from kiqbridge.clocks.missed import MissedTick

MISSED_EVERY_S: Final = 15.0
"""Seconds from one check of ticks to the next; a tick is missing after its grace time, which is minutes."""


class Hooks(Protocol):
    """Who is notified, of a feature."""

    def put(self, ticks: "Sequence[MissedTick]") -> None:
        """Notify of these, soon; returns at once."""

    def stop(self) -> None:
        """Wait a little for what is being sent."""


class MissedWatch:
    """Looks for ticks that do not come (clocks/missed.py) while this process leads, and notifies of them.

    What reads schedules, and what notifies, is loaded by the first check, or never: a worker starts the sooner.

    Args:
        client: enqueues what the policy of a schedule asks for.
        identity: of this process.
        hooks: makes those who are notified; called at most once, with the first missed tick.

    Attributes:
        found: how many missed ticks this process has recorded.
    """

    def __init__(
        self, client: Client, *, identity: str, hooks: Callable[[], Iterable[Hooks]]
    ) -> None:
        self._client = client
        self._by = f"worker:{identity}"
        self._make_hooks = hooks
        self._hooks: Sequence[Hooks] | None = None
        self.found = 0

    def __repr__(self) -> str:
        return f"MissedWatch({self.found} found)"

    @property
    def chore(self) -> Chore:
        """For the leader."""
        return Chore("missed ticks", MISSED_EVERY_S, self.check)

    def check(self, connection: RedisConnection) -> None:
        """Look once.

        Raises:
            RedisUnavailable, RedisRefused: it is done by the next look.
        """
        from kiqbridge.clocks.missed import check_missed  # noqa: PLC0415 - see above

        check_missed(connection, self._client.keys, self._client, by=self._by, notify=self.notify)

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
