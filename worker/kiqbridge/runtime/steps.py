"""The way to the end of a process, as a list of steps: each is taken, whatever the ones before did."""

import logging
import time
from collections.abc import Callable

from kiqbridge.runtime import job_forks, user_code

Step = tuple[str, Callable[[], object]]
"""What it does, as the subject of a sentence, and how."""

SAY_AGAIN_S = 60.0
"""Seconds until a step that is taken again and again is logged once more, if it fails each time."""


class Steps:
    """Takes steps. Whatever one raises is logged, also an error that another thread raises in this one.

    Args:
        log: where.

    Attributes:
        failed: the steps that failed, each once.
    """

    def __init__(self, log: logging.Logger) -> None:
        self.failed: list[str] = []
        self._log = log
        self._say_at: dict[str, float] = {}

    def take(self, *steps: Step) -> None:
        """Take these, one after the other."""
        for what, step in steps:
            try:
                step()
            except BaseException as error:  # noqa: BLE001 - see above
                if job_forks.in_child:  # code of a user's has forked, and this is the child
                    job_forks.end(error)
                self._note(what, error)
            else:
                if job_forks.in_child:
                    job_forks.end()

    def _note(self, what: str, error: BaseException) -> None:
        if what not in self.failed:
            self.failed.append(what)
        if time.monotonic() >= self._say_at.get(what, 0.0):
            self._say_at[what] = time.monotonic() + SAY_AGAIN_S
            user_code.log_error(self._log, error, "%s failed, the process goes on", what)
