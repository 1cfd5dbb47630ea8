"""From signals of the operating system and of Redis to calls, on the main thread (§14.2).

A handler only notes the signal; the loop logs and acts. Three kinds:

1. TERM, INT, TSTP and TTIN are acted on. TERM and INT also set a timer at once, by which the kernel
   kills this process when an orderly end takes too long (ending.py).
2. HUP, USR1, USR2, ALRM, VTALRM and PROF would kill a process that has no handler for them. They are
   ignored, and the log says so once, unless the loaded code has a handler of its own. Not by SIG_IGN,
   which the programs that jobs start would inherit.
3. All others do what they always do.

In a process of a supervisor a second INT is passed on as a signal that no other code uses (`HURRY`).
One Ctrl-C in a terminal reaches such a process twice, as INT from the terminal and as TERM from the
supervisor, in any order; so an INT after a TERM is no second Ctrl-C there.
"""

import contextlib
import logging
import os
import queue
import select
import signal
import socket
import time
from collections import deque
from types import FrameType

from kiqbridge.engine.host import ending
from kiqbridge.runtime import descriptors

logger = logging.getLogger(__name__)

NAMES = ("TERM", "INT", "TSTP", "TTIN")
ENDING = ("TERM", "INT")
HURRY = signal.SIGRTMIN + 1 if hasattr(signal, "SIGRTMIN") else int(signal.SIGUSR1)
"""From a supervisor to its processes: do not wait for running jobs any longer. Not USR1 where there is
another one: loaded code often has a handler of its own for that, such as faulthandler's."""
IGNORED = ("HUP", "USR1", "USR2", "ALRM", "VTALRM", "PROF")

LOOK_EVERY_S = 1.0
"""A job may have closed the sockets that wake the main thread; it looks so often by itself."""


class SignalInbox:
    """Names of signals in the order in which they came.

    Args:
        end_within_s: seconds from TERM or INT until the process is killed if it has not ended; None =
            it is not.
        is_supervised: a supervisor has started this process, and passes a second INT on as `HURRY`.
    """

    def __init__(self, end_within_s: float | None = None, *, is_supervised: bool = False) -> None:
        self.hurry = "HURRY" if is_supervised else "INT"
        self._names: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._end_within_s = end_within_s
        self._wakeup_out, self._wakeup_in = socket.socketpair()
        for end in (self._wakeup_out, self._wakeup_in):
            end.setblocking(False)
        self._ends = [descriptors.Descriptor(end) for end in (self._wakeup_out, self._wakeup_in)]

    def check(self) -> None:
        """Does not return when a job has closed what wakes the main thread."""
        for end in self._ends:
            end.check()

    def trap(self) -> None:
        """Take over TERM, INT, TSTP and TTIN of this process, and ignore what would kill it."""
        # Python runs handlers between two instructions of the main thread: for a signal that comes
        # while it is just about to wait, not before something else ends the wait. This ends it at once.
        signal.set_wakeup_fd(self._wakeup_in.fileno(), warn_on_full_buffer=False)
        for name in NAMES:
            signal.signal(getattr(signal, f"SIG{name}"), self._note)
        if self.hurry == "HURRY":
            signal.signal(HURRY, lambda *_: self._take("HURRY"))
        ignore_others()

    def put(self, name: str) -> None:
        """Note a signal that came by another way."""
        self._take(name)
        if descriptors.is_watching:
            self.check()
        with contextlib.suppress(OSError):  # full: it wakes up anyway
            self._wakeup_in.send(b"\0")

    def wait(self) -> str:
        """The next signal's name, without SIG."""
        while True:
            report_ignored()
            with contextlib.suppress(queue.Empty):
                return self._names.get_nowait()
            self._sleep()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._take(signal.Signals(number).name.removeprefix("SIG"))

    def _take(self, name: str) -> None:
        if name in ENDING and self._end_within_s is not None:
            ending.kill_after(self._end_within_s)
        self._names.put(name)

    def _sleep(self) -> None:
        """Wait for a signal, at most a second: a job may have closed the sockets."""
        poll = select.poll()
        poll.register(self._wakeup_out, select.POLLIN)
        rings = poll.poll(LOOK_EVERY_S * 1000)
        if descriptors.is_watching:
            self.check()  # before anything is read: it may be another connection now
        if rings:
            try:
                self._wakeup_out.recv(4096)
            except BlockingIOError:
                pass
            except (
                OSError
            ):  # closed, and descriptors are not watched: looking once a second is enough
                time.sleep(LOOK_EVERY_S)


def ignore_others() -> None:
    """Let none of `IGNORED` kill this process; handlers that the loaded code has installed stay."""
    for name in IGNORED:
        number = getattr(signal, f"SIG{name}", None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _note_ignored)


def end_while_loading() -> None:
    """Let TERM and INT end this process at once: nothing has begun yet."""
    for name in ENDING:
        signal.signal(getattr(signal, f"SIG{name}"), _end_at_once)


def report_ignored() -> None:
    """Log what was ignored, each signal once."""
    while _noted:
        name = _noted.popleft()
        if name in _reported:
            continue
        _reported.add(name)
        hint = (
            "only a supervisor (--processes, --max-memory-mb) replaces its processes at USR2"
            if name == "USR2"
            else "TERM ends the process, TSTP makes it quiet, TTIN logs where its threads are"
        )
        logger.warning("SIG%s is ignored; %s", name, hint)


_noted: deque[str] = deque(maxlen=100)
_reported: set[str] = set()


def _note_ignored(number: int, _frame: FrameType | None) -> None:
    _noted.append(signal.Signals(number).name.removeprefix("SIG"))


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    # Before the line: the thread may hold a lock that it needs.
    ending.kill_after(ending.FLUSH_S + ending.MARGIN_S)
    logger.info(
        "%s: ending while the code of the jobs is being loaded",
        signal.Signals(number).name.removeprefix("SIG"),
    )
    ending.end_process(0)


def _after_fork_in_child() -> None:
    _noted.clear()
    _reported.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
