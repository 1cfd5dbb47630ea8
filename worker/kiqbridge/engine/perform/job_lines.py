"""The lines of each job in the log: `start`, then `done` or `fail` with elapsed seconds, and why (protocol §16).

Two lines per job are most of what a worker logs, so `JobLines` writes them past the logging module
where no other handler listens: same text, a tenth of the time.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any

from kiqbridge.client.current import LOG_CONTEXT
from kiqbridge.client.registry import JobDefinition
from kiqbridge.engine.perform.job_logger import JSONFormatter, LineFormatter
from kiqbridge.engine.settle.notifications import job_logger as logger
from kiqbridge.engine.settle.notifications import shown_arguments
from kiqbridge.runtime import user_code
from kiqbridge.runtime.logs import log_level
from kiqbridge.runtime.logs.log_writer import LogWriter

SKIP_OPTION = "skip_default_job_logging"
"""Option of a class whose jobs log no `start`, `done` and `fail`."""

_FORMATTERS = (LineFormatter, JSONFormatter)


class JobLines:
    """`start`, and `done` or `fail`, of each job; one for all threads of a process.

    Args:
        skip: log none of them (`skip_default_job_logging`).
    """

    def __init__(self, *, skip: bool = False) -> None:
        self._skip = skip
        self._root = logging.getLogger()
        self._package = logging.getLogger("kiqbridge")
        self._writer: LogWriter | None = None
        self._formatter: Any = None  # one of _FORMATTERS

    def start(
        self, payload: Mapping[str, Any], queue: str, definition: JobDefinition | None = None
    ) -> str | None:
        """Log that a job begins; `CONTEXT` must be set. At level debug it shows the arguments.

        Args:
            payload: the job.
            queue: where it came from.
            definition: of its class, if there is one; for `skip_default_job_logging` and the names
                of the arguments.

        Returns:
            What `end` is to be given: None = log nothing.
        """
        if self._skip or not logger.isEnabledFor(logging.INFO):
            return None
        if SKIP_OPTION in payload:
            if payload[SKIP_OPTION]:
                return None
        elif definition is not None and definition.options.get(SKIP_OPTION):
            return None
        if logger.isEnabledFor(logging.DEBUG) or not self._is_direct():
            _say("start", shown_arguments(payload, definition))
            return ""
        formatter = self._formatter
        context: str = formatter.job_context(payload, queue)
        self._writer.write(formatter.job_line(time.time(), "start", context, None))  # type: ignore[union-attr] # _is_direct has set it
        return context

    def end(self, context: str | None, message: str, elapsed_s: float) -> None:
        """Log how it ended: `done` or `fail`, or another message without quotes in it."""
        if context is None:
            return
        elapsed = round(elapsed_s, 3)
        if context and self._is_direct():
            line = self._formatter.job_line(time.time(), message, context, elapsed)
            self._writer.write(line)  # type: ignore[union-attr] # as in start
        else:
            _say(message, {"elapsed": elapsed})

    def _is_direct(self) -> bool:
        """Whether our writer alone gets these lines; other handlers get records as usual."""
        handlers = self._root.handlers
        if len(handlers) != 1:
            return False
        writer = handlers[0]
        if writer is not self._writer or writer.formatter is not self._formatter:
            if type(writer) is not LogWriter or type(writer.formatter) not in _FORMATTERS:
                return False
            self._writer, self._formatter = writer, writer.formatter
        return not (
            writer.filters
            or writer.level > logging.INFO
            or LOG_CONTEXT.get()
            or logger.handlers
            or logger.filters
            or self._package.handlers
            or self._package.filters
            or not (logger.propagate and self._package.propagate)
            or log_level.are_active()
        )


def _say(message: str, extra: dict[str, Any] | None) -> None:
    """Log, whatever a user's log handler raises: such an error has nothing to do with the job."""
    try:
        logger.info(message, extra=extra)
    except BaseException as error:  # noqa: BLE001 - a job that is done must not run again because of it
        user_code.log_error(logger, error, "the line %s of a job could not be written", message)
