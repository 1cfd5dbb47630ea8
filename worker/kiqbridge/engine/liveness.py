"""Finds threads of this process that make no progress, and ends a process that is stuck.

A thread is stuck when it has been at the same place for longer than a bound: in the same call of the
same function, seen by every look. Where it may stay for any time it is not: resting (threads.py), in
the code of a job, or waiting for a job that runs elsewhere (frames.py). A loop that tries again while
Redis is away is at another place each time. A thread that runs no jobs is stuck in code of a user as
well, and when its round takes far longer than an outage could make it take.

1. A thread is stuck: logged once with all stacks; the status file is written by the same look, so
   `kiqbridge health --live` is red within one beat.
2. It stays stuck, or a thread has ended that cannot be started anew: the process stops as after
   TERM, which gives back what is unbegun, and ends with the status `EX_STUCK`.
3. The stop itself hangs: the process ends at the latest when an orderly stop would have ended.

The thread that looks takes no lock and logs nothing: a lock may be what others are stuck at. Its lines
are logged, and ended threads replaced, on threads of their own.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY
from types import FrameType

from kiqbridge.runtime import frames, threads
from kiqbridge.runtime.frames import current_frames
from kiqbridge.runtime.kinds import kind_of
from kiqbridge.runtime.records import dataclass

logger = logging.getLogger(__name__)

EX_STUCK = 70
"""Exit status of a process that ended itself because it was stuck (EX_SOFTWARE of sysexits.h)."""

GRACE_S = 1.0
"""Younger rounds are not looked at: nearly all take milliseconds."""

LONG_ROUND_S = 90.0
"""One round of a thread that runs no jobs takes some tens of seconds at most, in an outage of Redis."""

MAX_BETWEEN_LOOKS_S = 10.0
"""Between two looks no more than this counts: the process was frozen, or its interpreter lock held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Seconds at one place: after `stuck_s` a thread is reported, after `end_s` the process ends.

    An orderly stop takes up to `stop_s`.
    """

    stuck_s: float
    end_s: float
    stop_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """A thread that is stuck: its name, for how long, and where."""

    name: str
    ident: int
    for_s: float
    where: str


@dataclass(slots=True)
class _Trace:
    """Where a thread was found, and for how many seconds it was found there, and in the same round.

    The frame is held, so that no later one can take its identity.
    """

    frame: FrameType
    instruction: int
    beat_at: float
    here_s: float = 0.0
    round_s: float = 0.0


class Traces:
    """Where each thread has been, look by look; used by one thread."""

    def __init__(self) -> None:
        self._traces: dict[int, _Trace] = {}
        self._looked_at = 0.0

    def look(
        self,
        watched: Iterable[threads.Kept],
        stacks_now: Mapping[int, FrameType],
        now: float,
        stuck_s: float,
    ) -> list[Stuck]:
        """Which threads have been stuck for longer than `stuck_s`.

        Args:
            watched: the threads.
            stacks_now: innermost frames by thread, as `sys._current_frames` gives them.
            now: on `time.monotonic`.
            stuck_s: seconds at one place.
        """
        traces: dict[int, _Trace] = {}
        stuck = []
        passed_s = min(now - self._looked_at, MAX_BETWEEN_LOOKS_S)
        self._looked_at = now
        for thread in watched:
            frame = stacks_now.get(thread.ident)
            if frame is None or thread.beat_at is None or thread.is_resting:
                continue
            if now - thread.beat_at < GRACE_S:
                continue
            if thread.performs_jobs and frames.runs_user_code(frame):
                continue
            trace = _Trace(frame, frame.f_lasti, thread.beat_at)
            before = self._traces.get(thread.ident)
            if before is not None and before.beat_at == trace.beat_at:
                trace.round_s = before.round_s + passed_s
                if before.frame is frame and before.instruction == trace.instruction:
                    trace.here_s = before.here_s + passed_s
            traces[thread.ident] = trace
            for_s = trace.here_s
            if not thread.performs_jobs:
                for_s = max(for_s, trace.round_s - LONG_ROUND_S)
            if for_s >= stuck_s:
                stuck.append(
                    Stuck(
                        name=thread.name, ident=thread.ident, for_s=for_s, where=frames.where(frame)
                    )
                )
        self._traces = traces
        return stuck


class BackgroundThread:
    """A thread that does what the looking thread must not: it may wait for locks and for Redis."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._name = name

    def start(self) -> None:
        """Begin; it ends with the process."""
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def do(self, act: Callable[[], object]) -> None:
        """Do this after what was asked for before."""
        self._queue.put(act)

    def _run(self) -> None:
        while True:
            with suppress(BaseException):  # such as one that a job raises in all threads
                self._do_next()

    def _do_next(self) -> None:
        act = self._queue.get()
        try:
            act()
        except BaseException:
            logger.exception("logging or repairing a thread that is stuck or has ended failed")


@dataclass(eq=False, repr=False)
class Monitor:
    """Looks at all threads; `look` is called by the thread that writes the status, a few seconds apart.

    Args:
        bounds: how long a thread may be stuck.
        is_watching: whether the process runs: before and after that threads may end, and wait.
        ended: names of threads that should run and do not.
        revive: starts such a thread anew; False: it cannot be.
        on_wedged: stops the process; called once, on a thread of its own.
        ping: lets each event loop note that it makes progress.

    Attributes:
        stuck: what the last look found; kept while a process that is stuck stops.
        is_wedged: the process is to end with `EX_STUCK`.
        revived: how many threads were started anew.
    """

    bounds: Bounds
    _: KW_ONLY
    is_watching: Callable[[], bool]
    ended: Callable[[], Sequence[str]]
    revive: Callable[[str], bool]
    on_wedged: Callable[[], object]
    ping: Callable[[], object] = lambda: None
    end: Callable[[int], object] = os._exit

    def __post_init__(self) -> None:
        self.stuck: Sequence[Stuck] = ()
        self.is_wedged = False
        self.revived = 0
        self._traces = Traces()
        self._reported: dict[int, Stuck] = {}
        self._asked: set[str] = set()
        self._end_at = float("inf")
        self._failure = ""
        self._log = BackgroundThread("kiqbridge-report")
        self._act = BackgroundThread("kiqbridge-repair")
        self._ending = BackgroundThread("kiqbridge-stuck")

    def start(self) -> None:
        """Start the threads that log and repair; `look` is called from another thread."""
        for thread in (self._log, self._act, self._ending):
            thread.start()

    def look(self) -> None:
        """Look once; takes no lock."""
        now = time.monotonic()
        if now >= self._end_at:
            self.end(EX_STUCK)
        if not self.is_watching():
            self.stuck = self.stuck if self.is_wedged else ()
            return
        self.ping()
        current = current_frames()
        self.stuck = self._traces.look(threads.kept(), current, now, self.bounds.stuck_s)
        del current
        stuck = {each.ident: each for each in self.stuck}
        for ident, each in stuck.items():
            if ident not in self._reported:
                self._log.do(lambda each=each: self._log_stuck(each))  # type: ignore[misc]
        for ident, each in self._reported.items():
            if ident not in stuck:
                self._log.do(lambda each=each: _log_over(each))  # type: ignore[misc]
        self._reported = stuck
        for name in self.ended():
            if name not in self._asked:
                self._asked.add(name)
                self._act.do(lambda name=name: self._start_anew(name))  # type: ignore[misc]
        if any(each.for_s >= self.bounds.end_s for each in self.stuck):
            self._wedge(f"a thread has been stuck for more than {self.bounds.end_s:.0f} s")

    def give_up(self, why: str) -> None:
        """Have the process stop, and end with `EX_STUCK`, for a reason that was found elsewhere."""
        self._wedge(why)

    def repair(self, act: Callable[[], object]) -> None:
        """Do this on the thread that repairs."""
        self._act.do(act)

    def status_failed(self, error: Exception) -> None:
        """Log, on another thread, why the status of this process could not be written."""
        kind = kind_of(error)
        if kind != self._failure:
            self._failure = kind
            self._log.do(lambda: logger.warning("the status file is not written: %s", error))

    def _log_stuck(self, each: Stuck) -> None:
        logger.error(
            "thread %s has been stuck for %.0f s outside of a job, at %s; unless it continues, this process gives its jobs back and ends with status %d when that has lasted for %.0f s; all "
            "stacks:\n%s",
            each.name,
            each.for_s,
            each.where,
            EX_STUCK,
            self.bounds.end_s,
            "".join(f"thread {ident} {name}\n{stack}" for ident, name, stack in frames.stacks()),
        )

    def _start_anew(self, name: str) -> None:
        logger.error("thread %s has ended though it should run; it is started anew", name)
        is_alive = True
        try:
            is_alive = self.revive(name)
        except threads.CANNOT_START as error:
            logger.error("thread %s cannot be started: %s; it is tried again", name, error)  # noqa: TRY400 - one line
            return
        finally:
            if is_alive:  # should it end again, it is started again
                self._asked.discard(name)
        if is_alive:
            self.revived += 1
        else:
            self._wedge(f"thread {name} cannot be started anew")

    def _wedge(self, why: str) -> None:
        if self.is_wedged:
            return
        self.is_wedged = True
        self._end_at = time.monotonic() + self.bounds.stop_s
        self._ending.do(self.on_wedged)  # before the log line: the thread that logs may be stuck
        self._log.do(
            lambda: logger.critical(
                "this process stops and ends with status %d, since %s; a supervisor or an orchestrator "
                "starts it anew",
                EX_STUCK,
                why,
            )
        )


def _log_over(each: Stuck) -> None:
    logger.warning("thread %s continues, after more than %.0f s", each.name, each.for_s)
