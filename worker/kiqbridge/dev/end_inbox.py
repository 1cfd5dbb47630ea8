"""How `kiqbridge dev` is asked to end, and woken in between."""

import contextlib
import queue
import signal


class EndInbox:
    """What wakes a loop that runs until it is asked to end: signals, and calls of other threads."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.ending = False

    def trap(self) -> None:
        """Take over what ends a program: Ctrl-C, TERM, the terminal's end."""
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
