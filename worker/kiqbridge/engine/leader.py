"""The thread that does the chores of the fleet while this process leads it, and those of each worker.

Each has its own interval: `Chore("missed ticks", 15.0, …)` is done every 15 seconds. The leader is the poller's
(poller.py), so that this costs no look-up of its own. Two processes may lead for a moment.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from kiqbridge.feature import Chore, Feature
from kiqbridge.runtime import threads
from kiqbridge.runtime.role import Role, Until
from kiqbridge.store.redis_connection import RedisConnection

LOOK_S = 0.5
"""How often it is looked whether a chore is due."""

JOIN_S = 5.0

OF_THE_KERNEL: Final = Feature(
    package=__package__,
    chores=[
        Chore("removing processes that are gone", 60.0, "chores:remove_processes"),
        Chore("removing guards and ledgers that are over", 60.0, "chores:forget"),
        Chore(
            "looking for jobs in flight of processes that are not registered",
            3.0,
            "chores:watch_unregistered",
        ),
        Chore("rights", 15.0, "chores:look_at_rights", where=("worker",)),
    ],
)
"""What no feature brings."""

Made = tuple[Chore, Callable[[RedisConnection], object]]
"""A chore, and what does it."""


class Leader(Role):
    """Does the chores that are due, one after the other, while this process leads.

    Args:
        chores: gives what is to be done, in this order; called once, by the thread, so that a worker performs its
            first job before the code of schedules is loaded.
        connection: for this thread alone.
        leads: whether this process leads.
        monotonic: seconds, for the intervals.
    """

    def __init__(
        self,
        chores: Callable[[], Iterable[Made]],
        *,
        connection: RedisConnection,
        leads: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("chores", self._lead, until=Until.QUIET, join_s=JOIN_S)
        self._make_chores = chores
        self._chores: Sequence[Made] | None = None
        self._connection = connection
        self._leads = leads
        self._monotonic = monotonic
        self._due_at: dict[str, float] = {}

    def run_due(self) -> None:
        """Do the chores that are due; those of the leader if this process leads. At first all are."""
        if self._chores is None:
            self._chores = list(self._make_chores())
        leads = self._leads()
        for chore, call in self._chores:
            if not leads and "worker" not in chore.where:
                self._due_at.pop(chore.name, None)
                continue
            now = self._monotonic()
            if now < self._due_at.get(chore.name, now) or self._stopping.is_set():
                continue
            threads.beat()
            self._due_at[chore.name] = now + chore.every_s
            self.tried(partial(call, self._connection), f"chores: {chore.name}")

    def _lead(self) -> None:
        while not self._stopping.wait(LOOK_S):
            threads.beat()
            self.run_due()
