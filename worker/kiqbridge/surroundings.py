"""What a worker's machine is told about it: systemd, whoever looks at `ps`, and ECS.

Everything hangs on the events of the process (`lifecycle.Events`); the engine knows nothing of it.
"""

import os
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path

from kiqbridge.clock import lease_now
from kiqbridge.config import Config
from kiqbridge.lifecycle import Events
from kiqbridge.process_title import title_setter, worker_title
from kiqbridge.status import Status, read_statuses, run_folder
from kiqbridge.systemd import Notifier, Report, report_of


def attach(
    events: Events,
    *,
    config: Config,
    tag: str,
    notifier: Notifier,
    look: Callable[[], Status],
    running: Callable[[], Iterable[Hashable]],
) -> None:
    """Tell them from now on; only READY=1 is left to who knows when the start is over.

    Args:
        events: those of the process, before the first is fired.
        config: the settings.
        tag: the name of this process in its title.
        notifier: who tells systemd.
        look: how the process is now.
        running: something for each running job by which it is known again.
    """
    set_title = title_setter()

    def tell() -> None:
        set_title(worker_title(look(), tag))
        notifier.tell()

    def begin() -> None:
        set_title(worker_title(look(), tag))
        notifier.start(lambda: report_of([look()], lease_now()))

    events.add("startup", begin)
    events.add("beat", tell)
    events.add("quiet", tell)
    events.add("shutdown", notifier.stopping)
    events.add("exit", notifier.stop)
    if not config.ecs_protect_after_s:
        return
    from kiqbridge.ecs import task_protection  # noqa: PLC0415 - an HTTP client, for few

    protection = task_protection(
        os.environ,
        after_s=config.ecs_protect_after_s,
        running=running,
        folder=run_folder(config.run_dir),
    )
    if protection is not None:
        events.add("startup", protection.start)
        events.add("quiet", protection.quiet)
        events.add("exit", protection.stop)


def report_on_children(folder: Path, supervisor: int) -> Report:
    """How the processes of a supervisor (its pid) are, from what they say in `folder`."""
    statuses = [each for each in read_statuses(folder) if each.supervisor == supervisor]
    return report_of(statuses, lease_now())
