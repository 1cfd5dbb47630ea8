"""From signals of the operating system and of Redis to calls, on the main thread (§14.2).

A handler only notes the signal; the loop speaks and acts.
"""

import queue
import signal
from types import FrameType

NAMES = ("TERM", "INT", "TSTP", "TTIN")


class SignalInbox:
    """Names of signals in the order in which they came."""

    def __init__(self) -> None:
        self._names: queue.SimpleQueue[str] = queue.SimpleQueue()

    def trap(self) -> None:
        """Take over TERM, INT, TSTP and TTIN of this process."""
        for name in NAMES:
            signal.signal(getattr(signal, f"SIG{name}"), self._note)

    def put(self, name: str) -> None:
        """Note a signal that came by another way."""
        self._names.put(name)

    def wait(self) -> str:
        """The next signal's name, without SIG."""
        return self._names.get()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._names.put(signal.Signals(number).name.removeprefix("SIG"))
