"""Where jobs under flow control, and those of schedules, are: all places, part by part, in the direction in which jobs move.

The leader's search (search.py) and the doctor read them; it loads nothing of a worker.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kiqbridge.errors import RedisRefused
from kiqbridge.store import scripts
from kiqbridge.store.process_set import queues_in
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.batches import BATCH_BYTES
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

if TYPE_CHECKING:
    from kiqbridge.api.operator import Operator

PART: Final = 250
"""Jobs that one command reads: some tenths of a millisecond of the server's time."""

LOOK: Final = 2_500
"""Jobs that one command of `nowhere` reads: two milliseconds."""

MOST_READ: Final = 9_500
"""Jobs that a look of the page reads: within 64 round trips of the whole doctor."""

_KEYS: Final = 500
"""Lists and sets that one command reads from."""

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


def places(
    connection: Connection,
    keys: Keys,
    begin: Position = Position(),  # noqa: B008 - a tuple
    most: int = PART,
) -> Iterator[Part]:
    """All places, part by part of so many jobs at most, from a position on.

    Raises:
        RedisUnavailable, RedisRefused: the rest was not read.
    """
    for lists in _lists(connection, keys):
        left = [each for each in lists if each >= begin[:2]]
        start = begin.start if left[:1] == [begin[:2]] else 0
        if left and left[0][0] == _RUNNING:
            yield _running(connection, left)
            continue
        while left:
            names = [key for _, key in left[:_KEYS]]
            at, first, read, *found = connection.script(_SCAN, names, [start, most, BATCH_BYTES])
            start = max(first - OVERLAP, start + 1 if at == 0 else 0)
            last, left = left[at - 1], left[at:]
            then = Position(*left[0], start) if left else Position(last[0] + 1)
            yield Part(set(map(text_of, found)), read - max(first - start, 0), then)


def _running(connection: Connection, lists: Sequence[tuple[int, str]]) -> Part:
    """What processes say that they run."""
    replies = connection.run(*(("HGETALL", key) for _, key in lists))
    texts = (text for reply in replies for text in pairs_of(reply).values())
    jids = {text_of(jid) for text in texts for jid in _RUNNING_JID.findall(text)}
    return Part(jids, 0, Position(_RUNNING + 1))


_RUNNING: Final = 6


def _lists(connection: Connection, keys: Keys) -> Iterator[Sequence[tuple[int, str]]]:
    """Steps and their keys in order; they are asked for when it is their turn, since jobs move on meanwhile."""
    yield (0, keys.schedule), (1, keys.retry)
    identities, named = connection.run(("SMEMBERS", keys.processes), ("SMEMBERS", keys.queues))
    processes = sorted(map(text_of, identities))
    infos = connection.run(*(("HGET", keys.process(each), "info") for each in processes))
    served = (name for info in infos if info is not None for name in queues_in(info))
    # Suspects wait beside a queue that was cleared, too.
    names = {*map(text_of, named), *served}
    queues = [(2, key) for key in sorted(map(keys.queue, names))]
    suspects = [(3, key) for key in sorted(map(keys.suspects, names))]
    yield [*queues, *suspects, (4, keys.exporting)]
    yield [(5, key) for key in sorted(_in_flight(connection, keys))]
    yield [(_RUNNING, key) for key in sorted(map(keys.work, processes))]
    # Once more, for those that have failed or were put off while the rest was read.
    yield (7, keys.flow_ends), (8, keys.retry), (9, keys.schedule)


def _in_flight(connection: Connection, keys: Keys) -> Iterator[str]:
    names = list(map(text_of, connection.call("SMEMBERS", keys.inflight)))
    claims = connection.run(*(("HGETALL", keys.claims(name)) for name in names)) if names else []
    for name, threads in zip(names, claims, strict=True):
        for tid in map(text_of, pairs_of(threads)):
            yield from (keys.inflight_list(name, tid, number) for number in (0, 1))


class Looked(NamedTuple):
    """What a look for jobs has found out.

    Attributes:
        gone: those of them that are in no place, as far as all was looked at.
        note: how much was looked at, if that was not all; else "".
    """

    gone: set[str]
    note: str


def nowhere(operator: "Operator", name: str, jids: Collection[str]) -> Looked:
    """Look for these jobs in all places, twice: a job moves.

    When `MOST_READ` jobs were read, five times as many where no page waits for it, the rest is left for the next call under
    this name, within an hour: `kb:sought:NAME` keeps for what it looks, and where it goes on.

    Raises:
        RedisUnavailable, RedisRefused: not known.
    """
    connection, keys = operator.pool, operator.keys
    most = MOST_READ if operator.via == "web" else 5 * MOST_READ
    key = keys.sought(name)
    text, queues = connection.run(("GET", key), ("SMEMBERS", keys.queues))
    kept = json.loads(text or b"{}")
    left, gone = set(kept.get("left", jids)), set(kept.get("gone", ()))
    rounds, read = kept.get("rounds", 0), kept.get("read", 0)
    found = places(connection, keys, then := Position(*kept.get("then", ())), LOOK)
    while left and rounds < _ROUNDS and most > 0:
        part = next(found, None)
        if part is None:
            rounds, read, then = rounds + 1, 0, Position()
            found = places(connection, keys, most=LOOK)
        else:
            left -= part.jids
            most -= part.read
            read, then = read + part.read, part.then
    is_over = not left or rounds == _ROUNDS
    gone = (left if is_over else gone) & set(jids)
    state = {"gone": list(gone)}
    if not is_over:
        state |= {"left": list(left), "rounds": rounds, "read": read, "then": then}  # type: ignore[dict-item] # JSON
    keep = [("SET", key, json.dumps(state), "EX", KEPT_S)] if kept or not is_over else []
    sizes: list[tuple[str, ...]] = []
    if not is_over:
        sizes = [("ZCARD", each) for each in (keys.schedule, keys.retry)]
        sizes += [("LLEN", keys.queue(text_of(each))) for each in queues]
    try:
        counts = connection.run(*sizes, *keep)[: len(sizes)]
    except RedisRefused:  # who may only look begins anew each time
        counts = connection.run(*sizes)
    total = max(sum(counts), read)
    note = f"looked at {read:,} of {total:,} jobs; the next look continues after them"
    return Looked(gone, "" if is_over else note)
