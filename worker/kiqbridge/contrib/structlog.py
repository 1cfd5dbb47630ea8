"""structlog: the running job in the context of each event, and events in the form of Kiqbridge's own log.

    import structlog
    from kiqbridge.contrib import structlog as kiqbridge_structlog

    kiqbridge_structlog.install()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, kiqbridge_structlog.render_json])

`install` alone is enough for those who keep a form of their own.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import AbstractContextManager
from typing import Any, Final

from structlog.contextvars import bound_contextvars

from kiqbridge.client.current import log_context
from kiqbridge.client.middleware import AroundJob
from kiqbridge.client.server import server
from kiqbridge.engine.perform.job_logger import JSONFormatter, job_context

__all__ = ["install", "render_json"]

_LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
    "critical": logging.CRITICAL,
    "fatal": logging.CRITICAL,
}
_OURS: Final = frozenset({"event", "level", "timestamp", "exc_info"})
"""Members of an event that have a place of their own in a line."""

_formatter = JSONFormatter()


class BoundJob(AroundJob):
    """Server middleware that binds `class`, `jid` and `queue` to the context variables of structlog."""

    def within(self, payload: dict[str, Any], queue: str) -> AbstractContextManager[None]:
        """With them bound."""
        return bound_contextvars(**job_context(payload, queue, ()))


bound_job: Final = BoundJob()


def install() -> None:
    """Add the middleware, as the outermost; once, however often it is called."""
    server.middleware.prepend(bound_job)


def render_json(_logger: Any, method_name: str, event_dict: MutableMapping[str, Any]) -> str:
    """The last processor: a line as `KIQBRIDGE_LOG_FORMAT=json` writes it.

    The event is `msg`, its level `lvl`, an exception `exc`; all else is in `ctx`, with class, jid and queue of
    the running job. Values of keys with secret names are hidden, as in all lines.
    """
    level = str(event_dict.get("level", method_name))
    record = logging.LogRecord(
        "structlog",
        _LEVELS.get(level, logging.INFO),
        "",
        0,
        str(event_dict.get("event", "")),
        None,
        _exc_info(event_dict.get("exc_info")),
    )
    with log_context(**{name: each for name, each in event_dict.items() if name not in _OURS}):
        return _formatter.format(record)


def _exc_info(given: Any) -> Any:
    """As the standard library takes it; structlog takes True and an exception, too."""
    if isinstance(given, BaseException):
        return (type(given), given, given.__traceback__)
    if isinstance(given, tuple):
        return given
    return sys.exc_info() if given else None
