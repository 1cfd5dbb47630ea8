"""The lines of each job in the log: `start`, then `done` or `fail` with elapsed seconds, and why (protocol §16).

Two lines per job are most of what a worker logs, so `JobLines` writes them past the logging module
where nobody else listens: same text, a tenth of the time.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any

from kiqbridge import redaction
from kiqbridge.client import rails
from kiqbridge.client.current import LOG_CONTEXT
from kiqbridge.client.registry import JobDefinition
from kiqbridge.logs import log_level
from kiqbridge.logs.log_writer import LogWriter
from kiqbridge.perform.job_logger import JSONFormatter, LineFormatter
from kiqbridge.runtime import user_code
from kiqbridge.settle.failed_payload import error_message

logger = logging.getLogger("kiqbridge.job")
"""Says `start`, `done`, `fail`, and why; a name of its own, so that it can be silenced alone."""

SKIP_OPTION = "skip_default_job_logging"
"""Option of a class whose jobs log no `start`, `done` and `fail`."""

_FORMATTERS = (LineFormatter, JSONFormatter)
_SHOWN = 500


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
            _say("start", _arguments(payload, definition))
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
        """Whether our writer alone gets these lines; whoever else listens gets records as usual."""
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


def log_failure(
    error: BaseException,
    outcome: str,
    payload: Mapping[str, Any],
    definition: JobDefinition | None = None,
) -> None:
    """Log that a job failed: class and message of the error and what becomes of the job, and the backtrace.

    The line carries the job's context (§16); its arguments only at level debug, without secrets.

    Args:
        error: what it raised.
        outcome: such as `is tried again in 15 s`.
        payload: the job.
        definition: of its class, for the names of its arguments.
    """
    if not logger.isEnabledFor(logging.WARNING):
        return
    try:
        _log_failure(error, outcome, payload, definition)
    except BaseException as unreadable:  # noqa: BLE001 - its text is a user's code, and so are log handlers
        user_code.log_error(
            logger,
            unreadable,
            "a job failed with %s; it %s; more could not be written",
            type(error).__qualname__,
            outcome,
        )


def _say(message: str, extra: dict[str, Any] | None) -> None:
    """Log, whatever a user's log handler raises: such an error has nothing to do with the job."""
    try:
        logger.info(message, extra=extra)
    except BaseException as error:  # noqa: BLE001 - a job that is done must not run again because of it
        user_code.log_error(logger, error, "the line %s of a job could not be written", message)


def _log_failure(
    error: BaseException,
    outcome: str,
    payload: Mapping[str, Any],
    definition: JobDefinition | None,
) -> None:
    extra = _arguments(payload, definition)
    message = redaction.current().text(_first_line(error_message(error)))
    with log_level.at_usual_level():  # a job may be terse, but not fail unseen
        logger.warning(
            "%s: %s; it %s", type(error).__name__, message, outcome, exc_info=error, extra=extra
        )


def _arguments(
    payload: Mapping[str, Any], definition: JobDefinition | None
) -> dict[str, Any] | None:
    """At level debug, the arguments as a line may show them."""
    if not logger.isEnabledFor(logging.DEBUG):
        return None
    signature = definition.signature if definition is not None else None
    return {
        "arguments": redaction.current().arguments(
            rails.shown_arguments(payload, definition), signature
        )
    }


def _first_line(message: str) -> str:
    """Enough to know it; the backtrace below has all of it."""
    line = message.partition("\n")[0]
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
