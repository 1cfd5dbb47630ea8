"""Notifying the program that started this process of its state, if a feature does so (the seam `host`)."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kiqbridge import seams
from kiqbridge.engine.host.status import Status, faults_of

TURN_S = 10.0
"""How often `systemctl status` gets a new line from a process without heartbeats of its own."""


class Report(NamedTuple):
    """The state of a process: one line for people, and why it is not live (nothing = it is)."""

    line: str
    faults: Sequence[str]


def report_of(statuses: Sequence[Status], now: float) -> Report:
    """The report on one worker, or on all those of a supervisor; `now` is on `lease_now`."""
    states = Counter(status.state for status in statuses)
    states_text = ", ".join(
        state if len(statuses) == 1 else f"{count} {state}" for state, count in states.items()
    )
    busy = sum(status.busy for status in statuses)
    concurrency = sum(status.concurrency for status in statuses)
    live = _faults(statuses, "live", now)
    passing = [fault for fault in _faults(statuses, "ready", now) if fault not in live]
    line = f"{states_text or 'no process runs'}, {busy} of {concurrency} busy"
    return Report("; ".join([line, *passing]), live)


def _faults(statuses: Sequence[Status], check: str, now: float) -> list[str]:
    return [
        fault if len(statuses) == 1 else f"process {status.pid}: {fault}"
        for status in statuses
        for fault in faults_of(status, check, now)
        if fault != f"it is {status.state}"  # the line says so
    ]


class Notifier:
    """Notifies no program; a feature has one that does."""

    def start(self, look: Callable[[], Report], *, in_thread: bool = True) -> None:
        """Notify now, and from now on as often as needed.

        Args:
            look: how the process is; called from any thread.
            in_thread: with a thread of its own; without one, as in a process that forks, the caller calls `turn`.
        """

    def ready(self) -> None:
        """The start is over."""

    def notify(self) -> None:
        """Notify of the state."""

    def turn(self, now: float) -> None:
        """`notify`, if it is time to; `now` is on `time.monotonic`. For a loop that turns often."""

    def stopping(self) -> None:
        """The stop has begun."""

    def stop(self) -> None:
        """Notify no more."""


def take_notifier() -> Notifier:
    """The notifier that the environment of this process asks for, out of which it is taken."""
    made = (take(os.environ, os.getpid()) for take in seams.found("host"))
    return next((each for each in made if each is not None), Notifier())
