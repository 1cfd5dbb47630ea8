"""How a worker process is: the status that `kiqbridge health` reads, and where its threads are."""

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kiqbridge.clock import lease_now
from kiqbridge.lease import LeaseKeeper
from kiqbridge.status import STUCK_AFTER_S, Status

if TYPE_CHECKING:
    from kiqbridge.heartbeat import Heartbeat

logger = logging.getLogger(__name__)


class Living(Protocol):
    """A thread that should run."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""


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
        supervisor: the pid of the process that starts this one again.
        phase: of this process.
        keeper: who holds its lease.
        busy: how many jobs run now.
        takers: threads by name that end once the process is quiet.
        others: threads by name that end when it stops.

    Attributes:
        heartbeat: once there is one.
        concurrency: jobs that can run at once.
    """

    def __init__(
        self,
        *,
        identity: str,
        beat_s: float,
        supervisor: int | None,
        phase: Phase,
        keeper: LeaseKeeper,
        busy: Callable[[], int],
        takers: Callable[[], Iterable[tuple[str, Living]]],
        others: Callable[[], Iterable[tuple[str, Living]]],
    ) -> None:
        self.heartbeat: Heartbeat | None = None
        self.concurrency = 0
        self._identity = identity
        self._beat_s = beat_s
        self._supervisor = supervisor
        self._phase = phase
        self._keeper = keeper
        self._busy = busy
        self._takers = takers
        self._others = others

    def status(self) -> Status:
        """The process as it is now."""
        return Status(
            identity=self._identity,
            pid=os.getpid(),
            state=str(self._phase),
            written_at=lease_now(),
            heartbeat_at=self.heartbeat.taken_at if self.heartbeat else None,
            beat_s=self._beat_s,
            is_leased=not self._keeper.current.in_doubt(),
            ended_threads=list(self._ended_threads()),
            stuck_threads=list(self._stuck_threads()),
            busy=self._busy(),
            concurrency=self.concurrency,
            supervisor=self._supervisor,
        )

    def _ended_threads(self) -> Iterator[str]:
        """Of those that should run; who takes jobs ends once quiet, and all do when it stops."""
        if not self._phase.running.is_set():
            return
        takers = [name for name, each in self._takers() if not each.alive]
        others = [name for name, each in self._others() if not each.alive]
        # Asked for after the look: what has ended because of it is not reported.
        if not self._phase.quiet.is_set():
            yield from takers
        if not self._phase.stopping.is_set():
            yield from others

    def _stuck_threads(self) -> Iterator[str]:
        phase, heartbeat = self._phase, self.heartbeat
        if not phase.running.is_set() or heartbeat is None or phase.stopping.is_set():
            return
        now = time.monotonic()
        for name, each in (("heartbeat", heartbeat), ("lease", self._keeper)):
            if now - each.tried_at > STUCK_AFTER_S:
                yield name


def dump_threads() -> None:
    """Log where each thread is."""
    frames = sys._current_frames()  # noqa: SLF001 - the only way to see other threads' stacks
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None:
            stack = "".join(traceback.format_stack(frame))
            logger.warning("thread %s %s\n%s", thread.ident, thread.name, stack)
