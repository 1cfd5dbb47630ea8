"""The inbox of `kiqbridge dev`'s main loop: signals that end it, and calls that wake it."""

import contextlib
import queue
import signal


class EndInbox:
    """Wakes a loop that runs until it is asked to end: by signals, and by calls from other threads."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.ending = False

    def trap(self) -> None:
        """Handle the signals that end a program: Ctrl-C, TERM, the terminal's end."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: self.end())

    def end(self) -> None:
        """Ask for the end."""
        self.ending = True
        self.wake()

    def wake(self) -> None:
        """Let the loop look around."""
        self._calls.put(None)

    def wait(self, timeout_s: float) -> None:
        """Wait for a call."""
        with contextlib.suppress(queue.Empty):
            self._calls.get(timeout=max(0.0, timeout_s))
