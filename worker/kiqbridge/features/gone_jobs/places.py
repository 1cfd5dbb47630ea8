"""Where jobs under flow control, and those of schedules, are: all places, part by part, in the direction in which jobs move.

The leader's search (search.py) and the doctor read them; it loads nothing of a worker.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from kiqbridge.errors import RedisRefused
from kiqbridge.store import scripts
from kiqbridge.store.process_set import read_infos
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

PART: Final = 250
"""Jobs that one command reads: some tenths of a millisecond of the server's time."""

KEPT_S: Final = 3600
"""Seconds within which a look goes on where the one before has ended."""

_ROUNDS: Final = 2

OVERLAP: Final = 10
"""Jobs read twice, from one part to the next: what is taken out of the middle moves the others."""

_RUNNING_JID: Final = re.compile(rb'jid\\*"\s*:\s*\\*"([^"\\]*)')
"""In what a process says that it runs: Sidekiq 7 and later write the job as a text within the JSON (§10.3)."""

_SCAN: Final = scripts.load("flow_scan")

Connection = RedisLike


class Position(NamedTuple):
    """Where a look goes on: in which list of which step, at which of its jobs. Names of lists are in order."""

    step: int = 0
    key: str = ""
    start: int = 0


class Part(NamedTuple):
    """The jids in a part of a place, those of jobs under flow control or of schedules.

    Attributes:
        jids: of a process those of all jobs that it runs.
        read: how many jobs were read, less those that the next part reads again.
        then: where it goes on behind it.
    """

    jids: set[str]
    read: int
    then: Position


def places(connection: Connection, keys: Keys, begin: Position = Position()) -> Iterator[Part]:  # noqa: B008 - a tuple
    """All places, part by part, from a position on.

    Raises:
        RedisUnavailable, RedisRefused: the rest was not read.
    """
    for step, key in _lists(connection, keys):
        if (step, key) < begin[:2]:
            continue
        start = begin.start if (step, key) == begin[:2] else 0
        if step == _RUNNING:
            running = pairs_of(connection.call("HGETALL", key)).values()
            jids = {text_of(jid) for text in running for jid in _RUNNING_JID.findall(text)}
            yield Part(jids, 0, Position(step, key, 1))
            continue
        read = PART
        while read >= PART:
            read, *found = connection.script(_SCAN, [key], [start, PART])
            new = PART - OVERLAP if read >= PART else read
            start += max(new, 1)
            yield Part(set(map(text_of, found)), new, Position(step, key, start))


_RUNNING: Final = 6


def _lists(connection: Connection, keys: Keys) -> Iterator[tuple[int, str]]:
    """Steps and their keys; each is asked for when it is its turn, since jobs move on meanwhile."""
    yield 0, keys.schedule
    yield 1, keys.retry
    infos = read_infos(connection.run, keys)
    names = _queues(connection, keys, infos)
    yield from ((2, key) for key in sorted(map(keys.queue, names)))
    yield from ((3, key) for key in sorted(map(keys.suspects, names)))
    yield 4, keys.exporting
    for incarnation in sorted(map(text_of, connection.call("SMEMBERS", keys.inflight))):
        tids = sorted(map(text_of, pairs_of(connection.call("HGETALL", keys.claims(incarnation)))))
        for tid in tids:
            yield from ((5, keys.inflight_list(incarnation, tid, number)) for number in (0, 1))
    yield from ((_RUNNING, key) for key in sorted(map(keys.work, infos)))
    yield 7, keys.flow_ends
    # Once more, for those that have failed or were put off while the rest was read.
    yield 8, keys.retry
    yield 9, keys.schedule


class Looked(NamedTuple):
    """What a look for jobs has found out.

    Attributes:
        gone: those of them that are in no place, as far as all was looked at.
        note: how much was looked at, if that was not all; else "".
    """

    gone: set[str]
    note: str


def nowhere(
    connection: Connection, keys: Keys, name: str, jids: Collection[str], most_parts: int
) -> Looked:
    """Look for these jobs in all places, twice: a job moves.

    What does not fit into so many parts is left for the next call under this name, within an hour: `kb:sought:NAME`
    keeps for what it looks, and where it goes on.

    Raises:
        RedisUnavailable, RedisRefused: not known.
    """
    key = keys.sought(name)
    kept = json.loads(connection.call("GET", key) or b"{}")
    left, gone = set(kept.get("left", jids)), set(kept.get("gone", ()))
    rounds, read = kept.get("rounds", 0), kept.get("read", 0)
    found = places(connection, keys, then := Position(*kept.get("then", ())))
    for _ in range(most_parts):
        if not left or rounds == _ROUNDS:
            break
        part = next(found, None)
        if part is None:
            rounds, read, then = rounds + 1, 0, Position()
            found = places(connection, keys)
        else:
            left -= part.jids
            read, then = read + part.read, part.then
    is_over = not left or rounds == _ROUNDS
    gone = (left if is_over else gone) & set(jids)
    state = {"gone": list(gone)}
    if not is_over:
        state |= {"left": list(left), "rounds": rounds, "read": read, "then": then}  # type: ignore[dict-item] # JSON
    with suppress(RedisRefused):  # who may only look begins anew each time
        if kept or not is_over:
            connection.call("SET", key, json.dumps(state), "EX", KEPT_S)
    return Looked(gone, "" if is_over else _note(connection, keys, read))


def _note(connection: Connection, keys: Keys, read: int) -> str:
    queues = [keys.queue(text_of(name)) for name in connection.call("SMEMBERS", keys.queues)]
    sizes = connection.run(
        *(("ZCARD", key) for key in (keys.schedule, keys.retry)), *(("LLEN", key) for key in queues)
    )
    total = max(sum(sizes), read)
    return f"looked at {read:,} of {total:,} jobs; the next look goes on behind them"


def _queues(connection: Connection, keys: Keys, infos: Mapping[str, bytes | None]) -> Sequence[str]:
    """Queues with jobs, and those that processes serve: suspects wait beside a queue that was cleared, too."""
    names = set(map(text_of, connection.call("SMEMBERS", keys.queues)))
    for info in infos.values():
        try:
            served = json_text.loads(info or b"{}")["queues"]
            names.update(each for each in served if isinstance(each, str))
        except (json_text.MalformedJSON, KeyError, TypeError):
            continue
    return sorted(names)
