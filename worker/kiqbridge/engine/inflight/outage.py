"""While Redis is away, or refuses: one log line at the beginning and one at the end, and writes that are repeated meanwhile."""

import logging
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from kiqbridge.errors import KiqbridgeError, Shutdown
from kiqbridge.runtime import threads, user_code
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.role import Troubles

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""Seconds between tries while Redis is away."""

T = TypeVar("T")


SETTLING: Final = "writing what became of jobs, which stay in flight,"


class Outage:
    """Logs once that Redis is away, and once for how long it was; shared by all threads.

    Args:
        troubles: gets what does not pass by itself.
    """

    def __init__(self, troubles: Troubles | None = None) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None
        self._troubles = Troubles() if troubles is None else troubles
        self._refused: set[str] = set()

    def report(self, error: KiqbridgeError, work: str) -> None:
        """A call failed.

        Args:
            error: why.
            work: what it was for, as the subject of a sentence.
        """
        if not error.may_pass:
            self._refused.add(work)
            user_code.call(
                self._troubles.failed, work, error, log=logger, failed="a log handler failed"
            )
            return
        with self._lock:
            if self._since is not None:
                return
            self._since = lease_now()
        _log(logging.ERROR, "%s; trying again every second, running jobs go on", error)

    def over(self, work: str) -> None:
        """A call succeeded."""
        if self._refused and work in self._refused:
            self._refused.discard(work)
            user_code.call(self._troubles.worked, work, log=logger, failed="a log handler failed")
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            _log(logging.INFO, "Redis is back after %.1f s", lease_now() - since)


def retry_until_written(
    write: Callable[[], T], *, outage: Outage, wait: Callable[[float], bool]
) -> T:
    """Repeat a write until Redis has confirmed it, and return what it returned.

    What became of a claimed job must be confirmed before the job's claim is acknowledged. While Redis is away,
    or refuses the write, it is repeated every second, and the calling thread counts as alive (liveness.py).
    The caller holds no lock: `write` takes those it needs, for one attempt, so that during an outage others
    can look at the same jobs, and give up on them.

    Args:
        write: one attempt; repeating it does no harm, as is true of all scripts that settle jobs. Its
            errors other than `KiqbridgeError` are passed on.
        outage: for the log.
        wait: waits for so many seconds, and answers whether to give up: `threading.Event.wait`.

    Raises:
        Shutdown: given up; Redis may have carried out the write all the same, and nothing that depends on it
            may be acknowledged. What is not written stays in flight, and goes back to its queue with the lease.
    """
    while True:
        try:
            result = write()
        except KiqbridgeError as error:
            outage.report(error, SETTLING)
        else:
            outage.over(SETTLING)
            return result
        threads.beat()
        if wait(RETRY_S):
            raise Shutdown


def _log(level: int, message: str, *args: object) -> None:
    """Log, whatever a user's log handler raises: a chunk that was just claimed must not be lost by it."""
    user_code.call(logger.log, level, message, *args, log=logger, failed="a log handler failed")
