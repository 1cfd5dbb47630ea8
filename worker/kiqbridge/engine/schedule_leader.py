"""The thread that keeps the schedules while this process leads the fleet.

Each step has its own interval: `ScheduleStep("missed ticks", 10.0, watch.step)` is called every ten seconds.
The leader is the poller's (poller.py), so that this costs no look-up of its own. Two processes may lead for a
moment: a step changes Redis only by scripts that claim what they enqueue.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kiqbridge.client.client import Client
from kiqbridge.runtime import threads
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.role import Role, Until
from kiqbridge.store.redis_connection import RedisConnection

if TYPE_CHECKING:
    from kiqbridge.clocks.hooks import MissedTickHooks
    from kiqbridge.clocks.missed import MissedTick

LOOK_S = 0.5
"""How often it is looked whether a step is due."""

JOIN_S = 5.0

MISSED_EVERY_S: Final = 15.0
"""Seconds from one check of ticks to the next; a tick is missing after its grace time, which is minutes."""


@dataclass(frozen=True, slots=True)
class ScheduleStep:
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


class ScheduleLeader(Role):
    """Calls the steps that are due, one after the other, while this process leads.

    Args:
        steps: gives what is to be called, in this order; called once, by the thread, so that a worker performs its
            first job before the code of schedules is loaded.
        connection: for this thread alone.
        leads: whether this process leads.
        monotonic: seconds, for the intervals.
    """

    def __init__(
        self,
        steps: Callable[[], Sequence[ScheduleStep]],
        *,
        connection: RedisConnection,
        leads: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("schedules", self._lead, until=Until.QUIET, join_s=JOIN_S)
        self._make_steps = steps
        self._steps: Sequence[ScheduleStep] | None = None
        self._connection = connection
        self._leads = leads
        self._monotonic = monotonic
        self._due_at: dict[str, float] = {}

    def run_due(self) -> None:
        """Call the steps that are due; those of the leader if this process leads. At first all are."""
        if self._steps is None:
            self._steps = self._make_steps()
        leads = self._leads()
        for step in self._steps:
            if not leads and not step.always:
                self._due_at.pop(step.name, None)
                continue
            now = self._monotonic()
            if now < self._due_at.get(step.name, now) or self._stopping.is_set():
                continue
            threads.beat()
            self._due_at[step.name] = now + step.every_s
            self.tried(partial(step.call, self._connection), f"schedules: {step.name}")

    def _lead(self) -> None:
        while not self._stopping.wait(LOOK_S):
            threads.beat()
            self.run_due()


class MissedWatch:
    """Looks for ticks that do not come (clocks/missed.py) while this process leads, and notifies of them.

    What reads schedules, and what notifies, is loaded by the first check, or never: a worker starts the sooner.

    Args:
        client: enqueues what the policy of a schedule asks for.
        identity: of this process.
        hooks: makes what notifies; called at most once, with the first missed tick.

    Attributes:
        found: how many missed ticks this process has recorded.
    """

    def __init__(
        self, client: Client, *, identity: str, hooks: Callable[[], "MissedTickHooks"]
    ) -> None:
        self._client = client
        self._by = f"worker:{identity}"
        self._make_hooks = hooks
        self._hooks: MissedTickHooks | None = None
        self.found = 0

    def __repr__(self) -> str:
        return f"MissedWatch({self.found} found)"

    @property
    def step(self) -> ScheduleStep:
        """For the leader."""
        return ScheduleStep("missed ticks", MISSED_EVERY_S, self.check)

    def check(self, connection: RedisConnection) -> None:
        """Look once.

        Raises:
            RedisUnavailable, RedisRefused: it is done by the next look.
        """
        from kiqbridge.clocks.missed import check_missed  # noqa: PLC0415 - see above

        check_missed(connection, self._client.keys, self._client, by=self._by, notify=self.notify)

    def stop(self) -> None:
        """Wait a little for notifications that are being sent."""
        if self._hooks is not None:
            self._hooks.stop()

    def notify(self, ticks: "Sequence[MissedTick]") -> None:
        """Count ticks that are recorded as missed for the first time, and send them to the hooks."""
        self.found += len(ticks)
        if self._hooks is None:
            self._hooks = self._make_hooks()
        self._hooks.put(ticks)
