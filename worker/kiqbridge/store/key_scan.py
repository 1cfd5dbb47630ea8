"""Keys whose names begin alike, for operators: it reads through the names of all keys."""

from collections.abc import Iterator, Sequence
from typing import Any

from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire.names import glob_of, text_of


def scan(pool: RedisLike, *command: str, match: str = "*", count: int = 1000) -> Iterator[Any]:
    """The answers of `SCAN`, or of `HSCAN`, `SSCAN` or `ZSCAN` of a key, page by page.

    Raises:
        RedisUnavailable: the rest was not read.
    """
    cursor: Any = b"0"
    while True:
        cursor, found = pool.call(*command, cursor, "MATCH", match, "COUNT", count)
        if found:
            yield found
        if int(cursor) == 0:
            return


def scan_keys(pool: RedisLike, prefix: str) -> Iterator[Sequence[str]]:
    """Keys that begin so, in no order, page by page; one may come twice. Raises as `scan`."""
    pages = scan(pool, "SCAN", match=f"{glob_of(prefix)}*")
    return ([text_of(name) for name in names] for names in pages)
