"""What a server answers with instead of a result, as the errors that are raised for it (refusals.py).

Writes that replicas must confirm (WAIT): how many, for how long, and what follows when they do not.
"""

from collections.abc import Sequence
from typing import Any, Final

from kiqbridge import errors
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.connection_faults import fault_of
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.redis_address import READ_TIMEOUT_S
from kiqbridge.store.refusals import (
    FAILOVER,
    FOR_NOW,
    advice,
    code_of,
    is_forbidden,
    is_login,
    without_arguments,
)

ANSWERS: Final = (
    redis.exceptions.ResponseError,
    redis.exceptions.BusyLoadingError,
    redis.exceptions.MasterDownError,
    redis.exceptions.AuthenticationError,
)
"""Errors that a server answered with; the call was not carried out."""

_LOGIN: Final = (
    redis.exceptions.AuthenticationError,
    redis.exceptions.AuthenticationWrongNumberOfArgsError,
)


class ReplyLost(errors.KiqbridgeError):
    """The call was sent, and no reply came: it may or may not have been carried out."""

    may_pass = True


def is_failover(reply: object) -> bool:
    """Whether a server refused the call because it is a replica, or is failing over (protocol §1)."""
    return isinstance(reply, Exception) and any(word in error_text(reply) for word in FAILOVER)


def is_login_refused(error: object) -> bool:
    """Whether a server refused the password, or wants one that was not given."""
    return isinstance(error, _LOGIN) or (
        isinstance(error, redis.exceptions.RedisError) and is_login(error_text(error))
    )


def error_text(error: Exception) -> str:
    """The server's own words; redis-py cuts the code off those that it has a class for.

    Without what it quotes of the command, such as the password of a login that a proxy does not know.
    """
    text = without_arguments(str(error))
    code = code_of(error)
    return f"{code} {text}" if code and not text.startswith(code) else text


def unavailable(error: Exception, address: str, *, uses_tls: bool) -> errors.RedisUnavailable:
    """The error to raise for a call that no server carried out; `address` is shown."""
    cause = error.__cause__
    if isinstance(cause, errors.RedisUnavailable):  # of what the connection logs in with
        return type(cause)(str(cause))
    fault = fault_of(error, uses_tls=uses_tls)
    if fault is not None:
        return errors.RedisMisconfigured(f"Redis at {address} cannot be reached: {fault}")
    text = error_text(error).rstrip(".")
    if isinstance(error, redis.exceptions.ResponseError) and (todo := advice(text)):
        return errors.RedisMisconfigured(f"Redis at {address} cannot be reached: {text}{todo}")
    return errors.RedisUnavailable(
        f"Redis at {address} cannot be reached: {text}; "
        "check REDIS_URL, that the server runs, and its security group or password"
    )


def translate(
    error: Exception, address: str, command: Sequence[object] = (), user: str = "NAME"
) -> errors.RedisUnavailable | errors.RedisRefused:
    """The error to raise for one that the server at `address` answered with to a command of this user."""
    text = error_text(error)
    fault = fault_of(error)
    if fault is not None:
        return errors.RedisMisconfigured(f"Redis at {address} refused the call: {fault}")
    if text.startswith(FOR_NOW):
        return errors.RedisUnavailable(f"Redis at {address} refused the call: {text}")
    refused = errors.RedisRefused(
        f"Redis at {address} answered with an error: {text}{advice(text, command, user)}"
    )
    refused.is_forbidden = is_forbidden(text)
    return refused


def pairs_of(reply: Any) -> dict[bytes, bytes]:
    """A hash as HGETALL answers it: as a map with RESP 3, as a list with RESP 2."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def count_in(reply: Any) -> int:
    """The integer that a reply holds; 0 = none, or a text that is no integer."""
    try:
        return int(reply or 0)
    except (TypeError, ValueError):
        return 0


def number_in(reply: Any) -> float:
    """The number that a reply, or a member of a document, holds; 0 = none, or a text that is no number."""
    try:
        return float(reply or 0)
    except (TypeError, ValueError):
        return 0.0


def first_score(reply: Any) -> float:
    """The first score that ZRANGE … WITHSCORES answers: of pairs with RESP 3, of a flat list with RESP 2."""
    first = reply[0]
    return float(first[1] if isinstance(first, list) else reply[1])


WAIT_TIMEOUT_MS: Final = 1000
_WAIT_MARGIN_MS = 500
"""WAIT must answer before its silence counts as a lost reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """How many replicas must confirm a write, and how long to wait for them (WAIT)."""

    count: int
    timeout_ms: int


class NotReplicated(errors.KiqbridgeError):
    """The call was carried out, but too few replicas confirmed it.

    Attributes:
        replies: of the commands before WAIT; none is an error.
    """

    may_pass = True

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
        raise errors.ConfigError(
            f"wait_replicas: {count!r} is not a whole number from 0 (from {source}); write how many "
            "replicas shall confirm a push, 0 to wait for none"
        )
    most = int(READ_TIMEOUT_S * 1000) - _WAIT_MARGIN_MS
    if type(timeout_ms) is not int or not 0 < timeout_ms <= most:
        raise errors.ConfigError(
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
