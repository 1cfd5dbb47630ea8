"""What a server answers with instead of a result: refusals, outages, wrong types, in words.

A key of ours that holds a value of another type is reported once; the caller waits until it is gone.
"""

import logging
from typing import Any, Final

import redis

from kiqbridge.errors import KiqbridgeError, RedisMisconfigured, RedisRefused, RedisUnavailable
from kiqbridge.store.connection_faults import fault_of

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


class ReplyLost(KiqbridgeError):  # noqa: N818 - named by what happened; callers translate it
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


def unavailable(error: Exception, address: str, *, uses_tls: bool) -> RedisUnavailable:
    """The error to raise for a call that no server carried out; `address` is shown."""
    cause = error.__cause__
    if isinstance(cause, RedisUnavailable):  # of what the connection logs in with
        return type(cause)(str(cause))
    fault = fault_of(error, uses_tls=uses_tls)
    if fault is not None:
        return RedisMisconfigured(f"Redis at {address} cannot be reached: {fault}")
    return RedisUnavailable(
        f"Redis at {address} cannot be reached: {str(error).rstrip('.')}; "
        "check REDIS_URL, that the server runs, and its security group or password"
    )


def translate(error: Exception, address: str) -> RedisUnavailable | RedisRefused:
    """The error to raise for one that the server at `address` answered with."""
    text = error_text(error)
    fault = fault_of(error)
    if fault is not None:
        return RedisMisconfigured(f"Redis at {address} refused the call: {fault}")
    if text.startswith((*_FAILOVER, *_AWAY)):
        return RedisUnavailable(f"Redis at {address} refused the call: {text}")
    return RedisRefused(f"Redis at {address} answered with an error: {with_hint(text)}")


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
