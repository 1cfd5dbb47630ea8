"""What another thread has found out for one that looks for something again and again."""

import time
from collections.abc import Callable
from typing import Final

LASTS_S: Final = 8.0
"""Seconds for which a hint counts; a worker that gives none for longer may have ended."""


class Hint:
    """Whether there is something to look for, as another thread has seen it. From any thread.

    Args:
        lasts_s: seconds for which one counts.
        monotonic: seconds, for that.
    """

    def __init__(
        self, *, lasts_s: float = LASTS_S, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._lasts_s = lasts_s
        self._monotonic = monotonic
        self._given = (-lasts_s, True)

    def __repr__(self) -> str:
        return f"<Hint {'nothing' if self.says_nothing else 'look'}>"

    def give(self, *, is_some: bool) -> None:
        """Note whether there is something now."""
        self._given = (self._monotonic(), is_some)

    @property
    def is_fresh(self) -> bool:
        """Whether one was given lately."""
        at, _ = self._given
        return self._monotonic() - at < self._lasts_s

    @property
    def says_nothing(self) -> bool:
        """Whether a look would find nothing; False where that is not known."""
        _, is_some = self._given
        return not is_some and self.is_fresh
