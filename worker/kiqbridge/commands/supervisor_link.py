"""What a child of the supervisor knows of its parent: reports go up, and its end is noticed."""

import json
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from kiqbridge.runtime import descriptors

logger = logging.getLogger(__name__)

_LONGEST_MESSAGE = 600
"""Characters of an error, each at most 6 bytes as JSON: a report longer than PIPE_BUF (4096 bytes)
might not be written whole."""


class SupervisorLink:
    """A child's ends of the two pipes between it and its supervisor.

    Args:
        supervisor: its pid.
        reports: the descriptor that the child writes its reports to, one JSON object a line.
        lifeline: a descriptor to which nothing is written: reading it ends when the supervisor does.
        has_reached_redis: a process of this supervisor has reached Redis.
    """

    def __init__(
        self,
        *,
        supervisor: int,
        reports: int,
        lifeline: int,
        has_reached_redis: bool,
    ) -> None:
        self.supervisor = supervisor
        self.has_reached_redis = has_reached_redis
        self._reports = reports
        self._end = descriptors.Descriptor(reports)
        self._lifeline = lifeline

    def registered(self, incarnation: str) -> None:
        """Report under which incarnation this process holds its jobs; repeated with each beat."""
        self._report({"pid": os.getpid(), "incarnation": incarnation})

    def failed(self, message: str) -> None:
        """Report why this process ends."""
        self._report({"pid": os.getpid(), "error": message[:_LONGEST_MESSAGE]})

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call `on_end` on a thread of its own when the supervisor has ended, for whatever reason."""

        def watch() -> None:
            os.read(self._lifeline, 1)
            logger.warning("the supervisor has ended: this process stops as after TERM")
            on_end()

        threading.Thread(target=watch, name="kiqbridge-supervisor-link", daemon=True).start()

    def _report(self, report: dict[str, object]) -> None:
        # Never waited for: a supervisor that is stopped must not hold up the lease's beat.
        if descriptors.is_watching:
            self._end.check()
        with suppress(OSError):
            text = json.dumps(report, ensure_ascii=False)
            os.write(self._reports, text.encode(errors="replace") + b"\n")
