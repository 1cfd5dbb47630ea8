"""Giving back what one incarnation holds, and ending it, in steps of a bounded size.

1. It is marked as being reaped, which fences its owner: from then on its lists only get shorter.
2. Each of its lists is given back by itself. A destination of a foreign type is reported; its jobs
   stay in flight, and neither other lists nor other processes wait for it.
3. When all lists are gone, the mark is removed.

Each step can be repeated, by anybody: who dies in between leaves the mark, and another one goes on.
Texts never come here, and nothing is parsed: a job that kills what parses it must not kill this.

It is counted how often each job was found orphaned: in a process that died, or running for too long. One that was
found too often becomes a suspect and runs alone (reliability §8). The scripts of the reap count in the same step in
which a job goes back (`parts/orphans.lua`); all else counts here.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, field
from typing import Final, NamedTuple

from kiqbridge.errors import RedisRefused
from kiqbridge.runtime.digests import sha1
from kiqbridge.runtime.records import dataclass
from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import LAYOUT, Keys, layout_of
from kiqbridge.wire.names import text_of
from kiqbridge.wire.raw_job import jid_in

ORPHAN_LIMIT: Final = 3
"""How often a job may be found orphaned until it is a suspect."""

COUNTED_FOR_S: Final = 3 * 86_400
"""Seconds that a count is kept after the last time."""

_COUNTS_AT_ONCE = 1000


def orphan_id(text: bytes) -> str:
    """The name under which a job is counted: its jid, or the SHA-1 of its bytes if it has none."""
    jid = jid_in(text)
    return sha1(text, usedforsecurity=False).hexdigest() if jid is None else jid.decode()


def orphan_count(connection: RedisConnection, keys: Keys, name: str) -> int:
    """How often the job of that name (`orphan_id`) was found orphaned so far.

    Raises:
        RedisUnavailable, RedisRefused: nothing is known.
    """
    return _number(connection.call("GET", keys.recovered(name)))


def orphan_counts(
    connection: RedisConnection, keys: Keys, names: Collection[str]
) -> Mapping[str, int]:
    """Name (`orphan_id`) → how often the job was found orphaned so far.

    Raises:
        RedisUnavailable: nothing is known.
    """
    named = list(names)
    counts: dict[str, int] = {}
    for start in range(0, len(named), _COUNTS_AT_ONCE):
        part = named[start : start + _COUNTS_AT_ONCE]
        found = connection.call("MGET", *(keys.recovered(name) for name in part))
        for name, count in zip(part, found, strict=True):
            counts[name] = _number(count)
    return counts


def count_orphan(connection: RedisConnection, keys: Keys, name: str) -> None:
    """Count a job once more, and keep its count for `COUNTED_FOR_S` from now on.

    Raises:
        RedisUnavailable: it may be counted or not.
    """
    key = keys.recovered(name)
    connection.run(("INCR", key), ("EXPIRE", key, COUNTED_FOR_S))


def forget_orphan(connection: RedisConnection, keys: Keys, name: str) -> None:
    """Forget the count of a job that ended well.

    Raises:
        RedisUnavailable: repeat it.
    """
    connection.call("DEL", keys.recovered(name))


def _number(count: bytes | None) -> int:
    return int(count) if count and count.isdigit() else 0


CAREFUL_FOR_S = 60
"""For so long after a recovery jobs of its queues are claimed one by one."""

GONE = -1
ALIVE = -2
UNFINISHED = -3
UNKNOWN_LAYOUT = -4

JOBS_AT_ONCE = 500
BYTES_AT_ONCE = 8_000_000
"""In one script, and at least one job: each holds up the whole server for some milliseconds."""

_TRIES = 5
_ADOPT = scripts.load("reap_adopt")
_BEGIN = scripts.load("reap_begin")
_INSPECT = scripts.load("reap_inspect")
_RETURN = scripts.load("reap_return")
_SUSPECT = scripts.load("reap_suspect")
_END = scripts.load("reap_end")


class Outcome(NamedTuple):
    """What a reap did.

    Attributes:
        code: 0 = it is over; `UNFINISHED` = begun, and some of its jobs are still in flight; below
            that nothing was done (`GONE`, `ALIVE`, `UNKNOWN_LAYOUT`).
        returned: jobs that went back to their queues.
        suspected: jobs that became suspects.
        blocked: why what is left cannot go back, in words, one for each list.
    """

    code: int
    returned: int = 0
    suspected: int = 0
    blocked: tuple[str, ...] = ()


class _List(NamedTuple):
    """An in-flight list, and the queue that its jobs came from."""

    key: str
    queue: str


class _Job(NamedTuple):
    """A job as it is known here: the SHA-1 of its bytes, and the name under which it is counted."""

    sha: str
    orphan: str


@dataclass(slots=True)
class _Tally:
    returned: int = 0
    suspected: int = 0
    blocked: list[str] = field(default_factory=list)


class _Ended(Exception):  # noqa: N818 - no error: another one was faster
    """Another process has ended the reap."""


@dataclass(slots=True, eq=False)
class Reaping:
    """Reaps incarnations; used by one thread at a time.

    Attributes:
        connection: its own.
        keys: the namespace.
        orphan_limit: how often a job may be found orphaned until it is a suspect.
    """

    connection: RedisConnection
    keys: Keys
    _: KW_ONLY
    orphan_limit: int = ORPHAN_LIMIT

    def reap(
        self, incarnation: str, beat: bytes | None = None, *, by_owner: bool = False
    ) -> Outcome:
        """End a lease and give everything that it holds back, or as much of it as can be.

        Jobs of a dead owner are counted, and those found too often go to the suspects of their queue.
        An owner that signs off counts nothing.

        Args:
            incarnation: whose.
            beat: the sign of life that was seen unchanged for long enough; None: there was none.
            by_owner: it signs off.

        Raises:
            RedisUnavailable: repeat it.
        """
        if layout_of(incarnation) != LAYOUT:
            return Outcome(UNKNOWN_LAYOUT)  # where it keeps its jobs is not known here
        keys = self.keys
        code = self.connection.script(
            _BEGIN,
            [keys.inflight, keys.reaping, keys.alive],
            [incarnation, "1" if by_owner else "0", beat or b""],
        )
        return Outcome(code) if code < 0 else self.go_on(incarnation, by_owner=by_owner)

    def go_on(self, incarnation: str, *, by_owner: bool = False) -> Outcome:
        """Finish a reap that was begun, by whomever; as `reap`."""
        if layout_of(incarnation) != LAYOUT:
            return Outcome(UNKNOWN_LAYOUT)
        tally = _Tally()
        try:
            for _ in range(_TRIES):
                tally.blocked.clear()
                if self._empty_all(incarnation, tally, by_owner=by_owner):
                    return Outcome(0, tally.returned, tally.suspected)
                if tally.blocked:
                    break
        except _Ended:
            return Outcome(0, tally.returned, tally.suspected)
        return Outcome(UNFINISHED, tally.returned, tally.suspected, tuple(tally.blocked))

    def adopt(self, incarnation: str, tids: Sequence[str]) -> Outcome:
        """Give back what claimers of an incarnation hold that is not registered; as `reap`."""
        if layout_of(incarnation) != LAYOUT:
            return Outcome(UNKNOWN_LAYOUT)
        keys = self.keys
        lists = [keys.inflight_list(incarnation, tid, parity) for tid in tids for parity in (0, 1)]
        is_ours = self.connection.script(
            _ADOPT,
            [keys.inflight, keys.reaping, keys.claims(incarnation), *lists],
            [incarnation, *tids],
        )
        return self.go_on(incarnation) if is_ours else Outcome(ALIVE)

    def _empty_all(self, incarnation: str, tally: _Tally, *, by_owner: bool) -> bool:
        """Empty each list by itself; whether that was all and the reap is over."""
        claims_key = self.keys.claims(incarnation)
        try:
            claims = self.connection.call("HGETALL", claims_key)
        except RedisRefused as error:
            tally.blocked.append(self._why((claims_key, "hash")) or str(error))
            return False
        lists = [
            _List(self.keys.inflight_list(incarnation, text_of(tid), parity), queue)
            for tid, last in zip(claims[::2], claims[1::2], strict=True)
            for queue in [text_of(last.partition(b" ")[2])]
            for parity in (0, 1)
        ]
        found = self.connection.run(*(("EXISTS", each.key) for each in lists)) if lists else []
        for each in (each for each, exists in zip(lists, found, strict=True) if exists):
            try:
                if by_owner:
                    # Give a list back without counting anything.
                    while (moved := self._return(incarnation, each, JOBS_AT_ONCE)) > 0:
                        tally.returned += moved
                else:
                    self._empty(incarnation, each, tally)
            except RedisRefused as error:
                queue, suspects = self.keys.queue(each.queue), self.keys.suspects(each.queue)
                why = self._why((each.key, "list"), (queue, "list"), (suspects, "list"))
                tally.blocked.append(f"{why or error} (its jobs are in {each.key})")
        if tally.blocked:
            return False
        reply = self.connection.script(
            _END,
            [self.keys.reaping, claims_key, *(each.key for each in lists)],
            [incarnation, len(claims) // 2],
        )
        return bool(reply >= 0)

    def _empty(self, incarnation: str, held: _List, tally: _Tally) -> None:
        """Give a list of a dead owner back: to the suspects who was found too often, oldest first."""
        jobs = self._inspect(held.key)
        fates = self._fates({job.orphan for job in jobs})
        rest: list[_Job] = []
        for job in reversed(jobs):
            if fates[job.orphan] == "queue":
                rest.append(job)
            # Those before it on this way have left, so it lies nearer to the end than it was seen.
            elif self._suspect(incarnation, held, job, -len(rest) - 1, fates[job.orphan]):
                tally.suspected += 1
            else:
                return  # not as it was seen: look again
        rest.reverse()
        while rest:
            part = rest[:JOBS_AT_ONCE]
            moved = self._return(incarnation, held, len(part), part)
            if not moved:
                return
            tally.returned += moved
            del rest[:moved]

    def _inspect(self, key: str) -> list[_Job]:
        jobs: list[_Job] = []
        length = 1
        while len(jobs) < length:
            length, *found = self.connection.script(
                _INSPECT, [key], [len(jobs), JOBS_AT_ONCE, BYTES_AT_ONCE]
            )
            if not found:
                break
            for sha, jid in zip(found[::2], found[1::2], strict=True):
                jobs.append(_Job(sha.decode(), (jid or sha).decode()))
        return jobs

    def _fates(self, orphans: set[str]) -> dict[str, str]:
        """The fate of each job by the name of its counter: `queue`, `suspect`, or `known` for one whose count stays."""
        counts = orphan_counts(self.connection, self.keys, orphans)
        return {name: self._fate(count) for name, count in counts.items()}

    def _fate(self, count: int) -> str:
        if count >= self.orphan_limit:
            return "known"
        return "suspect" if count + 1 >= self.orphan_limit else "queue"

    def _return(
        self, incarnation: str, held: _List, most: int, counted: Sequence[_Job] = ()
    ) -> int:
        keys = self.keys
        moved: int = self.connection.script(
            _RETURN,
            [
                keys.reaping,
                held.key,
                keys.queue(held.queue),
                keys.alone,
                keys.careful,
                *(keys.recovered(job.orphan) for job in counted),
            ],
            [
                incarnation,
                most,
                BYTES_AT_ONCE,
                held.queue,
                CAREFUL_FOR_S,
                COUNTED_FOR_S,
                *(job.sha for job in counted),
            ],
        )
        if moved < 0:
            raise _Ended
        return moved

    def _suspect(self, incarnation: str, held: _List, job: _Job, index: int, fate: str) -> bool:
        keys = self.keys
        reply = self.connection.script(
            _SUSPECT,
            [
                keys.reaping,
                held.key,
                keys.suspects(held.queue),
                keys.careful,
                keys.recovered(job.orphan),
            ],
            [
                incarnation,
                index,
                job.sha,
                held.queue,
                CAREFUL_FOR_S,
                COUNTED_FOR_S,
                "0" if fate == "known" else "1",
            ],
        )
        if reply < 0:
            raise _Ended
        return bool(reply)

    def _why(self, *wanted: tuple[str, str]) -> str:
        """Which of these keys, each with the type that it shall have, is of another type; `""`: none."""
        kinds = self.connection.run(*(("TYPE", key) for key, _ in wanted))
        for (key, kind), found in zip(wanted, kinds, strict=True):
            name = text_of(found) if isinstance(found, bytes) else str(found)
            if name not in (kind, "none"):
                return f"{key} holds a {name}, not a {kind}: rename or delete it"
        return ""
