"""Reports for Step Functions that wait in Redis: taken, removed, put off (reliability §14).

The outbox writes them (engine/outbox/outbox.py); workers of before also wrote them with the scripts that settle.
"""

from collections.abc import Sequence
from typing import Final

from kiqbridge.runtime.records import dataclass
from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys

_TAKE: Final = scripts.load("take_reports")


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenReports:
    """Reports that no other process takes for a while; `now` is the server's time, epoch seconds."""

    now: float
    texts: Sequence[bytes]


def take_reports(
    connection: RedisConnection, keys: Keys, *, most: int, for_s: float
) -> TakenReports:
    """Take up to `most` reports that are due, for so many seconds.

    Raises:
        RedisUnavailable, RedisRefused: those that were taken are due again after that time.
    """
    now, *texts = connection.script(_TAKE, [keys.task_reports], [most, for_s])
    return TakenReports(now=float(now), texts=texts)


def has_reports(connection: RedisConnection, keys: Keys) -> bool:
    """Whether any report waits, due or not: one cheap command.

    Raises:
        RedisUnavailable: not known.
    """
    return bool(connection.call("EXISTS", keys.task_reports))


def remove_report(connection: RedisConnection, keys: Keys, report: bytes) -> None:
    """A report has been sent, or no execution waits for it.

    Raises:
        RedisUnavailable: repeat it.
    """
    connection.call("ZREM", keys.task_reports, report)


def put_off_report(connection: RedisConnection, keys: Keys, report: bytes, *, until: float) -> None:
    """A report is due again at this time (epoch seconds, of the server), unless it is gone.

    Raises:
        RedisUnavailable: it is due again when the time is over for which it was taken.
    """
    connection.call("ZADD", keys.task_reports, "XX", repr(until), report)


def replace_report(connection: RedisConnection, keys: Keys, report: bytes, by: bytes) -> None:
    """Put another report, due now, in the place of one, in one transaction.

    Raises:
        RedisUnavailable: repeat it.
    """
    connection.run(
        ("MULTI",),
        ("ZADD", keys.task_reports, "0", by),
        ("ZREM", keys.task_reports, report),
        ("EXEC",),
    )
