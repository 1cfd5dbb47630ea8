"""Says which job blocks an event loop, while it does: none of the other jobs of the loop gets on meanwhile.

A thread asks the loop for a sign, four times in `loop_blocked_s`, only while jobs run. Without an answer for that
long it logs the job and the stack of the loop's thread, once a minute for each class.
"""

import asyncio
import logging
import threading
import time
from typing import Protocol

from kiqbridge.engine.perform.execution import Execution
from kiqbridge.runtime import frames, threads
from kiqbridge.runtime.frames import current_frames
from kiqbridge.runtime.role import Role

logger = logging.getLogger(__name__)

SAY_AGAIN_S = 60.0
"""Seconds until the same class is logged again."""

_FRAMES = 12
"""How many of the innermost lines of the stack are logged."""


class Watched(Protocol):
    """The event loop; see `EventLoop`."""

    name: str
    blocked_s: float

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...  # noqa: D102 - see above

    @property
    def ident(self) -> int: ...  # noqa: D102 - see above

    @property
    def count(self) -> int: ...  # noqa: D102 - see above

    def current(self) -> Execution | None: ...  # noqa: D102 - see above


class LoopWatch:
    """A thread that watches one event loop, from `start` to `stop`."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._busy = threading.Event()
        self._stopping = threading.Event()
        self._said: dict[str, float] = {}

    def start(self) -> None:
        """Begin; it ends with the process at the latest."""
        name = f"loop watch {self._watched.name}"
        Role(name, self._watch, stopping=self._stopping).start()

    def wake(self) -> None:
        """The loop has a job."""
        if not self._busy.is_set():
            self._busy.set()

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        self._busy.set()

    def _watch(self) -> None:
        while not self._stopping.is_set():
            threads.rest()
            self._busy.wait()
            self._busy.clear()
            while self._watched.count and not self._stopping.is_set():
                threads.beat()
                self._ask()
                self._stopping.wait(self._watched.blocked_s / 4)

    def _ask(self) -> None:
        answered, asked_at = threading.Event(), time.monotonic()
        loop = self._watched.loop
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # it has ended; another one takes its place
            return
        if answered.wait(self._watched.blocked_s):
            return
        is_said = self._say(time.monotonic() - asked_at)
        while not (answered.wait(self._watched.blocked_s) or self._stopping.is_set()):
            threads.beat()
            if self._watched.loop is not loop:
                return
        if is_said:
            logger.warning(
                "the event loop of capsule %s continues, after %.1f s",
                self._watched.name,
                time.monotonic() - asked_at,
            )

    def _say(self, for_s: float) -> bool:
        """Log what blocks the loop; False: nothing of a user's does, or it was said a short time ago."""
        frame, execution = current_frames().get(self._watched.ident), self._watched.current()
        if frame is None or (execution is None and not frames.runs_user_code(frame)):
            return False  # the interpreter lock is held by others, or it is about to go on
        what = "code that is no job's own (a callback, or a task that a job has begun)"
        if execution is not None:
            what = f"job {execution.payload.get('jid')} of class {execution.class_name}"
        kind, now = execution.class_name if execution else "", time.monotonic()
        if now < self._said.get(kind, 0.0):
            return False
        self._said[kind] = now + SAY_AGAIN_S
        import traceback  # noqa: PLC0415 - few loops are blocked

        logger.warning(
            "the event loop of capsule %s has been blocked for %.1f s by %s: its %d running jobs stand still, and no "
            "timeout_s comes; await what waits, call the rest with asyncio.to_thread, or declare the job with a plain "
            "def. Innermost last:\n%s",
            self._watched.name,
            for_s,
            what,
            self._watched.count,
            "".join(traceback.format_stack(frame, limit=_FRAMES)),
        )
        return True
