"""The thread that does the chores of the fleet while this process leads it.

Each chore has its own interval: `Chore("missed ticks", 10.0, watch.check)` is done every ten seconds. The leader is the
poller's (poller.py), so that this costs no look-up of its own. Two processes may lead for a moment: a chore changes
Redis only by scripts that claim what they enqueue.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial

from kiqbridge.runtime import threads
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.role import Role, Until
from kiqbridge.store.redis_connection import RedisConnection

LOOK_S = 0.5
"""How often it is looked whether a chore is due."""

JOIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Chore:
    """What the leader does again and again.

    Attributes:
        name: as in the log.
        every_s: seconds from one call to the next.
        call: does it, on the connection that it is given; after an error it is called again.
        always: also while another process leads.
    """

    name: str
    every_s: float
    call: Callable[[RedisConnection], object]
    always: bool = False


class Leader(Role):
    """Does the chores that are due, one after the other, while this process leads.

    Args:
        chores: gives what is to be called, in this order; called once, by the thread, so that a worker performs its
            first job before the code of schedules is loaded.
        connection: for this thread alone.
        leads: whether this process leads.
        monotonic: seconds, for the intervals.
    """

    def __init__(
        self,
        chores: Callable[[], Sequence[Chore]],
        *,
        connection: RedisConnection,
        leads: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("schedules", self._lead, until=Until.QUIET, join_s=JOIN_S)
        self._make_chores = chores
        self._chores: Sequence[Chore] | None = None
        self._connection = connection
        self._leads = leads
        self._monotonic = monotonic
        self._due_at: dict[str, float] = {}

    def run_due(self) -> None:
        """Do the chores that are due; those of the leader if this process leads. At first all are."""
        if self._chores is None:
            self._chores = self._make_chores()
        leads = self._leads()
        for chore in self._chores:
            if not leads and not chore.always:
                self._due_at.pop(chore.name, None)
                continue
            now = self._monotonic()
            if now < self._due_at.get(chore.name, now) or self._stopping.is_set():
                continue
            threads.beat()
            self._due_at[chore.name] = now + chore.every_s
            self.tried(partial(chore.call, self._connection), f"schedules: {chore.name}")

    def _lead(self) -> None:
        while not self._stopping.wait(LOOK_S):
            threads.beat()
            self.run_due()
