"""Giving back the jobs of processes that died, callable from anywhere, a Lambda included.

The reaper acts on an incarnation only after it has seen its owner silent in every look for a while
of its own monotonic time, without a Redis error of its own in between: after an outage of Redis
everybody looks silent, and the first one back must not reap the whole fleet. No wall clocks are
compared.

It also counts how often each job was found so. Most are innocent, since a deploy, a full memory or a
neighbour ends a process as well; one that was found too often becomes a suspect, and a worker lets it
run alone (isolation.py).
"""

import hashlib
import logging
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kiqbridge import json_text, scripts
from kiqbridge.clock import lease_now
from kiqbridge.errors import KiqbridgeError
from kiqbridge.keys import LAYOUT, Keys, layout_of
from kiqbridge.redis_connection import RedisConnection

logger = logging.getLogger(__name__)

WATCH_FOR_S = 8.0
"""How long an owner must be seen silent, on top of the 10 s after which it counts as silent."""

ORPHAN_LIMIT = 3
"""How often a job may be found orphaned until it is a suspect."""

COUNTED_FOR_S = 3 * 86_400
CAREFUL_FOR_S = 60
"""For so long after a recovery jobs of its queues are claimed one by one."""

ALIVE = -2
_CHANGED = -3
UNKNOWN_LAYOUT = -4
_TRIES = 5
_COUNTS_AT_ONCE = 1000
_REAP = scripts.load("reap")
_PLAIN_JID = re.compile(r"[\w.:-]{1,100}", re.ASCII)


class Outcome(NamedTuple):
    """What a reap did; `code` is below 0 when it did nothing (see reap.lua)."""

    code: int
    returned: int = 0
    suspected: int = 0


class _Held(NamedTuple):
    """A claimer of an incarnation, its last claim as stored, and what its lists hold."""

    tid: str
    last: bytes
    queue: str
    jobs: list[bytes]


def orphan_id(text: bytes) -> str:
    """The name under which a job is counted: its jid, or the SHA-1 of its bytes if it has none."""
    try:
        payload = json_text.loads(text)
    except json_text.MalformedJSON:
        payload = None
    jid = payload.get("jid") if isinstance(payload, dict) else None
    return jid if isinstance(jid, str) and _PLAIN_JID.fullmatch(jid) else _sha1(text)


class Reaper:
    """Looks for silent incarnations and gives their jobs back.

    Args:
        connection: its own.
        keys: the namespace.
        watch_for_s: seconds that an owner must be seen silent.
        orphan_limit: how often a job may be found orphaned until it is a suspect.
        clock: seconds that cannot be set.
        on_rescue: gets the name and the outcome of each incarnation that was silent for too long.
    """

    def __init__(
        self,
        connection: RedisConnection,
        keys: Keys,
        *,
        watch_for_s: float = WATCH_FOR_S,
        orphan_limit: int = ORPHAN_LIMIT,
        clock: Callable[[], float] = lease_now,
        on_rescue: "Callable[[str, Outcome], object] | None" = None,
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._watch_for_s = watch_for_s
        self._orphan_limit = orphan_limit
        self._clock = clock
        self._on_rescue = on_rescue or self._log_rescue
        self._silent_since: dict[str, float] = {}
        self._unknown: set[str] = set()

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

        Jobs of a dead owner are counted, and those found too often go to the suspects of their
        queue. An owner that signs off counts nothing.

        Returns:
            How many jobs went back to their queues or became suspects; below 0 when nothing was
            done (gone already, `ALIVE`, claiming at this moment, or of `UNKNOWN_LAYOUT`).
        """
        outcome = self._reap(incarnation, by_owner=by_owner)
        return outcome.code if outcome.code < 0 else outcome.returned + outcome.suspected

    def _reap(self, incarnation: str, *, by_owner: bool) -> Outcome:
        if layout_of(incarnation) != LAYOUT:
            return Outcome(UNKNOWN_LAYOUT)  # where it keeps its jobs is not known here
        code = _CHANGED
        for _ in range(_TRIES):
            held = self._read(incarnation, with_jobs=not by_owner)
            fates = self._fates({job for claimer in held for job in claimer.jobs})
            reply = self._write(incarnation, held, fates, by_owner=by_owner)
            if isinstance(reply, list):
                return Outcome(0, *reply)
            code = reply
            if code != _CHANGED:
                break
        return Outcome(code)

    def _read(self, incarnation: str, *, with_jobs: bool) -> list[_Held]:
        claims = self._connection.call("HGETALL", self._keys.claims(incarnation))
        held = [
            _Held(tid.decode(), last, last.partition(b" ")[2].decode(), [])
            for tid, last in zip(claims[::2], claims[1::2], strict=True)
        ]
        for claimer in held if with_jobs else ():
            lists = self._lists(incarnation, claimer.tid)
            for jobs in self._connection.run(*(("LRANGE", key, 0, -1) for key in lists)):
                claimer.jobs.extend(jobs)
        return held

    def _fates(self, jobs: Iterable[bytes]) -> dict[str, tuple[str, str]]:
        """SHA-1 of a job → the key that counts it, and what becomes of it (see reap.lua)."""
        named = [(_sha1(job), self._keys.recovered(orphan_id(job))) for job in jobs]
        fates: dict[str, tuple[str, str]] = {}
        for start in range(0, len(named), _COUNTS_AT_ONCE):
            part = named[start : start + _COUNTS_AT_ONCE]
            counts = self._connection.call("MGET", *(key for _, key in part))
            for (sha, key), count in zip(part, counts, strict=True):
                fates[sha] = key, self._fate(int(count) if count and count.isdigit() else 0)
        return fates

    def _fate(self, count: int) -> str:
        if count >= self._orphan_limit:
            return "known"
        return "suspect" if count + 1 >= self._orphan_limit else "queue"

    def _write(
        self,
        incarnation: str,
        held: list[_Held],
        fates: dict[str, tuple[str, str]],
        *,
        by_owner: bool,
    ) -> list[int] | int:
        keys = [
            self._keys.inflight,
            self._keys.alive(incarnation),
            self._keys.claims(incarnation),
            self._keys.careful,
        ]
        args: list[str | bytes | float] = [
            incarnation,
            "1" if by_owner else "0",
            len(held),
            CAREFUL_FOR_S,
            COUNTED_FOR_S,
        ]
        for claimer in held:
            keys += [
                *self._lists(incarnation, claimer.tid),
                self._keys.queue(claimer.queue),
                self._keys.suspects(claimer.queue),
            ]
            args += [claimer.tid, claimer.last, claimer.queue]
        for sha, (key, fate) in fates.items():
            keys.append(key)
            args += [sha, fate]
        reply: list[int] | int = self._connection.script(_REAP, keys, args)
        return reply

    def _lists(self, incarnation: str, tid: str) -> list[str]:
        return [self._keys.inflight_list(incarnation, tid, parity) for parity in (0, 1)]

    def _rescue(self, incarnation: str) -> None:
        outcome = self._reap(incarnation, by_owner=False)
        self._silent_since.pop(incarnation, None)
        if outcome.code >= 0:
            self._on_rescue(incarnation, outcome)

    def _log_rescue(self, incarnation: str, outcome: Outcome) -> None:
        logger.warning(
            "process %s died: %d of its jobs went back to their queues",
            incarnation,
            outcome.returned,
            extra={"incarnation": incarnation, "returned": outcome.returned},
        )
        if outcome.suspected:
            logger.warning(
                "%d more were found orphaned %d times and may be what ends their processes: each runs "
                "alone in a child process next, on a worker that serves its queue",
                outcome.suspected,
                self._orphan_limit,
            )

    def _find_silent(self, own: str) -> list[str]:
        registered = [
            name.decode() for name in self._connection.call("SMEMBERS", self._keys.inflight)
        ]
        others = [name for name in registered if name != own]
        if not others:
            return []
        alive = self._connection.call("MGET", *(self._keys.alive(name) for name in others))
        silent = [name for name, found in zip(others, alive, strict=True) if found is None]
        unknown = {name for name in silent if layout_of(name) != LAYOUT}
        for name in unknown - self._unknown:
            logger.warning(
                "process %s is silent, and its layout %s is unknown to this version, which knows %s: "
                "the jobs that it holds stay there until a worker of a version that knows it gives them "
                "back; start one",
                name,
                layout_of(name),
                LAYOUT,
            )
        self._unknown = unknown
        return [name for name in silent if name not in unknown]


def _sha1(text: bytes) -> str:
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()
