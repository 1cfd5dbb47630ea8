"""Connects a worker process with its machine: who has started it, the title in `ps`, CPUs and host name.

`attach` adds listeners to the events of the process (`lifecycle.Events`); the engine knows none of them.

Notifying the program that started this process of its state, if a feature does so (the seam `host`).
"""

import os
import socket
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from kiqbridge import __version__, seams
from kiqbridge.client.server import Events
from kiqbridge.engine.host.status import Status, faults_of, read_statuses
from kiqbridge.runtime.clock import lease_now

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


def attach(events: Events, *, tag: str, notifier: Notifier, look: Callable[[], Status]) -> None:
    """Notify who has started the process, and set its title from now on; that it is ready is sent by the engine.

    Args:
        events: those of the process, before the first is fired.
        tag: the name of this process in its title.
        notifier: notifies who has started the process.
        look: how the process is now.
    """
    set_title = title_setter()

    def notify() -> None:
        set_title(worker_title(look(), tag))
        notifier.notify()

    def begin() -> None:
        set_title(worker_title(look(), tag))
        notifier.start(lambda: report_of([look()], lease_now()))

    events.add("startup", begin)
    events.add("beat", notify)
    events.add("quiet", notify)
    events.add("shutdown", notifier.stopping)
    events.add("exit", notifier.stop)


def report_on_children(folder: Path, supervisor: int) -> Report:
    """The report on the processes of a supervisor (its pid), from their status files in `folder`."""
    try:
        statuses = [each for each in read_statuses(folder) if each.supervisor == supervisor]
    except PermissionError as error:
        return Report("the states of its processes are not known", [str(error)])
    return report_of(statuses, lease_now())


def worker_title(status: Status, tag: str) -> str:
    """`kiqbridge VERSION TAG [BUSY of CONCURRENCY busy] stopping`, the last word from quiet on."""
    parts = [
        "kiqbridge",
        __version__,
        tag,
        f"[{status.busy} of {status.concurrency} busy]",
        "stopping" if status.state in ("quiet", "stopping") else "",
    ]
    return " ".join(filter(None, parts))


def supervisor_title(text: str, tag: str) -> str:
    """The title of a supervisor; `text` is its state."""
    return " ".join(filter(None, ["kiqbridge", __version__, tag, text]))


def title_setter() -> Callable[[str], None]:
    """What sets the title of this process; it does nothing where `setproctitle` is not installed."""
    try:
        from setproctitle import setproctitle  # noqa: PLC0415 - an extra, and the worker's alone
    except ImportError:
        return lambda _title: None
    return setproctitle


def process_count(setting: int | Literal["auto"]) -> int:
    """How many processes a setting means; `auto` is one for each CPU that this process may use."""
    if setting != "auto":
        return setting
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def hostname() -> str:
    """The name by which this machine is known to Redis and in the Web UI; on Heroku that of the dyno."""
    return os.environ.get("DYNO") or socket.gethostname()
