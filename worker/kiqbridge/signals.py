"""From signals of the operating system and of Redis to calls, on the main thread (§14.2).

A handler only notes the signal; the loop speaks and acts.
"""

import contextlib
import queue
import signal
import socket
from types import FrameType

from kiqbridge import descriptors

NAMES = ("TERM", "INT", "TSTP", "TTIN")


class SignalInbox:
    """Names of signals in the order in which they came."""

    def __init__(self) -> None:
        self._names: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._bell, self._rope = socket.socketpair()
        self._bell.settimeout(None)  # whatever the loaded code has made the default
        self._rope.setblocking(False)
        self._ends = [descriptors.Descriptor(end) for end in (self._bell, self._rope)]

    def check(self) -> None:
        """Does not return when a job has closed what wakes the main thread."""
        for end in self._ends:
            end.check()

    def trap(self) -> None:
        """Take over TERM, INT, TSTP and TTIN of this process."""
        # Python runs handlers between two instructions of the main thread: for a signal that comes
        # while it is just falling asleep, not before something else wakes it. This rings at once.
        signal.set_wakeup_fd(self._rope.fileno(), warn_on_full_buffer=False)
        for name in NAMES:
            signal.signal(getattr(signal, f"SIG{name}"), self._note)

    def put(self, name: str) -> None:
        """Note a signal that came by another way."""
        self._names.put(name)
        if descriptors.is_watching:
            self.check()
        with contextlib.suppress(BlockingIOError):  # full: it rings already
            self._rope.send(b"\0")

    def wait(self) -> str:
        """The next signal's name, without SIG."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._names.get_nowait()
            if descriptors.is_watching:
                self.check()
            self._bell.recv(4096)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._names.put(signal.Signals(number).name.removeprefix("SIG"))
