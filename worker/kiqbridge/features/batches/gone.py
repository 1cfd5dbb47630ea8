"""Jobs of batches that are gone although their end was not noted (features/gone_jobs/search.py)."""

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kiqbridge.features.batches.steps import KEEP_DONE_S, KEEP_OPEN_S
from kiqbridge.features.gone_jobs.places import PART
from kiqbridge.features.gone_jobs.search import LOOK_S, unless_refused
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

logger = logging.getLogger(__name__)


class Member(NamedTuple):
    """A job of a batch that has not ended."""

    bid: str
    jid: str


KIND: Final = Member


def due(*_: object) -> Sequence[Member]:
    """None: batches are gone through once an hour."""
    return ()


def found(*_: object) -> None:
    """Nothing is noted."""


def pages(connection: RedisConnection, keys: Keys) -> Iterator[list[Member]]:
    """Jobs that have not ended, page by page, of batches that have not succeeded; their children end by themselves.

    The score of a batch is when it is forgotten: 180 days after it was made, or was complete without success, and 30
    days after its success.
    """
    now = time.time()
    within = repr(now + KEEP_DONE_S), repr(now + KEEP_OPEN_S - LOOK_S)
    start = 0
    while True:
        bids = [
            text_of(each)
            for each in connection.call(
                "ZRANGE", keys.batches, *within, "BYSCORE", "LIMIT", start, PART
            )
        ]
        if not bids:
            return
        counts = connection.run(*(("HGET", keys.batch(bid), "pending") for bid in bids))
        yield []
        for bid, count in zip(bids, counts, strict=True):
            if int(count or 0) > 0:
                yield from unless_refused(_pending_of(connection, keys, bid))
        start += len(bids)


def _pending_of(connection: RedisConnection, keys: Keys, bid: str) -> Iterator[list[Member]]:
    cursor = b"0"
    while True:
        cursor, fields = connection.call(
            "HSCAN", keys.batch_members(bid), cursor, "COUNT", 2 * PART
        )
        pairs = pairs_of(fields).items()
        jids = [text_of(name) for name, state in pairs if state == b"p"]
        yield [Member(bid, jid) for jid in jids if not jid.startswith("b:")]
        if cursor == b"0":
            return


def end(connection: RedisConnection, keys: Keys, gone: Sequence[Member]) -> int:
    """They end without success; how many were pending still."""
    ended, by_batch = 0, dict[str, list[str]]()
    for each in gone:
        by_batch.setdefault(each.bid, []).append(each.jid)
    for bid, jids in by_batch.items():
        states = connection.call("HMGET", keys.batch_members(bid), *jids)
        pending = [jid for jid, state in zip(jids, states, strict=True) if state == b"p"]
        ends = [_end_of(bid, jid) for jid in pending]
        if not ends:
            continue
        connection.call("ZADD", keys.flow_ends, *(part for end in ends for part in (0, end)))
        ended += len(ends)
        logger.warning(
            "batch %s: %d of its jobs are gone, and their end was not noted, such as %s: they were deleted, or "
            "Ruby has performed them; they end without success",
            bid,
            len(ends),
            pending[0],
        )
    return ended


def _end_of(bid: str, jid: str) -> bytes:
    return FlowEnd(
        flow={"bid": bid},
        jid=jid,
        job_class="unknown",
        outcome="gone",
        at=time.time(),
        error="JobRemoved",
        message="it is gone from Redis, and its end was not noted",
    ).to_text()
