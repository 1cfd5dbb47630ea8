"""The progress of an iterable job in Redis: the hash `it-JID`, which is Sidekiq's (protocol §13.1)."""

import logging
from collections.abc import Callable
from typing import Any

from kiqbridge import errors
from kiqbridge.client.current import CONTEXT, Runtime
from kiqbridge.runtime.redaction import shorten
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import Profile, check_json

logger = logging.getLogger(__name__)

TTL_S = 30 * 86_400
"""As long as Sidekiq keeps an iterable job's progress (§13.1)."""


class IterationState:
    """The progress of one job.

    Args:
        runtime: the worker around it. None: it runs outside a worker, is not interrupted, and nothing is kept.
        jid: of the job.

    Attributes:
        executions: how many were started.
        cursor: position of the item that is about to be processed; None before the first.
        runtime_s: seconds that the finished executions took.
        is_kept: whether it is in Redis.
    """

    def __init__(self, runtime: Runtime | None = None, jid: str = "") -> None:
        self.executions = 0
        self.cursor: Any = None
        self.runtime_s: float = 0
        self.is_kept = runtime is not None
        if runtime is not None:
            self._redis = runtime.redis
            self._client = runtime.client
            self._key = runtime.client.keys.iteration(jid)

    def load(self) -> None:
        """HGETALL; a field that is missing counts as 0 or null, as after an early cancel (§13.5).

        Raises:
            PayloadError: the hash holds what no job can have written.
            RedisUnavailable: call again.
        """
        if not self.is_kept:
            return
        reply: list[bytes] = self._redis.call("HGETALL", self._key)
        found = dict(zip(reply[::2], reply[1::2], strict=True))
        try:
            self.executions = int(found.get(b"ex") or 0)
            self.cursor = json_text.loads(found.get(b"c") or b"null")
            self.runtime_s = float(found.get(b"rt") or 0) or 0
        except ValueError as error:
            raise errors.PayloadError(
                f"{self._key}: {shorten(found)} is no progress of an iterable job: {error}; delete the "
                "key to begin anew"
            ) from error

    def is_cancelled(self) -> bool:
        """Whether somebody asked for the job's end: HGET.

        Raises:
            RedisUnavailable: call again.
        """
        return self.is_kept and self._redis.call("HGET", self._key, "cancelled") is not None

    def flush(self) -> bool:
        """Save the progress (§13.3); the answer is that of `is_cancelled`.

        Raises:
            PayloadError: the cursor has no JSON text.
            RedisUnavailable: call again.
        """
        if not self.is_kept:
            return False
        check_json(self.cursor, "cursor")
        cursor = json_text.dumps(self.cursor)
        progress = ("ex", self.executions, "c", cursor, "rt", repr(self.runtime_s))
        replies = self._redis.run(
            ("MULTI",),
            ("HSET", self._key, *progress),
            _expire(self._key, self._client.wire_profile()),
            ("HGET", self._key, "cancelled"),
            ("EXEC",),
        )
        return replies[-1][2] is not None

    def forget(self) -> None:
        """UNLINK, when the job is complete.

        Raises:
            RedisUnavailable: call again.
        """
        if self.is_kept:
            self._redis.call("UNLINK", self._key)


def state_of(own: str, runtime: Runtime | None) -> IterationState:
    """That of the job with this jid, which runs here; outside of a worker nothing is kept."""
    context = CONTEXT.get()
    if runtime is None or context is None:
        return IterationState()
    jid = context[0].get("jid")
    if not isinstance(jid, str) or not jid:
        logger.warning("a job without a jid has no place for its progress: it is not interrupted")
        return IterationState()
    # Another jid: performed inline, by the job whose payload this is.
    return IterationState(runtime, jid) if jid == own else IterationState()


def request_cancel(
    redis: RedisPool, keys: Keys, jid: str, profile: Callable[[], Profile], now: float
) -> int:
    """Ask for the end of a job; see `Client.cancel`.

    Args:
        redis: connections.
        keys: the namespace.
        jid: of the job.
        profile: the wire profile in effect.
        now: the time of the request, epoch seconds.
    """
    if not isinstance(jid, str) or not jid:
        raise errors.PayloadError(f"jid: {shorten(jid)} is not a text with at least one character")
    check_json(jid, "jid")
    key = keys.iteration(jid)
    replies = redis.run(
        ("HSETNX", key, "cancelled", int(now)),
        # Without a cursor Ruby's worker fails on a job that was cancelled before its first run.
        ("HSETNX", key, "c", "null"),
        ("HGET", key, "cancelled"),
        _expire(key, profile()),
    )
    return int(replies[2])


def _expire(key: str, profile: Profile) -> tuple[str | int, ...]:
    """Sidekiq 8 keeps the time at which a job is forgotten; NX needs the Redis that 8 demands."""
    return ("EXPIRE", key, TTL_S, *(["NX"] if profile == "8" else []))
