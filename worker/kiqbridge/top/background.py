"""A thread beside the screen: what waits for Redis runs there, one after the other.

It is a daemon: the program ends at once, also while a command to a silent Redis still waits.
"""

import queue
import threading
from collections.abc import Callable

Work = Callable[[], None]


class Background:
    """A thread that is started by the first work.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._works: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def submit(self, work: Work) -> None:
        """Have it done after what was submitted before; it must catch what it can raise."""
        if not self._thread.is_alive():
            self._thread.start()
        self._works.put(work)

    def _run(self) -> None:
        while True:
            self._works.get()()
