"""Threads that the system has no room for, by name, as at a limit of pids."""

import re
import threading

from kiqbridge.runtime.role import unstarted
from support.waiting import wait_until

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


def assert_begins_late(starts, steps, caplog):
    """Whoever needs a thread that cannot start goes on, and it starts as soon as it can.

    Args:
        starts: a `FailingStarts`.
        steps: a generator that gives the role with what needs it, and then whether its work is done.
        caplog: what is logged.
    """
    role, need = next(steps)
    starts.refused = {f"kiqbridge-{role.name.replace(' ', '-')}"}
    need()
    assert starts.tried
    assert not role.runs
    assert role in unstarted()
    need()
    assert caplog.text.count(f"thread {role.name} cannot be started: {role.without}") == 1

    starts.refused.clear()
    need()

    assert role.runs
    assert role not in unstarted()
    wait_until(next(steps))
    next(steps, None)
