"""What operators see of limiters besides their state: which are in use, with their limits, and who waits.

1. `Names`: a process notes each limiter that it enters once an hour, on a thread of its own, many in one script: an entry
   costs a look into a dictionary. `kb:limiters` is a sorted set, `KIND NAME` → when that is forgotten, and
   `kb:limiters:terms` a hash, `KIND NAME` → `LIMIT PER`. Without them a list would read through all keys of the server.
2. `Watched`: who is refused twice, and waits, is noted until it enters or gives up; a job that is put off until it comes
   back. `kb:waits:KIND:NAME` is a sorted set, jid or `HOST:PID:THREAD` → until when that is believed.

None of it is needed to limit anything: an error is logged for debugging, and that is all.
"""

import logging
import os
import queue
import socket
import threading
import time
from typing import Final, NamedTuple

from kiqbridge.client.current import CONTEXT
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.features.limiters.store import COUNT, Answer, Asked, Attempt, note_terms
from kiqbridge.runtime.role import LazyRole
from kiqbridge.store.redis_pool import RedisPool, has_stand_in
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

LONGEST_S: Final = 900.0
"""Seconds up to which the delay grows; a job is put off for longer only where the limiter asks for it."""

JITTER: Final = 0.5
"""Up to this part of the delay is added to it."""

NOTED_S: Final = 3600.0
"""Seconds after which a process notes a limiter again."""

FLUSH_S: Final = 0.5
"""Seconds in which names are gathered."""

MOST_NAMES: Final = 10_000
"""Limiters that a process remembers to have noted."""

WAIT_S: Final = 2.0
"""Seconds after which a caller notes again that it waits; it is believed for twice as long."""

GRACE_S: Final = 60.0
"""Seconds for which a job that was put off may come later than expected."""

KEPT_S: Final = 32 * 86_400
"""TTL of those who wait: no job is put off for longer."""


def delay_s(count: int, first_s: float) -> float:
    """Seconds for which a job is put off that was put off `count` times before, without jitter."""
    return min(first_s * 2.0 ** min(count, 60), max(LONGEST_S, first_s))


class _Name(NamedTuple):
    pool: RedisPool
    keys: Keys
    asked: Asked


class Names:
    """The limiters that this process enters."""

    def __init__(self) -> None:
        self._due: dict[tuple[int, str, Asked], float] = {}
        self._inbox: queue.SimpleQueue[_Name] = queue.SimpleQueue()
        self._thread = LazyRole(
            "limiter names", self._look_on, without="limiters are not listed by name"
        )

    def note(self, pool: RedisPool, keys: Keys, asked: Asked) -> None:
        """This one is in use; free of Redis, and of locks but once an hour."""
        key, now = (id(pool), keys.prefix, asked), time.monotonic()
        if now < self._due.get(key, 0.0) or has_stand_in():
            return
        if len(self._due) >= MOST_NAMES:
            self._due.clear()
        self._due[key] = now + NOTED_S
        self._inbox.put(_Name(pool, keys, asked))
        self._thread.wake()

    def _look_on(self) -> None:
        while True:
            name = self._inbox.get()
            time.sleep(FLUSH_S)
            names = [name]
            while len(names) < MOST_NAMES and not self._inbox.empty():
                names.append(self._inbox.get())
            for pool, keys in {id(each.pool): each[:2] for each in names}.values():
                try:
                    note_terms(pool, keys, [each.asked for each in names if each.pool is pool])
                except (RedisUnavailable, RedisRefused) as error:
                    logger.debug("names of limiters are not noted: %s", error)


_making = threading.Lock()
_names: Names | None = None


def names() -> Names:
    """Those of this process."""
    return _names or _make_names()


def _make_names() -> Names:
    global _names  # noqa: PLW0603 - one for the process
    with _making:
        _names = _names or Names()
        return _names


def _begin_anew() -> None:
    """In a process that was forked: it has no thread."""
    global _making, _names
    _making, _names = threading.Lock(), None


os.register_at_fork(after_in_child=_begin_anew)


class Watched:
    """An entry into a limit, with a note of it for operators; has what `Attempt` has."""

    __slots__ = (
        *("_asked", "_attempt", "_is_in", "_keys", "_note_at", "_pool", "_put_off_s", "_refused"),
        "correct",
    )

    def __init__(
        self, attempt: Attempt, pool: RedisPool, keys: Keys, asked: Asked, put_off_s: float
    ) -> None:
        self._attempt = attempt
        self._pool = pool
        self._keys = keys
        self._asked = asked
        self._put_off_s = put_off_s
        self._refused = 0
        self._is_in = False
        self._note_at = 0.0
        self.correct = attempt.correct

    def take(self) -> Answer:
        """Ask for one entry, and note that the job waits if it is refused."""
        answer = self._attempt.take()
        if answer.taken:
            self._is_in = True
            names().note(self._pool, self._keys, self._asked)
            running = CONTEXT.get()
            if self._note_at or (running is not None and COUNT in running[0]):
                self._write(("ZREM", self._key, _who()))
        else:
            self._refused += 1
            if self._refused > 1 and (now := time.monotonic()) >= self._note_at:
                self._note_at = now + WAIT_S
                self._wait(2 * WAIT_S)
        return answer

    def leave(self) -> None:
        """Leave the limiter, or note that the job is put off."""
        self._attempt.leave()
        if self._is_in or not self._refused:
            return
        names().note(self._pool, self._keys, self._asked)
        if (payload := _payload()) is not None:
            count = payload.get(COUNT, 0)
            delay = delay_s(count if isinstance(count, int) else 0, self._put_off_s)
            self._wait(delay * (1 + JITTER) + GRACE_S)
        elif self._note_at:
            self._write(("ZREM", self._key, _who()))

    @property
    def _key(self) -> str:
        return self._keys.limit_waits(self._asked.kind, self._asked.name)

    def _wait(self, seconds: float) -> None:
        now, key = time.time(), self._key
        self._write(
            ("ZADD", key, repr(now + seconds), _who()),
            ("ZREMRANGEBYSCORE", key, "-inf", repr(now)),
            ("EXPIRE", key, KEPT_S),
        )

    def _write(self, *commands: tuple[str | int, ...]) -> None:
        if has_stand_in():
            return
        try:
            self._pool.run(*commands)
        except (RedisUnavailable, RedisRefused) as error:
            logger.debug("who waits for %s is not noted: %s", self._key, error)


def _payload() -> dict[str, object] | None:
    running = CONTEXT.get()
    return None if running is None else running[0]


def _who() -> str:
    jid = (_payload() or {}).get("jid")
    if isinstance(jid, str) and jid.isascii():
        return jid
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident() % 100_000}"
