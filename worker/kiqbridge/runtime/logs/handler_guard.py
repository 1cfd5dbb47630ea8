"""Errors of log handlers and filters: in a process of a worker none leaves a log call.

An application's handler may begin to raise at any time, as when its collector is away. Python leaves it to each handler
to catch its errors (`Handler.handleError`), and many do not: then any line of anybody's log would end what logs it, a
job or the stop of the process. So here the error goes to standard error, and the other handlers get the record.
"""

import logging
import time
from collections import Counter
from contextlib import suppress
from typing import Final

from kiqbridge.errors import JobTimeout
from kiqbridge.runtime import redaction
from kiqbridge.runtime.logs.log_sink import DescriptorSink

REPORT_S: Final = 60.0
"""Seconds between two reports of the same kind of handler."""

_STDERR: Final = 2
_of_logger = logging.Logger.handle
_of_handlers = logging.Logger.callHandlers

_failed: Counter[str] = Counter()
_report_at: dict[str, float] = {}


def guard_handlers() -> None:
    """Let no error of a handler or filter leave a log call of this process, also of those that are added later."""
    logging.Logger.handle = _handle  # type: ignore[assignment, method-assign]
    if (
        logging.Logger.callHandlers is _of_handlers
    ):  # else somebody else calls them, and `_handle` has their errors
        logging.Logger.callHandlers = _call_handlers  # type: ignore[assignment, method-assign]


def _handle(logger: logging.Logger, record: logging.LogRecord) -> None:
    try:
        _of_logger(logger, record)
    except JobTimeout:
        raise  # the job's, which logs: it is interrupted
    except Exception as error:  # noqa: BLE001 - see above
        _report(f"a filter or handler of logger {logger.name}", error)


def _call_handlers(logger: logging.Logger, record: logging.LogRecord) -> None:
    found, each = False, logger
    while True:
        for handler in each.handlers:
            found = True
            if record.levelno >= handler.level:
                try:
                    handler.handle(record)
                except JobTimeout:
                    raise
                except Exception as error:  # noqa: BLE001 - see above
                    kind = type(handler)
                    _report(f"the log handler {kind.__module__}.{kind.__qualname__}", error)
        if not each.propagate or each.parent is None:
            break
        each = each.parent
    if not found:
        _of_handlers(logger, record)  # what Python does without any


def _report(who: str, error: Exception) -> None:
    """Write it to standard error, once in a while; never waits for a reader, never raises."""
    with suppress(Exception):
        _failed[who] += 1
        if (now := time.monotonic()) < _report_at.get(who, 0.0):
            return
        _report_at[who] = now + REPORT_S
        text = (
            f"kiqbridge: {who} raises {type(error).__name__}: {error}; {_failed[who]} lines are missing there so far; the "
            "worker goes on, and its other handlers have them"
        )
        line = redaction.addresses(" ".join(text.split()))
        DescriptorSink(_STDERR).write(memoryview(f"{line}\n".encode(errors="backslashreplace")))
