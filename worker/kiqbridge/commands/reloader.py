"""`kiqbridge worker --reload`: a worker that is started anew when the code of its jobs has changed.

1. The worker runs as a child, with all flags but this one.
2. A file has changed and can be compiled: the child gets TERM, so that running jobs finish within the time-out or
   go back to their queues, and the next one is started when it has ended. No job is lost.
3. It cannot be compiled: the reason is logged, and the worker goes on with the former code.
4. The new worker cannot start, or has died: the next change starts another.

TERM, INT, TSTP and TTIN are passed on to the worker. After TERM or INT this process ends with it.
"""

import argparse
import contextlib
import logging
import os
import queue
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kiqbridge.config.config import SETTINGS, Config
from kiqbridge.dev import child_process
from kiqbridge.dev.source_watch import MAX_FILES, SourceWatch, folders_of
from kiqbridge.engine.host.signals import ENDING, NAMES
from kiqbridge.engine.perform.job_logger import configure_logging
from kiqbridge.engine.stop import KILL_S, LAST_STEPS_S
from kiqbridge.errors import ConfigError

if TYPE_CHECKING:
    import subprocess

logger = logging.getLogger(__name__)

_SPARE_S = 5.0
"""Beyond the time in which a worker ends by itself; then it is killed, and its jobs go back to their queues."""


def check(config: Config) -> None:
    """Refuse to reload where that makes no sense.

    Raises:
        ConfigError: several processes or production are asked for, too.
    """
    if config.processes != 1 or config.max_memory_mb:
        raise ConfigError(
            "--reload runs one process; leave out --processes and --max-memory-mb, or restart the processes with "
            "USR2 when the code has changed"
        )
    if config.environment == "production":
        raise ConfigError(
            "--reload is for development, and the environment is production (-e, APP_ENV): a file that is being "
            "deployed would restart the worker; leave it out"
        )


def run(config: Config, options: argparse.Namespace, settings: Path) -> int:
    """Run until TERM or INT, and return the exit code of the last worker.

    Args:
        config: the settings.
        options: the command line.
        settings: the settings file, which is watched too.

    Raises:
        ConfigError: as `check`.
    """
    check(config)
    configure_logging(config.log_level, config.log_format)
    watch = SourceWatch(folders_of(config.require), [settings])
    command = [sys.executable, "-m", "kiqbridge", "worker", *arguments_of(options)]
    return Reloader(
        command, watch, patience_s=config.timeout_s + KILL_S + LAST_STEPS_S + _SPARE_S
    ).run()


def arguments_of(options: argparse.Namespace) -> list[str]:
    """The command line again, without `--reload`."""
    words = ["-C", options.config] if options.config else []
    for setting in SETTINGS:
        value = getattr(options, setting.name, None)
        given = value if isinstance(value, list) else [value]
        words += [f"{setting.flags[-1]}={each}" for each in given if each is not None]
    return words


class Reloader:
    """The parent of the worker; single-threaded.

    Args:
        command: starts the worker.
        watch: of its code.
        patience_s: seconds that it has to end.
    """

    def __init__(self, command: Sequence[str], watch: SourceWatch, *, patience_s: float) -> None:
        self._command = command
        self._watch = watch
        self._patience_s = patience_s
        self._child: subprocess.Popen[bytes] | None = None
        self._kill_at: float | None = None
        self._is_ending = False
        self._status = 0
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def run(self) -> int:
        """Until TERM or INT; the exit code of the last worker."""
        for number in (*(signal.Signals[f"SIG{name}"] for name in NAMES), signal.SIGCHLD):
            signal.signal(number, lambda number, _frame: self._signals.put(number))
        self._start()
        if not self._watch.is_complete:
            logger.warning(
                "only the first %d Python files below this directory are watched; start in the project's own",
                MAX_FILES,
            )
        while True:
            with contextlib.suppress(queue.Empty):
                number = signal.Signals(self._signals.get(timeout=self._watch.pause_s))
                self._is_ending |= number.name.removeprefix("SIG") in ENDING
                if self._child is not None and number is not signal.SIGCHLD:  # which wakes us alone
                    self._child.send_signal(number)
            if self._child is not None and self._child.poll() is not None:
                self._collect(self._child.returncode)
            if self._child is None and self._is_ending:
                return self._status
            if not self._is_ending:
                self._look()
            if self._child and self._kill_at is not None and time.monotonic() > self._kill_at:
                logger.error("the worker did not end in time and is killed; its jobs go back")
                self._child.kill()

    def _start(self) -> None:
        self._watch.mark_start()  # before it reads them: what changes from now on is noticed
        # Byte code is looked up by whole seconds: two edits within one would run the former code.
        environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self._kill_at = None
        self._child = child_process.spawn(self._command, when_we_die=signal.SIGTERM, env=environ)

    def _look(self) -> None:
        change = self._watch.look()
        if change is None:
            return
        if change.fault:
            still = "the worker continues with the former code" if self._child else "no worker runs"
            logger.error(
                "%s and cannot be compiled; %s until the next change\n%s",
                change,
                still,
                change.fault,
            )
        elif self._child is None:
            logger.info("%s: the worker is started", change)
            self._start()
        elif self._kill_at is None:
            logger.info("%s: the worker is restarted; running jobs end or are given back", change)
            self._kill_at = time.monotonic() + self._patience_s
            self._child.terminate()

    def _collect(self, status: int) -> None:
        """The worker has ended; what follows."""
        was_asked, self._child, self._kill_at = self._kill_at is not None, None, None
        if self._is_ending:
            self._status = status if status >= 0 else 128 - status  # as shells say it
        elif was_asked:
            self._start()
        elif status == 0:  # by the Stop button of a page, or kiqbridge stop
            self._is_ending = True
        else:
            said = f"exit code {status}" if status > 0 else f"signal {-status}"
            logger.error("the worker has ended (%s); it is started again when a file changes", said)
