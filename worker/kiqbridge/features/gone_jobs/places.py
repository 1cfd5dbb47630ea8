"""Where jobs under flow control, and those of schedules, are: all places, part by part, in the direction in which jobs move.

The leader's search (search.py) and the doctor read them; it loads nothing of a worker.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from kiqbridge.store import scripts
from kiqbridge.store.process_set import read_infos
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

PART: Final = 250
"""Jobs that one command reads: some tenths of a millisecond of the server's time."""

OVERLAP: Final = 10
"""Jobs read twice, from one part to the next: what is taken out of the middle moves the others."""

_RUNNING_JID: Final = re.compile(rb'jid\\*"\s*:\s*\\*"([^"\\]*)')
"""In what a process says that it runs: Sidekiq 7 and later write the job as a text within the JSON (§10.3)."""

_SCAN: Final = scripts.load("flow_scan")

Connection = RedisLike


def places(connection: Connection, keys: Keys) -> Iterator[set[str]]:
    """The jids of jobs under flow control or of schedules in each part of each place; of processes those of all.

    Raises:
        RedisUnavailable, RedisRefused: the rest was not read.
    """
    yield from jids_in(connection, keys.schedule)
    yield from jids_in(connection, keys.retry)
    infos = read_infos(connection.run, keys)
    for name in _queues(connection, keys, infos):
        yield from jids_in(connection, keys.queue(name))
        yield from jids_in(connection, keys.suspects(name))
    yield from jids_in(connection, keys.exporting)
    for incarnation in map(text_of, connection.call("SMEMBERS", keys.inflight)):
        claims = pairs_of(connection.call("HGETALL", keys.claims(incarnation)))
        for tid in map(text_of, claims):
            for number in (0, 1):
                yield from jids_in(connection, keys.inflight_list(incarnation, tid, number))
    for identity in infos:
        running = pairs_of(connection.call("HGETALL", keys.work(identity))).values()
        yield {text_of(jid) for text in running for jid in _RUNNING_JID.findall(text)}
    yield from jids_in(connection, keys.flow_ends)
    # Once more, for those that have failed or were put off while the rest was read.
    yield from jids_in(connection, keys.retry)
    yield from jids_in(connection, keys.schedule)


def nowhere(
    connection: Connection, keys: Keys, jids: Collection[str], most_parts: int
) -> set[str] | None:
    """Those of these jobs that are in no place, twice: a job moves. None: there are more parts than may be read.

    Raises:
        RedisUnavailable, RedisRefused: not known.
    """
    sought = set(jids)
    for _ in range(2):
        found = places(connection, keys)
        for part in islice(found, most_parts):
            sought -= part
            if not sought:
                return sought
        if next(found, None) is not None:
            return None
    return sought


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


def jids_in(connection: Connection, key: str) -> Iterator[set[str]]:
    """Those of jobs under flow control, or of schedules, in a list or a sorted set, part by part."""
    start = 0
    while True:
        members, *jids = connection.script(_SCAN, [key], [start, PART])
        yield set(map(text_of, jids))
        if members < PART:
            return
        start += PART - OVERLAP
