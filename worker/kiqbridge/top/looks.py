"""When Redis is looked at: one look at a time, no sooner than is due, in a thread beside the screen."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from textual.message import Message

from kiqbridge.api import Operator
from kiqbridge.top.background import Background
from kiqbridge.top.model import View
from kiqbridge.top.parts import Seen, Unseen
from kiqbridge.top.read import read_frame

FILTERED_EVERY_S: Final = 10.0
"""A filter looks through a set: not each second."""


class Looks:
    """Reads frames.

    Args:
        operator: where.
        interval_s: between two looks.
        post: gets `Seen` or `Unseen` after each; called in the thread beside.
    """

    def __init__(
        self, operator: Operator, interval_s: float, post: Callable[[Message], object]
    ) -> None:
        self._operator, self._interval_s, self._post = operator, interval_s, post
        self._background = Background("top-looks")
        self._is_looking = False
        self._next = 0.0

    def look_when_due(self, view: View) -> None:
        """Begin a look, unless one goes on or it is too soon."""
        if not self._is_looking and time.monotonic() >= self._next:
            self._is_looking = True
            self._background.submit(partial(self._look, view))

    def look_at_once(self, view: View) -> None:
        """Begin a look, or have one begun when the present one ends."""
        self._next = 0.0
        self.look_when_due(view)

    def ended(self, seen: View, wanted: View) -> None:
        """A look has ended; the next one is at once if another view is wanted by now."""
        self._is_looking = False
        if seen != wanted:
            self.look_at_once(wanted)
            return
        is_slow = bool(wanted.where) and wanted.screen != "busy"
        pause = max(FILTERED_EVERY_S, self._interval_s) if is_slow else self._interval_s
        self._next = time.monotonic() + pause

    def _look(self, view: View) -> None:
        """In the thread beside."""
        try:
            frame = read_frame(self._operator, view)
        except Exception as error:  # noqa: BLE001 - it is shown, and the next look may succeed
            self._post(Unseen(view, error))
        else:
            self._post(Seen(frame))
