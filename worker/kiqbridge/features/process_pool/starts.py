"""Whether children can start. While none can, no job of the pool is taken, and it is tried again at growing pauses."""

import logging
import time
from collections.abc import Callable

from kiqbridge.engine.perform.execution import NotBegun
from kiqbridge.engine.perform.slots import Slots
from kiqbridge.errors import ProcessDied
from kiqbridge.runtime.role import Role

logger = logging.getLogger(__name__)

TRY_AGAIN_S = 1.0
MOST_S = 30.0
"""Seconds between two tries: the first pause, each is twice the one before, and the longest."""

_TROUBLE = "process pool"


class Starts:
    """How the last start of a child went.

    Args:
        slots: shut while none can start.
        starter: the thread that tries; its worker is not ready then.
        ring: wakes it.
    """

    def __init__(self, slots: Slots, starter: Role, ring: Callable[[], None]) -> None:
        self._slots = slots
        self._starter = starter
        self._ring = ring
        self._pause_s = TRY_AGAIN_S
        self._try_at: float | None = None
        """On `time.monotonic`; None: children can start, as far as it is known."""

    def failed(self, error: Exception) -> str:
        """Take no jobs of this pool until a child has started, which is tried again and again; what happened."""
        self._slots.shut()
        why = str(error)
        if not isinstance(error, ProcessDied | NotBegun):
            why = f"a child process cannot be started: {type(error).__name__}: {error}"
        what = f'jobs of pool="process" cannot run here: {why}'
        if self._try_at is None:
            self._try_at = time.monotonic() + self._pause_s
            self._ring()
            logger.error(
                "%s; their jobs stay in their queues for other workers, it is tried again in %.0f to %.0f s",
                what,
                TRY_AGAIN_S,
                MOST_S,
            )
        self._starter.troubles.set(
            _TROUBLE, f"{what}; start this worker anew if its code has moved"
        )
        return what

    def worked(self) -> None:
        """A child has started."""
        if self._try_at is None:
            return
        self._try_at, self._pause_s = None, TRY_AGAIN_S
        self._starter.troubles.clear(_TROUBLE)
        self._slots.open()
        logger.warning('child processes for jobs of pool="process" start again')

    def end(self) -> None:
        """Try no more."""
        self._try_at = None

    def wait_s(self, most: float) -> float:
        """Seconds until it is to be tried again, at most so many."""
        return most if self._try_at is None else min(most, max(self._try_at - time.monotonic(), 0))

    def is_due(self) -> bool:
        """Whether it is to be tried again now; then it is due again after twice the pause."""
        if self._try_at is None or time.monotonic() < self._try_at:
            return False
        self._pause_s = min(2 * self._pause_s, MOST_S)
        self._try_at = time.monotonic() + self._pause_s
        return True
