"""Writes that replicas must confirm (WAIT): how many, for how long, and what follows when they do not."""

from collections.abc import Sequence
from typing import Any, Final

from kiqbridge.errors import ConfigError, KiqbridgeError
from kiqbridge.records import dataclass
from kiqbridge.store.redis_address import READ_TIMEOUT_S
from kiqbridge.store.replies import error_text

WAIT_TIMEOUT_MS: Final = 1000
_WAIT_MARGIN_MS = 500
"""WAIT must answer before its silence counts as a lost reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """How many replicas must confirm a write, and how long to wait for them (WAIT)."""

    count: int
    timeout_ms: int


class NotReplicated(KiqbridgeError):  # noqa: N818 - named by what happened; callers translate it
    """The call was carried out, but too few replicas confirmed it.

    Attributes:
        replies: of the commands before WAIT; none is an error.
    """

    def __init__(self, message: str, replies: list[Any]) -> None:
        super().__init__(message)
        self.replies = replies


def parse_replicas(count: object, timeout_ms: object, *, source: str) -> Replicas | None:
    """How many replicas must confirm a write, None for 0; `source` names where the number is from.

    Raises:
        ConfigError: not a whole number, or a longer wait than a reply is waited for.
    """
    try:
        number = int(str(count))
    except ValueError:
        number = -1
    if number < 0 or isinstance(count, bool):
        raise ConfigError(
            f"wait_replicas: {count!r} is not a whole number from 0 (from {source}); write how many "
            "replicas shall confirm a push, 0 to wait for none"
        )
    most = int(READ_TIMEOUT_S * 1000) - _WAIT_MARGIN_MS
    if type(timeout_ms) is not int or not 0 < timeout_ms <= most:
        raise ConfigError(
            f"wait_timeout_ms: {timeout_ms!r} is not a whole number from 1 to {most:,}; a silent server "
            f"counts as lost after {READ_TIMEOUT_S:.0f} s"
        )
    return Replicas(count=number, timeout_ms=timeout_ms) if number else None


def check_confirmed(confirmed: Any, replicas: Replicas, replies: Sequence[Any]) -> None:
    """Look at the reply to WAIT; `replies` are those of the commands before it.

    Raises:
        NotReplicated: it is an error, or fewer replicas confirmed than were asked for.
    """
    if isinstance(confirmed, Exception):
        raise NotReplicated(f"WAIT failed: {error_text(confirmed)}", list(replies)) from confirmed
    if confirmed < replicas.count:
        raise NotReplicated(
            f"{confirmed} of {replicas.count} replicas confirmed within {replicas.timeout_ms} ms",
            list(replies),
        )
