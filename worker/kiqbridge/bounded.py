"""Calling what may never return: on a thread of its own, for which nobody waits longer than a bound."""

import threading
import time
from collections.abc import Callable


class BoundedCall:
    """A call that has been begun.

    Args:
        name: of the thread.
        call: it handles its errors itself.
    """

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        self._call = call
        self._ended = threading.Event()
        try:
            threading.Thread(target=self._run, name=name, daemon=True).start()
        except RuntimeError:  # no thread can be started
            self._run()

    def wait(self, within_s: float) -> bool:
        """Wait until it has ended, at most so long; whether it has."""
        return self._ended.wait(max(within_s, 0.0))

    def _run(self) -> None:
        try:
            self._call()
        finally:
            self._ended.set()


def seconds_until(at: float) -> float:
    """Seconds until an instant on `time.monotonic`; 0.0 = it has passed."""
    return max(at - time.monotonic(), 0.0)
