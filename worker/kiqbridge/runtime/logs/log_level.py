"""The log level of one job: `log_level` in its payload (protocol §3.2, §7.1 step 1).

Loggers ask for their level before anything else, and that answer is one for the process. So while a job
with a level of its own runs, the root logger lets through what the lowest of these jobs wants, and a
filter on the root's handlers drops what the running job, thread or task did not ask for. Without
such jobs there is no filter and no cost.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Final

from kiqbridge.runtime import job_forks
from kiqbridge.runtime.redaction import shorten

logger = logging.getLogger(__name__)

OPTION: Final = "log_level"
"""The attribute of a payload."""

_LEVEL: ContextVar[int | None] = ContextVar("kiqbridge_log_level", default=None)

_NAMES = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "critical": logging.CRITICAL,
}
_RUBY_NUMBERS = tuple(sorted(set(_NAMES.values())))


def parse_level(value: object) -> int | None:
    """Python's number for `debug` … `fatal` or Ruby's 0 … 4; None when it is neither."""
    if isinstance(value, str):
        return _NAMES.get(value.strip().lower())
    if type(value) is int and 0 <= value < len(_RUBY_NUMBERS):
        return _RUBY_NUMBERS[value]
    return None


class _Overrides(logging.Filter):
    """Which levels running jobs have asked for; on the root's handlers while there are any."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._levels: list[int] = []
        self._root = logging.getLogger()
        self._usual = logging.NOTSET
        self._lowered = logging.NOTSET
        self._filtered: list[logging.Handler] = []

    def renew_lock(self) -> None:
        """In a forked child: the thread that held the lock may not be there."""
        self._lock = threading.Lock()

    @property
    def are_active(self) -> bool:
        return bool(self._levels)

    def begin(self, level: int) -> None:
        with self._lock:
            if not self._levels:
                self._usual = self._lowered = self._root.level
            self._levels.append(level)
            self._apply()

    def end(self, level: int) -> None:
        with self._lock:
            self._levels.remove(level)
            self._apply()

    def filter(self, record: logging.LogRecord) -> bool:
        level = _LEVEL.get()
        if level is not None:
            return record.levelno >= level
        return record.levelno >= self._usual or record.levelno >= self._usual_level(record.name)

    def _usual_level(self, name: str) -> int:
        """Of a logger, as if no job had asked for anything."""
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None and logger is not self._root:
            if logger.level:
                return logger.level
            logger = logger.parent
        return self._usual

    def _apply(self) -> None:
        """The filter goes on before the level goes down, and off after it is up again."""
        if self._root.level != self._lowered:  # someone else has set it meanwhile: that counts now
            self._usual = self._root.level
        if self._levels:
            for handler in self._root.handlers:
                if self not in handler.filters:
                    handler.addFilter(self)
                    self._filtered.append(handler)
        self._lowered = min([self._usual, *self._levels])
        if self._root.level != self._lowered:
            self._root.setLevel(self._lowered)
        if not self._levels:
            for handler in self._filtered:
                handler.removeFilter(self)
            self._filtered.clear()


_overrides = _Overrides()


def are_active() -> bool:
    """Whether a job with a level of its own runs anywhere in this process."""
    return _overrides.are_active


def begin_job(payload: Mapping[str, Any]) -> Token[int | None] | None:
    """Log at the level that a job's payload asks for what this thread or task logs from now on.

    A logger's own higher level stays.

    Returns:
        What `end_job` is given at the end; None where nothing has changed: what is no level is logged
        and ignored.
    """
    wanted = payload.get(OPTION)
    level = parse_level(wanted)
    if level is None:
        if wanted is not None:
            logger.warning(
                "log_level: %s is not debug, info, warn, error or fatal, nor 0 to 4; the job runs at the "
                "worker's level",
                shorten(wanted),
            )
        return None
    token = _LEVEL.set(level)
    _overrides.begin(level)
    return token


def end_job(token: Token[int | None]) -> None:
    """The job that began with `begin_job` has ended."""
    level = _LEVEL.get()
    if level is not None:
        _overrides.end(level)
    _LEVEL.reset(token)


@contextmanager
def at_usual_level() -> Iterator[None]:
    """Log within at the level of the worker, whatever the running job asked for."""
    token = _LEVEL.set(None)
    try:
        yield
    finally:
        _LEVEL.reset(token)


job_forks.on_child(_overrides.renew_lock)
