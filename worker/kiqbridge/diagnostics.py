"""How a worker process is: the status that `kiqbridge health` reads, and where its threads are."""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kiqbridge import frames
from kiqbridge.ages import Ages
from kiqbridge.clock import lease_now
from kiqbridge.lease import LeaseKeeper
from kiqbridge.status import Status

if TYPE_CHECKING:
    from kiqbridge.heartbeat import Heartbeat
    from kiqbridge.liveness import Monitor
    from kiqbridge.reservations import Reservations

logger = logging.getLogger(__name__)


class Living(Protocol):
    """A thread that should run."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""


@runtime_checkable
class Restarts(Living, Protocol):
    """A thread that can be started anew after it has ended, and then goes on from its state."""

    def restart(self) -> None:
        """Start it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """How far the life of a process has come; each event is set once."""

    running: threading.Event
    quiet: threading.Event
    stopping: threading.Event

    def __str__(self) -> str:
        if self.stopping.is_set():
            return "stopping"
        if not self.running.is_set():
            return "starting"
        return "quiet" if self.quiet.is_set() else "running"


class Diagnostics:
    """Looks at the parts of a process.

    Args:
        identity: HOST:PID:NONCE.
        beat_s: seconds between two heartbeats.
        stuck_after_s: seconds after which a thread counts as stuck.
        start_period_s: seconds in which Redis need not have been reached.
        supervisor: the pid of the process that starts this one again.
        phase: of this process.
        keeper: who holds its lease.
        busy: how many jobs run now.
        ages: how old they and others are.
        takers: threads by name that end once the process is quiet.
        others: threads by name that end when it stops.

    Attributes:
        heartbeat: once there is one.
        monitor: who looks whether the threads get on.
        reservations: who takes jobs away that run for too long.
        concurrency: jobs that can run at once.
        has_reached_redis: another process of the same supervisor has reached it.
    """

    def __init__(
        self,
        *,
        identity: str,
        beat_s: float,
        stuck_after_s: float,
        start_period_s: float,
        supervisor: int | None,
        phase: Phase,
        keeper: LeaseKeeper,
        busy: Callable[[], int],
        ages: Callable[[], Ages],
        takers: Callable[[], Iterable[tuple[str, Living]]],
        others: Callable[[], Iterable[tuple[str, Living]]],
    ) -> None:
        self.heartbeat: Heartbeat | None = None
        self.monitor: Monitor | None = None
        self.reservations: Reservations | None = None
        self.concurrency = 0
        self.has_reached_redis = False
        self._started_at = lease_now()
        self._start_period_s = start_period_s
        self._identity = identity
        self._beat_s = beat_s
        self._stuck_after_s = stuck_after_s
        self._supervisor = supervisor
        self._phase = phase
        self._keeper = keeper
        self._busy = busy
        self._ages = ages
        self._takers = takers
        self._others = others

    def status(self) -> Status:
        """The process as it is now."""
        monitor = self.monitor
        return Status(
            identity=self._identity,
            pid=os.getpid(),
            state=str(self._phase),
            written_at=lease_now(),
            heartbeat_at=self.heartbeat.taken_at if self.heartbeat else None,
            beat_s=self._beat_s,
            is_leased=not self._keeper.current.in_doubt(),
            ended_threads=self.ended_threads(),
            stuck_threads=[each.name for each in monitor.stuck] if monitor else [],
            stuck_after_s=self._stuck_after_s,
            is_wedged=monitor is not None and monitor.is_wedged,
            overran=self.reservations.overran if self.reservations else 0,
            lost_threads=self.reservations.lost if self.reservations else 0,
            restarted_threads=monitor.revived if monitor else 0,
            ages=asdict(self._ages()),
            busy=self._busy(),
            concurrency=self.concurrency,
            started_at=self._started_at,
            start_period_s=self._start_period_s,
            has_reached_redis=self.has_reached_redis or self._keeper.has_registered,
            supervisor=self._supervisor,
        )

    def ended_threads(self) -> list[str]:
        """Of those that should run; who takes jobs ends once quiet, and all do when it stops."""
        if not self._phase.running.is_set():
            return []
        takers = [name for name, each in self._takers() if not each.alive]
        others = [name for name, each in self._others() if not each.alive]
        # Asked for after the look: what has ended because of it is not reported.
        return [
            *([] if self._phase.quiet.is_set() else takers),
            *([] if self._phase.stopping.is_set() else others),
        ]


def dump_threads() -> None:
    """Log where each thread is."""
    for ident, name, stack in frames.stacks():
        logger.warning("thread %s %s\n%s", ident, name, stack)
