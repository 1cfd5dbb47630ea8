"""The inbox of `kiqbridge dev`'s main loop: signals that end it, requests for its tables, and calls that wake it."""

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from typing import Final

_IN_BACKGROUND_S: Final = 1.0


class EndInbox:
    """Wakes a loop that runs until it is asked to end: by signals, and by calls from other threads."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._asked = False
        self.ending = False

    def trap(self) -> None:
        """Handle the signals that end a program (Ctrl-C, TERM, the terminal's end), and USR1: `ask`."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda _number, _frame: self.end())
        signal.signal(signal.SIGUSR1, lambda _number, _frame: self.ask())

    def listen(self) -> bool:
        """`ask` at each Enter, if somebody can press it; whether that is so."""
        try:
            if not sys.stdin.isatty() or os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
                return False
        except (AttributeError, OSError, ValueError):  # closed, or of another terminal
            return False
        # A read in the background would stop us; so it fails, and is tried again.
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)
        threading.Thread(target=self._read_keys, name="keys", daemon=True).start()
        return True

    def end(self) -> None:
        """Ask for the end."""
        self.ending = True
        self.wake()

    def ask(self) -> None:
        """Ask for the tables."""
        self._asked = True
        self.wake()

    def take_request(self) -> bool:
        """Whether somebody has asked for the tables since the last call."""
        asked, self._asked = self._asked, False
        return asked

    def wake(self) -> None:
        """Let the loop look around."""
        self._calls.put(None)

    def wait(self, timeout_s: float) -> None:
        """Wait for a call."""
        with contextlib.suppress(queue.Empty):
            self._calls.get(timeout=max(0.0, timeout_s))

    def _read_keys(self) -> None:
        while True:
            try:
                if not os.read(sys.stdin.fileno(), 1024):
                    return
                self.ask()
            except OSError:
                time.sleep(_IN_BACKGROUND_S)
