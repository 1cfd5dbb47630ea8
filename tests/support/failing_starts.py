"""Threads that the system has no room for, by name, as at a limit of pids."""

import re
import threading

NO_ROOM = "can't start new thread"


class FailingStarts:
    """`Thread.start` raises for the threads whose names match one of `refused`, from the beginning on.

    Attributes:
        refused: regular expressions.
        room: so many of them can start before.
        tried: names of the threads whose start has failed.
    """

    def __init__(self, monkeypatch):
        self.refused = set()
        self.room = 0
        self.tried = []
        really_start = threading.Thread.start

        def start(thread):
            if any(re.match(pattern, thread.name) for pattern in self.refused):
                if not self.room:
                    self.tried.append(thread.name)
                    raise RuntimeError(NO_ROOM)
                self.room -= 1
            really_start(thread)

        monkeypatch.setattr(threading.Thread, "start", start)
