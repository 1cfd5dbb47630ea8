"""Telling that a key of ours holds a value of another type; whoever needs it waits until it is mended."""

import logging
from typing import Final

HINT: Final = (
    "somebody wrote a value of another type under one of our keys: look for it with TYPE, and rename "
    "or delete it"
)
"""What to do about Redis' answer WRONGTYPE, which does not say which key it was."""


def with_hint(text: str) -> str:
    """An answer of Redis, and what to do about it if it is WRONGTYPE, or of a server that is too old."""
    if "unexpected symbol near '#'" in text:  # the first line of our scripts
        return f"{text}; this server is too old: upgrade to Redis 7.0, Valkey 7.2, or newer"
    return f"{text}; {HINT}" if text.startswith("WRONGTYPE") else text


class WrongTypes:
    """Warns of one key at a time, once until it is mended; of other errors it says nothing.

    Args:
        logger: where to.
        waits: what stands still meanwhile, such as "the poller (retry, schedule)".
    """

    def __init__(self, logger: logging.Logger, waits: str) -> None:
        self._logger = logger
        self._waits = waits
        self._told = False

    def note(self, error: Exception) -> None:
        """Redis answered with this error."""
        text = str(error)
        if self._told or "WRONGTYPE" not in text:
            return
        self._told = True
        hint = "" if HINT in text else f"; {HINT}"
        self._logger.warning("%s waits: %s%s", self._waits, text, hint)

    def mended(self) -> None:
        """It went well again."""
        self._told = False
