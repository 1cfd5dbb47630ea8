"""Connects a worker process with its machine: who has started it, the title in `ps`, CPUs and host name.

`attach` adds listeners to the events of the process (`lifecycle.Events`); the engine knows none of them.
"""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from kiqbridge import __version__
from kiqbridge.client.server import Events
from kiqbridge.engine.host.notifier import Notifier, Report, report_of
from kiqbridge.engine.host.status import Status, read_statuses
from kiqbridge.runtime.clock import lease_now


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
