"""The health of a worker process: its status, which threads should run, and the repair of those that do not.

The status goes to a file that `kiqbridge health` reads. Which threads are stuck is found by liveness.py;
here a thread that has ended is started again, and one that does not end its job is replaced.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Protocol, runtime_checkable

from kiqbridge.config.config import Config
from kiqbridge.engine.host.status import EVERY_S, Status, StatusFile, run_folder
from kiqbridge.engine.liveness import EX_STUCK, Bounds, Monitor
from kiqbridge.engine.parts import EngineParts
from kiqbridge.engine.perform.processor import Processor
from kiqbridge.engine.perform.running_job import Holder
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.role import Until, unstarted

logger = logging.getLogger(__name__)


class LivingThread(Protocol):
    """A thread that should run."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""


@runtime_checkable
class Restarts(LivingThread, Protocol):
    """A thread that can be started again after it has ended, and then goes on from its state."""

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


class Health:
    """Watches the threads of one process and writes its status file.

    Args:
        config: the settings.
        parts: what is watched.
        phase: of this process.
        on_wedged: called once when the process has to stop, since a thread is stuck or lost.
        supervisor: the pid of the process that starts this one again; None = there is none.
        has_reached_redis: another process of the same supervisor has reached Redis.
        stop_s: seconds that an orderly stop takes at most.
    """

    def __init__(
        self,
        config: Config,
        parts: EngineParts,
        phase: Phase,
        *,
        on_wedged: Callable[[], None],
        supervisor: int | None,
        has_reached_redis: bool,
        stop_s: float,
    ) -> None:
        self._config = config
        self._parts = parts
        self._phase = phase
        self._supervisor = supervisor
        self._has_reached_redis = has_reached_redis
        self._started_at = lease_now()
        self._unstarted: set[str] = set()
        self._monitor = Monitor(
            Bounds(stuck_s=config.stuck_after_s, end_s=config.end_stuck_after_s, stop_s=stop_s),
            is_watching=lambda: phase.running.is_set() and not phase.stopping.is_set(),
            ended=self.ended_threads,
            revive=self._restart_thread,
            on_wedged=on_wedged,
            ping=self._ping_loops,
        )
        self._status_file = StatusFile(
            run_folder(config.run_dir),
            self.status,
            min(EVERY_S, config.beat_s),
            before=self._look,
            failed=self._monitor.status_failed,
        )

    @property
    def exit_status(self) -> int:
        """The status to end the process with: 0, or `EX_STUCK`."""
        return EX_STUCK if self._monitor.is_wedged else 0

    def is_stuck(self, name: str) -> bool:
        """Whether the thread of this name was stuck at the last look while the process ran."""
        return any(each.name == name for each in self._monitor.stuck)

    def start(self) -> None:
        """Begin to watch and to write the status file."""
        self._monitor.start()
        self._status_file.start()

    def stop(self) -> None:
        """Remove the status file."""
        self._status_file.stop()

    def _look(self) -> None:
        """Look at all threads; try again to start those that are needed, and could not be started."""
        self._monitor.look()
        now = {f"thread {each.name}": each for each in unstarted()}
        for name, each in now.items():
            self._parts.troubles.set(name, f"its {name} cannot be started: {each.without}")
            self._monitor.repair(each.wake)
        for name in self._unstarted - now.keys():
            self._parts.troubles.clear(name)
        self._unstarted = set(now)

    def give_up(self, why: str) -> None:
        """Let the process stop and end with `EX_STUCK`."""
        self._monitor.give_up(why)

    def status(self) -> Status:
        """The process as it is now."""
        parts, monitor = self._parts, self._monitor
        heartbeat, overruns = parts.heartbeat, parts.overruns
        return Status(
            identity=parts.identity,
            pid=os.getpid(),
            state=str(self._phase),
            written_at=lease_now(),
            heartbeat_at=heartbeat.taken_at if heartbeat else None,
            beat_s=self._config.beat_s,
            is_leased=not parts.keeper.current.in_doubt(),
            ended_threads=self.ended_threads(),
            stuck_threads=[each.name for each in monitor.stuck],
            stuck_after_s=self._config.stuck_after_s,
            is_wedged=monitor.is_wedged,
            troubles=parts.all_troubles(),
            overran=overruns.overran if overruns else 0,
            lost_threads=overruns.lost if overruns else 0,
            restarted_threads=monitor.revived,
            missed_ticks=parts.missed_watch.found,
            unled_s=parts.poller.unled_s,
            ages=asdict(parts.ages()),
            busy=len(parts.running_jobs()),
            concurrency=parts.concurrency,
            started_at=self._started_at,
            start_period_s=self._config.start_period_s,
            has_reached_redis=self._has_reached_redis or parts.keeper.has_registered,
            supervisor=self._supervisor,
        )

    def ended_threads(self) -> list[str]:
        """Names of threads that have ended though they should run in the present phase."""
        if not self._phase.running.is_set():
            return []
        until_quiet = [name for name, each in self._until_quiet() if not each.alive]
        until_stop = [name for name, each in self._until_stop() if not each.alive]
        # Read after the look: a thread that has ended because of the phase is not reported.
        return [
            *([] if self._phase.quiet.is_set() else until_quiet),
            *([] if self._phase.stopping.is_set() else until_stop),
        ]

    def replace_lost(self, lost: Holder) -> None:
        """Put another thread in the place of one that does not come back from its job."""
        overruns = self._parts.overruns
        if overruns is None or not isinstance(lost, Processor):
            return
        if overruns.lost > self._parts.concurrency:
            self.give_up("more threads than it has did not come back from their jobs")
            return
        self._parts.replace_processor(lost)

    def _until_quiet(self) -> Iterator[tuple[str, LivingThread]]:
        """Threads that take jobs or move them, by name; they end once the process is quiet."""
        parts = self._parts
        if parts.manager is not None:
            yield from ((f"processor {each.tid}", each) for each in parts.manager.processors)
        yield from ((f"reader {each.capsule.name}", each.gate) for each in parts.capsules)
        yield from ((role.name, role) for role in parts.roles if role.until is Until.QUIET)

    def _until_stop(self) -> Iterator[tuple[str, LivingThread]]:
        """Threads that are needed until the last job has ended, by name."""
        parts = self._parts
        yield "lease", parts.keeper.thread
        yield from ((role.name, role) for role in parts.roles if role.until is not Until.QUIET)
        if parts.manager is not None:
            yield from ((f"loop {loop.name}", loop) for loop in parts.manager.loops)
            if parts.manager.loops:
                yield "bookkeeper", parts.bookkeeper

    def _restart_thread(self, name: str) -> bool:
        """Start a thread again that has ended; False: it cannot be."""
        thread = dict((*self._until_quiet(), *self._until_stop())).get(name)
        if thread is None or thread.alive:
            return thread is not None
        if isinstance(thread, Processor):
            self._parts.replace_processor(thread)
            return True
        if not isinstance(thread, Restarts):
            return False
        thread.restart()
        return True

    def _ping_loops(self) -> None:
        for each in self._parts.capsules:
            if each.loop is not None:
                each.loop.ping()
