"""What a server answers with instead of a result: refusals, outages, wrong types, in words.

A key of ours that holds a value of another type is reported once; the caller waits until it is gone.

Writes that replicas must confirm (WAIT): how many, for how long, and what follows when they do not.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

import redis

from kiqbridge import errors
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.connection_faults import fault_of
from kiqbridge.store.redis_address import READ_TIMEOUT_S

ANSWERS: Final = (
    redis.exceptions.ResponseError,
    redis.exceptions.BusyLoadingError,
    redis.exceptions.MasterDownError,
    redis.exceptions.AuthenticationError,
)
"""Errors that a server answered with; the call was not carried out."""

_FAILOVER = ("READONLY", "NOREPLICAS", "UNBLOCKED")
_AWAY = (
    "LOADING",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "OOM",
    "MISCONF",
    "TRYAGAIN",
    "NOAUTH",
    "WRONGPASS",
)

HINT: Final = (
    "somebody wrote a value of another type under one of our keys: look for it with TYPE, and rename "
    "or delete it"
)
"""What to do about Redis' answer WRONGTYPE, which does not name the key."""


_LOGIN: Final = (
    redis.exceptions.AuthenticationError,
    redis.exceptions.AuthenticationWrongNumberOfArgsError,
)


class ReplyLost(errors.KiqbridgeError):
    """The call was sent, and no reply came: it may or may not have been carried out."""


def is_failover(reply: object) -> bool:
    """Whether a server refused the call because it is a replica, or is failing over (protocol §1)."""
    return isinstance(reply, Exception) and any(word in error_text(reply) for word in _FAILOVER)


def is_login_refused(error: object) -> bool:
    """Whether a server refused the password, or wants one that was not given."""
    return isinstance(error, _LOGIN) or (
        isinstance(error, Exception)
        and (
            error_text(error).startswith(("NOAUTH", "WRONGPASS"))
            or "without any password configured" in str(error)
        )
    )


def error_text(error: Exception) -> str:
    """The server's own words; redis-py cuts the code off those that it has a class for."""
    code = getattr(error, "status_code", None)
    text = str(error)
    return f"{code} {text}" if code and not text.startswith(str(code)) else text


def unavailable(error: Exception, address: str, *, uses_tls: bool) -> errors.RedisUnavailable:
    """The error to raise for a call that no server carried out; `address` is shown."""
    cause = error.__cause__
    if isinstance(cause, errors.RedisUnavailable):  # of what the connection logs in with
        return type(cause)(str(cause))
    fault = fault_of(error, uses_tls=uses_tls)
    if fault is not None:
        return errors.RedisMisconfigured(f"Redis at {address} cannot be reached: {fault}")
    return errors.RedisUnavailable(
        f"Redis at {address} cannot be reached: {str(error).rstrip('.')}; "
        "check REDIS_URL, that the server runs, and its security group or password"
    )


def translate(error: Exception, address: str) -> errors.RedisUnavailable | errors.RedisRefused:
    """The error to raise for one that the server at `address` answered with."""
    text = error_text(error)
    fault = fault_of(error)
    if fault is not None:
        return errors.RedisMisconfigured(f"Redis at {address} refused the call: {fault}")
    if text.startswith((*_FAILOVER, *_AWAY)):
        return errors.RedisUnavailable(f"Redis at {address} refused the call: {text}")
    return errors.RedisRefused(f"Redis at {address} answered with an error: {with_hint(text)}")


def with_hint(text: str) -> str:
    """An answer of Redis, and what to do about it if it is WRONGTYPE, or of a server that is too old."""
    if "unexpected symbol near '#'" in text:  # the first line of our scripts
        return f"{text}; this server is too old: upgrade to Redis 7.0, Valkey 7.2, or newer"
    return f"{text}; {HINT}" if text.startswith("WRONGTYPE") else text


class WrongTypeWarning:
    """Warns once of a key of a wrong type, until a call succeeds again; other errors are not its own.

    Args:
        logger: where to.
        waits: what stands still meanwhile, such as "the poller (retry, schedule)".
    """

    def __init__(self, logger: logging.Logger, waits: str) -> None:
        self._logger = logger
        self._waits = waits
        self._is_reported = False

    def report(self, error: Exception) -> None:
        """Warn if Redis answered WRONGTYPE and that was not reported yet."""
        text = str(error)
        if self._is_reported or "WRONGTYPE" not in text:
            return
        self._is_reported = True
        hint = "" if HINT in text else f"; {HINT}"
        self._logger.warning("%s waits: %s%s", self._waits, text, hint)

    def clear(self) -> None:
        """A call succeeded: the next WRONGTYPE is reported again."""
        self._is_reported = False


def pairs_of(reply: Any) -> dict[bytes, bytes]:
    """A hash as HGETALL answers it: as a map with RESP 3, as a list with RESP 2."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


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
