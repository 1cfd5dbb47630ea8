"""Keys whose names begin alike, for operators: it reads through the names of all keys."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.names import text_of


def scan_keys(pool: RedisPool | RedisConnection, prefix: str) -> Iterator[Sequence[str]]:
    """Keys that begin so, in no order, page by page; one may come twice.

    Raises:
        RedisUnavailable: the rest was not read.
    """
    pattern = re.sub(r"([*?\[\]\\])", r"\\\1", prefix) + "*"
    cursor: Any = b"0"
    while True:
        cursor, names = pool.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
        if names:
            yield [text_of(name) for name in names]
        if int(cursor) == 0:
            return
