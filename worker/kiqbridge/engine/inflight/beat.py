"""The beat of a process: its sign of life, its watch slot, and what would else be asked for again and again.

Two processes of the fleet look after all others, those that hold one of two watch slots. Both look at
everybody: if one of them dies, the other one has watched all the time. The script of the beat renews a slot
or takes one that is vacant, so that no process asks for it apart, and the cost of the watch does not grow with
the square of the fleet. It also answers whether anybody leads the pollers, and whether there is anything that
dead processes may have left: an idle process asks for nothing else.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys

_BEAT = scripts.load("beat")


class News(NamedTuple):
    """What a beat brings.

    Attributes:
        server_time: of Redis, epoch seconds.
        watches: whether this process holds a watch slot.
        leader: the text of the process that leads the pollers; empty = none.
        ends: whether there are ends of jobs under flow control.
        cancelled: changes when a batch is cancelled; empty if none is.
        pauses: how many pauses there are.
        found: of each group of keys that was asked for, whether one of them exists; empty: no key was found at all.
        slots: the texts of both watch slots; empty = vacant.
    """

    server_time: float
    watches: bool = False
    leader: bytes = b""
    ends: bool = False
    cancelled: bytes = b""
    pauses: int = 0
    found: Sequence[bool] = ()
    slots: tuple[bytes, bytes] = (b"", b"")


def send_beat(
    connection: RedisConnection,
    keys: Keys,
    incarnation: str,
    identity: str,
    *,
    number: int,
    silent_after_ms: int,
    slot_ms: int,
    over: Collection[bytes] = (b"", b""),
    groups: Sequence[Collection[str]] = (),
) -> News | None:
    """Give a sign of life for a lease, and keep or take a watch slot.

    Args:
        connection: where to write.
        keys: the namespace.
        incarnation: the lease.
        identity: of its process; who holds a slot.
        number: of this beat; it grows from beat to beat.
        silent_after_ms: milliseconds for which the owner may be silent then.
        slot_ms: milliseconds for which a slot is held; 0: it is given up.
        over: the text of each slot that is over by the clock of this process (`leadership.Sight`).
        groups: of keys whose existence is of interest.

    Returns:
        None when the lease is gone: one that was taken away is never given back here.

    Raises:
        RedisUnavailable: not known.
    """
    answer = connection.script(
        _BEAT,
        [
            keys.inflight,
            keys.alive,
            keys.watch_1,
            keys.watch_2,
            keys.poller,
            keys.flow_ends,
            keys.cancelled_batches,
            keys.pauses,
            *(key for group in groups for key in group),
        ],
        [incarnation, silent_after_ms, identity, slot_ms, *over, number, *map(len, groups)],
    )
    if not answer:
        return None
    seconds, micros, slot, leader, first, second, *rest = answer
    news = News(
        server_time=seconds + micros / 1_000_000,
        watches=bool(slot),
        leader=leader,
        slots=(first, second),
    )
    if not rest:
        return news
    ends, cancelled, pauses, *counts = rest
    return news._replace(
        ends=bool(ends), cancelled=cancelled, pauses=pauses, found=[*map(bool, counts)]
    )
