"""`kiqbridge worker`: perform jobs: fetch, retry, poll and beat as Sidekiq does, losing none.

Flags, file and environment choose the settings; it runs until a signal ends it.
"""

import argparse
import faulthandler
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kiqbridge import seams
from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all, resolved
from kiqbridge.client.server import server
from kiqbridge.commands.arguments import add, add_example
from kiqbridge.config.config import SETTINGS, Config
from kiqbridge.config.merge import merge
from kiqbridge.config.setting import shown_default
from kiqbridge.config.settings_file import read_file
from kiqbridge.engine.host import ending, surroundings
from kiqbridge.engine.host.signals import ENDING, SignalInbox, end_while_loading, ignore_others
from kiqbridge.engine.host.status import run_folder
from kiqbridge.engine.host.surroundings import Notifier, Report, take_notifier
from kiqbridge.engine.launcher import Launcher
from kiqbridge.engine.perform.job_logger import configure_logging
from kiqbridge.engine.served_queues import with_default_queues
from kiqbridge.engine.settle.error_report import error_message
from kiqbridge.engine.stacks import dump_threads
from kiqbridge.engine.stop import KILL_S
from kiqbridge.errors import ConfigError, KiqbridgeError, RedisUnavailable
from kiqbridge.runtime import descriptors, job_forks, redaction, user_code
from kiqbridge.runtime.monkey_patches import patched_by
from kiqbridge.runtime.redaction import shorten
from kiqbridge.runtime.steps import Steps
from kiqbridge.runtime.threads import CANNOT_START

if TYPE_CHECKING:
    from kiqbridge.commands.forked import SupervisorLink

logger = logging.getLogger(__name__)

FILE = Path("config/kiqbridge.yml")
"""Read when it exists and -C names no other."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sidekiq's flags, from the settings table."""
    for setting in SETTINGS:
        if not setting.flags:
            continue
        parser.add_argument(
            *setting.flags,
            dest=setting.name,
            help=f"{setting.help} (default: {shown_default(setting)})"
            + (f" [{', '.join(setting.env)}]" if setting.env else ""),
            action="append" if isinstance(setting.default, list) else "store",
            metavar=setting.metavar,
            nargs="?" if setting.default is False else None,  # a switch needs no value
            const="true" if setting.default is False else None,
        )
        if setting.switches:
            parser.add_argument(
                *setting.switches,
                dest=setting.name,
                action="store_const",
                const=setting.switch_value,
                help=f"the same as {setting.flags[0]} {setting.switch_value}",
            )
    add(parser, "-C --config PATH", f"YAML file (default: {FILE} if it exists)")
    text = "for development: start the worker anew when a Python file below this directory, or below the directory of -r, "
    text += "has changed; running jobs finish or go back to their queues"
    add(parser, "--reload", text)
    add_example(parser, "kiqbridge worker -r worker/jobs -c 10 -q critical,3 -q default")


def run(options: argparse.Namespace) -> int:
    """Run a worker until TERM or INT; ends the process itself once all is given back.

    Raises:
        ConfigError: a setting is wrong or the jobs' code cannot be loaded; nothing has begun.
    """
    config, warnings = load_config(options, os.environ)
    if options.reload:
        from kiqbridge.commands import reloader  # noqa: PLC0415 - loaded where it is asked for

        return reloader.run(config, options, Path(options.config or FILE))
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)  # a crash in C shows in which job it happened
    redaction.configure(config.redact)
    configure_logging(config.log_level, config.log_format, attributes=config.logged_job_attributes)
    for warning in warnings:
        logger.warning(warning)
    notifier = take_notifier()
    ignore_others()
    end_while_loading()
    for prepare in seams.found("prepare", config):
        prepare(config)
    load_all(config.require)
    _refuse_other_threads()
    # For child processes, whenever they start.
    config = replace(config, require=resolved(config.require))
    for declare in seams.found("jobs", config):
        declare(config)
    config = _with_queues(config)
    # Not by the interpreter's own exit: a thread that is stuck, or standard output that is not read,
    # would hang it, and nothing is left to do.
    return ending.end_process(_status_of(lambda: _work(config, notifier)))


def _refuse_other_threads() -> None:
    """Called before the engine starts, with the users' code loaded: an extension may have enabled the GIL.

    Raises:
        ConfigError: a library has replaced Python's threads or sockets, under which ours would wait for ever; or threads
            run at the same time (docs/decisions/0019-with-the-gil.md).
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ConfigError(
            "this free-threaded Python runs without its interpreter lock (GIL), where the end of a job's time limit can "
            "leave a lock taken: start the worker with PYTHON_GIL=1, or with a Python that has the GIL; more processes "
            "(--processes) use more cores"
        )
    patched = patched_by()
    if patched is not None:
        library, module = patched
        raise ConfigError(
            f"{library} has replaced Python's {module}, as monkey.patch_all() does, and a worker cannot run with that: it needs "
            "threads of the operating system; leave the patch out of the code that -r loads, and raise the concurrency "
            "(-c) or write `async def` jobs in its place"
        )


def _with_queues(config: Config) -> Config:
    """The settings once the jobs are loaded.

    Raises:
        ConfigError: none is declared, and `allow_no_jobs` does not say that this is meant.
    """
    if not len(default_registry):
        required = " ".join(f"-r {each}" for each in config.require)
        what = f"{required} declares no job" if required else "no code is named that declares jobs"
        text = f"{what}: each job that comes would fail; "
        if not config.allow_no_jobs:
            raise ConfigError(
                f"{text}name with -r the module, file or directory that holds the @job functions or Job classes, or "
                "start with --allow-no-jobs if this worker is to have none"
            )
        logger.warning("%sthat is allowed by allow_no_jobs", text)
    chosen = with_default_queues(config, default_registry, server.capsules)
    if chosen.queues != config.queues:
        names = ", ".join(name for name, _ in chosen.queues)
        logger.info("no queues are named: those of the declared jobs are served: %s", names)
    return chosen


def _work(config: Config, notifier: Notifier) -> int:
    if is_supervised(config):
        _supervise(config, notifier)
        return 0
    inbox = SignalInbox(config.timeout_s + KILL_S)
    inbox.trap()
    return _run_until_stopped(Launcher(config, notifier=notifier), inbox)


def _status_of(work: Callable[[], int]) -> int:
    """The status to end with; the reason of a failure is written to standard error."""
    try:
        return work()
    except KiqbridgeError as error:
        ending.flush_output()  # so that the reason is the last line, after those of the log
        ending.write_to_stderr(f"kiqbridge: {error}")
        return 3 if isinstance(error, RedisUnavailable) else 1
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process ends, and says why
        user_code.log_error(logger, error, "the process could not continue")
        return 1


def load_config(
    options: argparse.Namespace, environ: Mapping[str, str]
) -> tuple[Config, list[str]]:
    """The configuration and what is odd about it.

    Raises:
        ConfigError: names setting, value and source.
    """
    flags = {setting.name: getattr(options, setting.name, None) for setting in SETTINGS}
    path = Path(options.config) if options.config else FILE
    if options.config and not path.is_file():
        raise ConfigError(f"-C {options.config}: there is no such file")
    content = read_file(path, environ) if path.is_file() else {}
    warnings: list[str] = []
    config = merge(
        file=content, file_name=str(path), environ=environ, flags=flags, warn=warnings.append
    )
    return config, warnings


def is_supervised(config: Config) -> bool:
    """Whether the settings ask for a supervisor: several processes, or a ceiling that needs one."""
    return surroundings.process_count(config.processes) > 1 or config.max_memory_mb > 0


def _supervise(config: Config, notifier: Notifier) -> None:
    """Run several worker processes until TERM or INT.

    Raises:
        KiqbridgeError: none of them could start.
    """
    # Most workers need no code of it.
    from kiqbridge.commands.supervisor import Supervisor  # noqa: PLC0415
    from kiqbridge.engine.compose import load_before_fork  # noqa: PLC0415

    load_before_fork()

    def work(inbox: SignalInbox, link: "SupervisorLink") -> None:
        launcher = Launcher(
            config,
            on_registered=link.registered,
            supervisor=link.supervisor,
            has_reached_redis=link.has_reached_redis,
        )
        status = _run_until_stopped(launcher, inbox)
        if status:
            raise SystemExit(status)

    folder, pid = run_folder(config.run_dir), os.getpid()
    tag, set_title = config.tag or Path.cwd().name, surroundings.title_setter()

    def look() -> Report:
        # Faults of a child are reported in the line, but do not stop the watchdog's messages: the
        # supervisor replaces that child, and systemd need not restart all.
        report = surroundings.report_on_children(folder, pid)
        return Report("; ".join([report.line, *report.faults]), ())

    notifier.start(look, in_thread=False)
    Supervisor(
        config, work, notifier, lambda text: set_title(surroundings.supervisor_title(text, tag))
    ).run()


def _run_until_stopped(launcher: Launcher, inbox: SignalInbox) -> int:
    """Start on a thread of its own, so that TERM is handled while Redis is still awaited.

    Returns the status to end the process with.

    Raises:
        KiqbridgeError: the start failed, and waiting does not change that.
    """
    failures: list[BaseException] = []
    job_forks.install()
    descriptors.watch(launcher.end_without_descriptors)

    def start() -> None:
        try:
            launcher.start(inbox.put)
        except BaseException as error:  # noqa: BLE001 - raised again on the main thread
            failures.append(error)
            inbox.put("TERM")

    threading.Thread(target=start, name="kiqbridge-start", daemon=True).start()
    while (name := _next(inbox)) not in ENDING:
        user_code.call(_obey, launcher, name, log=logger, failed=f"{shorten(name)} failed")
    if failures:
        launcher.abandon_start()
        raise _as_start_error(failures[0])
    again = "; Ctrl-C once more gives them back and interrupts them now" if name == "INT" else ""
    said = "%s: stopping; running jobs have %g s to end%s"
    steps = Steps(logger)
    steps.take(
        ("logging the stop", lambda: logger.info(said, name, launcher.timeout_s, again)),
        ("listening for a second Ctrl-C", lambda: _listen(launcher, inbox)),
        ("the stop", launcher.stop),
        ("logging the end", lambda: logger.info("bye")),
    )
    return launcher.exit_status or int(bool(steps.failed))


def _listen(launcher: Launcher, inbox: SignalInbox) -> None:
    try:
        threading.Thread(
            target=_hurry, args=(launcher, inbox), name="kiqbridge-hurry", daemon=True
        ).start()
    except CANNOT_START as error:
        logger.warning(
            "no thread can be started (%s): a second Ctrl-C is not noticed, and running jobs have all of their time",
            error,
        )


def _hurry(launcher: Launcher, inbox: SignalInbox) -> None:
    while _next(inbox) != inbox.hurry:  # another TERM changes nothing
        pass
    logger.warning("INT: running jobs are given back and interrupted now")
    launcher.hurry()


def _next(inbox: SignalInbox) -> str:
    """The next signal; errors of any kind are logged, and it waits again."""
    while True:
        try:
            return inbox.wait()
        except BaseException as error:  # noqa: BLE001 - see above
            user_code.log_error(logger, error, "waiting for signals failed; it is tried again")
            time.sleep(1)  # what made it fail may still be there


def _obey(launcher: Launcher, name: str) -> None:
    if name == "TSTP":
        launcher.quiet()
    elif name == "TTIN":
        parts = launcher.parts
        key, running = parts.keys.stacks(launcher.identity), parts.running_jobs()
        dump_threads(parts.pool, key, running, parts.stacks_elsewhere())
    else:
        shown = shorten(name)  # anybody can write to the list
        logger.warning("unknown signal %s is ignored; known are TERM, INT, TSTP and TTIN", shown)


def _as_start_error(error: BaseException) -> BaseException:
    """An error of the start as one line; the traceback of an unexpected one is logged."""
    if isinstance(error, KiqbridgeError):
        return error
    user_code.log_error(logger, error, "the start failed")
    start_error = KiqbridgeError(
        f"the start failed: {type(error).__name__}: {error_message(error)}"
    )
    start_error.__cause__ = error
    return start_error
