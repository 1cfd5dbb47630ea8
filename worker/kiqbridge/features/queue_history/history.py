"""What the queues were in each minute: `kb:queues:minutes`, a hash of minutes since the epoch.

A minute is JSON: queue → how many jobs waited, for how many seconds the oldest one had, and how many jobs Kiqbridge's
workers had taken by then (`kb:queues:taken`, which their heartbeats write), unless they took none for two hours.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from kiqbridge.client.host import Host
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

if TYPE_CHECKING:
    from kiqbridge.api.operator import Operator
    from kiqbridge.api.queue_rates import Minutes

MINUTES: Final = 60
MOST: Final = 100
"""Queues of a minute: the longest ones."""
KEPT_S: Final = 7200
"""Without a leader all of it is forgotten then."""


def recorder(host: Host) -> Callable[[RedisConnection], object]:
    """The chore of the leader."""
    return partial(record, host.client.keys)


def record(keys: Keys, connection: RedisConnection) -> None:
    """Write the minute that begins or goes on, and forget those of more than an hour ago."""
    names, clock, counts = connection.run(
        ("SMEMBERS", keys.queues), ("TIME",), ("HGETALL", keys.queue_taken)
    )
    now, taken = server_time(clock), pairs_of(counts)
    queues = [text_of(name) for name in names]
    sizes = connection.run(*(("LLEN", keys.queue(name)) for name in queues)) if queues else []
    longest = sorted(zip(queues, sizes, strict=True), key=lambda each: -each[1])[:MOST]
    # A job may be long: none is read of a queue that is not kept.
    oldest = (
        connection.run(*(("LINDEX", keys.queue(name), -1) for name, _ in longest))
        if longest
        else []
    )
    minute = {
        name: [size, round(JobRecord(text).latency(now), 1) if text else 0.0, *_taken(taken, name)]
        for (name, size), text in zip(longest, oldest, strict=True)
    }
    gone = taken.keys() - set(names)
    at = int(now) // 60
    key = keys.queue_minutes
    connection.run(
        ("HSET", key, at, json.dumps(minute)),
        ("HDEL", key, *range(at - 2 * MINUTES, at - MINUTES)),
        ("EXPIRE", key, KEPT_S),
        *((("HDEL", keys.queue_taken, *gone),) if gone else ()),
    )


def _taken(counts: Mapping[bytes, bytes], name: str) -> Sequence[int]:
    """How many jobs workers of this version took from the queue; nothing if they took none lately."""
    count = counts.get(name.encode("utf-8", "surrogateescape"))
    return () if count is None else [int(count)]


def fetch(operator: "Operator") -> "Minutes":
    """Epoch seconds of a minute's begin → what the queues were, the oldest first.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    from kiqbridge.api.queue_rates import QueueMinute  # noqa: PLC0415 - who records reads nothing

    found = pairs_of(operator.pool.call("HGETALL", operator.keys.queue_minutes))
    return {
        60 * int(at): {name: QueueMinute(*each) for name, each in json.loads(text).items()}
        for at, text in sorted(found.items(), key=lambda each: int(each[0]))
    }
