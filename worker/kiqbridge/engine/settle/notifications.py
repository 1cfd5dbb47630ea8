"""Where a failure is reported: in the log, and to error and death handlers, which a thread of its own calls.

A handler may take long, as one that reports to a tracker which is away. The thread that acknowledges jobs must
not wait for it: finished jobs would stay in flight, and run again should the process die. One thread
calls all handlers, one after the other. What it cannot keep up with is dropped and counted, since each
call holds an error with all frames that it went through.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiqbridge.client import rails
from kiqbridge.client.registry import JobDefinition
from kiqbridge.client.server import Server
from kiqbridge.engine.settle.error_report import error_message
from kiqbridge.runtime import redaction, user_code
from kiqbridge.runtime.logs import log_level
from kiqbridge.runtime.role import LazyRole

logger = logging.getLogger(__name__)

job_logger = logging.getLogger("kiqbridge.job")
"""Says of each job `start`, `done`, `fail`, and why; a name of its own, so that it can be silenced alone."""

_SHOWN = 500
"""Characters of an error's first line in the log."""

MAX_WAITING = 5000
"""Calls that may wait. With tracebacks they hold some tens of megabytes."""

REPORT_S = 10.0
"""Seconds between two warnings about dropped calls."""

Notification = Callable[[], object]
"""Calls the handlers of one failed job."""


class Handlers:
    """Calls the error and death handlers of `server`; what they raise is logged and ends nothing."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def listens(self, *, died: bool) -> bool:
        """Whether anybody listens to an error, or to a job that is dead or discarded."""
        return bool(self._server.error_handlers or (died and self._server.death_handlers))

    def report(self, error: BaseException, context: Mapping[str, Any]) -> None:
        """Call the error handlers."""
        for handler in self._server.error_handlers:
            user_code.call(handler, error, context, log=logger, failed="a handler failed")

    def died(self, payload: Mapping[str, Any], error: BaseException) -> None:
        """Call the death handlers, for a job that is dead or discarded."""
        for handler in self._server.death_handlers:
            user_code.call(handler, payload, error, log=logger, failed="a handler failed")


class Notifications:
    """The thread that calls handlers; started by the first call.

    Attributes:
        dropped: how many calls were not made, since too many waited.
    """

    def __init__(self, most: int = MAX_WAITING) -> None:
        self.dropped = 0
        self._most = most
        self._waiting: deque[Notification] = deque()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._busy = False
        self._closed = False
        self._report_at = 0.0
        self._thread = LazyRole(
            "handlers", self._call_all, without="no error and death handlers are called"
        )

    def __repr__(self) -> str:
        return f"<Notifications {len(self._waiting)} waiting, {self.dropped} dropped>"

    @property
    def waiting(self) -> int:
        """How many calls wait or are being made."""
        return len(self._waiting) + self._busy

    def add(self, notifications: Sequence[Notification]) -> None:
        """Make these calls soon, in order; returns at once."""
        if not notifications:
            return
        with self._lock:
            room = 0 if self._closed else self._most - len(self._waiting)
            self._waiting.extend(notifications[: max(room, 0)])
            self.dropped += max(len(notifications) - max(room, 0), 0)
            is_late = room < len(notifications) and time.monotonic() >= self._report_at
            if is_late:
                self._report_at = time.monotonic() + REPORT_S
            self._changed.notify_all()
        if not self._closed:
            self._thread.wake()
        if is_late:
            logger.warning(
                "error and death handlers are too slow for the jobs that fail: %d calls wait, %d were "
                "dropped so far; the jobs themselves are settled; make the handlers faster",
                len(self._waiting),
                self.dropped,
            )

    def stop(self, timeout_s: float) -> None:
        """Wait up to so many seconds until all calls are made; later ones are dropped."""
        with self._lock:
            self._changed.wait_for(lambda: not self.waiting, max(timeout_s, 0))
            self._closed = True
            left = self.waiting
            self.dropped += len(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        self._thread.stop(0)
        if left:
            logger.warning(
                "error and death handlers did not finish within %.1f s: %d calls were not made or are "
                "cut short; the jobs themselves are settled",
                timeout_s,
                left,
            )

    def _call_all(self) -> None:
        while (notify := self._next()) is not None:
            user_code.call(notify, log=logger, failed="calling the handlers of a failed job failed")
            del notify  # else the last error and its frames are kept until the next one

    def _next(self) -> Notification | None:
        with self._lock:
            if self._busy:
                self._busy = False
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                return None
            self._busy = True
            return self._waiting.popleft()


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
    if not job_logger.isEnabledFor(logging.WARNING):
        return
    try:
        extra = shown_arguments(payload, definition)
        line = error_message(error).partition("\n")[0]
        if len(line) > _SHOWN:  # enough to know it; the backtrace below has all of it
            line = f"{line[:_SHOWN]}…"
        message = redaction.current().text(line)
        with log_level.at_usual_level():  # a job may be terse, but not fail unseen
            job_logger.warning(
                "%s: %s; it %s", type(error).__name__, message, outcome, exc_info=error, extra=extra
            )
    except BaseException as unreadable:  # noqa: BLE001 - its text is a user's code, and so are log handlers
        user_code.log_error(
            job_logger,
            unreadable,
            "a job failed with %s; it %s; more could not be written",
            type(error).__qualname__,
            outcome,
        )


def shown_arguments(
    payload: Mapping[str, Any], definition: JobDefinition | None
) -> dict[str, Any] | None:
    """At level debug, the arguments as a line may show them."""
    if not job_logger.isEnabledFor(logging.DEBUG):
        return None
    signature = definition.signature if definition is not None else None
    return {
        "arguments": redaction.current().arguments(
            rails.shown_arguments(payload, definition), signature
        )
    }
