"""Giving back the jobs of processes that died, callable from anywhere, a Lambda included.

The reaper acts on an incarnation only after it has seen its owner silent in every look for a while
of its own monotonic time, without a Redis error of its own in between: after an outage of Redis
everybody looks silent, and the first one back must not reap the whole fleet. No wall clocks are
compared.
"""

import logging
from collections.abc import Callable

from kiqbridge import scripts
from kiqbridge.clock import lease_now
from kiqbridge.errors import KiqbridgeError
from kiqbridge.keys import Keys
from kiqbridge.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

WATCH_FOR_S = 8.0
"""How long an owner must be seen silent, on top of the 10 s after which it counts as silent."""

_CHANGED = -3
_TRIES = 5
_REAP = scripts.load("reap")


class Reaper:
    """Looks for silent incarnations and gives their jobs back."""

    def __init__(
        self,
        connection: RedisConnection,
        keys: Keys,
        *,
        watch_for_s: float = WATCH_FOR_S,
        clock: Callable[[], float] = lease_now,
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._watch_for_s = watch_for_s
        self._clock = clock
        self._silent_since: dict[str, float] = {}

    def look(self, own: str = "") -> int:
        """Look once; reap whom every look has found silent for long enough.

        Returns:
            How many are under suspicion now: look again soon.

        Raises:
            RedisUnavailable: all suspicions are dropped, since looks are missing.
        """
        try:
            silent = self._find_silent(own)
            now = self._clock()
            self._silent_since = {name: self._silent_since.get(name, now) for name in silent}
            for name, since in list(self._silent_since.items()):
                if now - since >= self._watch_for_s:
                    self._rescue(name)
        except KiqbridgeError:
            self.forget_suspects()
            raise
        return len(self._silent_since)

    def forget_suspects(self) -> None:
        """Start watching anew: a look is missing."""
        self._silent_since.clear()

    def reap(self, incarnation: str, *, by_owner: bool = False) -> int:
        """Give back everything that an incarnation holds and end its lease, in one script.

        Returns:
            How many jobs went back to their queues; below 0 when nothing was done (gone already,
            alive, or claiming at this moment).
        """
        outcome = _CHANGED
        for _ in range(_TRIES):
            claims = self._connection.call("HGETALL", self._keys.claims(incarnation))
            pairs = list(zip(claims[::2], claims[1::2], strict=True))
            keys = [
                self._keys.inflight,
                self._keys.alive(incarnation),
                self._keys.claims(incarnation),
            ]
            args: list[str | bytes] = [incarnation, "1" if by_owner else "0"]
            for tid, last in pairs:
                queue = last.partition(b" ")[2].decode()
                keys += [
                    self._keys.inflight_list(incarnation, tid.decode(), parity) for parity in (0, 1)
                ]
                keys.append(self._keys.queue(queue))
                args += [tid, last]
            outcome = int(self._connection.script(_REAP, keys, args))
            if outcome != _CHANGED:
                break
        return outcome

    def _rescue(self, incarnation: str) -> None:
        returned = self.reap(incarnation)
        self._silent_since.pop(incarnation, None)
        if returned >= 0:
            logger.warning(
                "process %s died: %d of its jobs went back to their queues",
                incarnation,
                returned,
                extra={"incarnation": incarnation, "returned": returned},
            )

    def _find_silent(self, own: str) -> list[str]:
        registered = [
            name.decode() for name in self._connection.call("SMEMBERS", self._keys.inflight)
        ]
        others = [name for name in registered if name != own]
        if not others:
            return []
        alive = self._connection.call("MGET", *(self._keys.alive(name) for name in others))
        return [name for name, found in zip(others, alive, strict=True) if found is None]
