"""What the queues were in each minute: `kb:queues:minutes`, a hash of minutes since the epoch."""

import json
from collections.abc import Callable, Mapping
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

MINUTES: Final = 60
MOST: Final = 100
"""Queues of a minute: the longest ones."""
KEPT_S: Final = 7200
"""Without a leader all of it is forgotten then."""

Minute = Mapping[str, tuple[int, float]]
"""Queue → jobs that waited, seconds for which the oldest one had."""


def recorder(host: Host) -> Callable[[RedisConnection], object]:
    """The chore of the leader."""
    return partial(record, host.client.keys)


def record(keys: Keys, connection: RedisConnection) -> None:
    """Write the minute that begins or goes on, and forget those of more than an hour ago."""
    names, clock = connection.run(("SMEMBERS", keys.queues), ("TIME",))
    now = server_time(clock)
    queues = [text_of(name) for name in names]
    sizes = connection.run(*(("LLEN", keys.queue(name)) for name in queues)) if queues else []
    longest = sorted(zip(queues, sizes, strict=True), key=lambda each: -each[1])[:MOST]
    # A job may be long: none is read of a queue that is not kept.
    oldest = (
        connection.run(*(("LINDEX", keys.queue(name), -1) for name, _ in longest))
        if longest
        else []
    )
    minute: Minute = {
        name: (size, round(JobRecord(text).latency(now), 1) if text else 0.0)
        for (name, size), text in zip(longest, oldest, strict=True)
    }
    at = int(now) // 60
    key = keys.queue_minutes
    connection.run(
        ("HSET", key, at, json.dumps(minute)),
        ("HDEL", key, *range(at - 2 * MINUTES, at - MINUTES)),
        ("EXPIRE", key, KEPT_S),
    )


def fetch(operator: "Operator") -> Mapping[int, Minute]:
    """Epoch seconds of a minute's begin → what the queues were, the oldest first.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    found = pairs_of(operator.pool.call("HGETALL", operator.keys.queue_minutes))
    return {
        60 * int(at): {name: (size, latency) for name, (size, latency) in json.loads(text).items()}
        for at, text in sorted(found.items(), key=lambda each: int(each[0]))
    }
