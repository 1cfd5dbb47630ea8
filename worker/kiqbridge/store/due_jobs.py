"""Moving due members of `retry` and `schedule`, in one script for each step (reliability §10).

The poller decides what becomes of a member; what another client has moved, deleted or rescheduled in
the meantime is left alone.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kiqbridge.store import scripts
from kiqbridge.store.effects import Effect, packed
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys

BATCH: Final = 1000
"""Members moved per script, at most; see also `RedisConnection.batch_bytes`."""

_DUE = scripts.load("due")
_PROMOTE = scripts.load("promote")
_BURY = scripts.load("bury")


class Buried(NamedTuple):
    """A member that is not pushed.

    Attributes:
        member: as read.
        kept: as it is to be kept in the dead set, or b"" for one that is dropped.
        effects: of its end (engine/settle/ending.py).
    """

    member: bytes
    kept: bytes
    effects: Sequence[Effect] = ()


def read_due(
    connection: RedisConnection, source: str, now: float, *, left_out: int = 0
) -> list[bytes]:
    """The first members of a set that are due at `now` (epoch seconds), up to `BATCH`.

    Args:
        connection: where to read.
        source: key of the set.
        now: epoch seconds.
        left_out: how many of them to pass over, from the first one on.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    due: list[bytes] = connection.script(
        _DUE, [source], [repr(now), left_out, BATCH, connection.batch_bytes]
    )
    return due


def promote(
    connection: RedisConnection,
    keys: Keys,
    source: str,
    jobs: Mapping[str, tuple[Sequence[bytes], Sequence[bytes]]],
    *,
    now: float,
    dropped: Sequence[bytes] = (),
) -> int:
    """Push jobs to their queues and take them off a set; returns how many were still there and due.

    Args:
        connection: where to write.
        keys: the namespace.
        source: key of the set.
        jobs: queue → members as read, and as many texts to push in their place.
        now: epoch seconds.
        dropped: members to remove without a push.

    Raises:
        RedisUnavailable: repeat it; what was moved is not moved again.
        RedisRefused: the key `queues` is no set; nothing was moved.
    """
    args: list[str | bytes | float] = [repr(now)]
    for queue, (members, texts) in jobs.items():
        args += [queue, len(members), *members, *texts]
    targets = [source, keys.queues, *(keys.queue(queue) for queue in jobs)]
    return int(connection.script(_PROMOTE, targets, [*args, *dropped]))


def bury(
    connection: RedisConnection, keys: Keys, source: str, members: Sequence[Buried], *, now: float
) -> int:
    """Move members that cannot become jobs to the dead set, beside their twins; returns how many left.

    Args:
        connection: where to write.
        keys: the namespace.
        source: key of the set.
        members: what leaves the set.
        now: epoch seconds, their score in the dead set.

    Raises:
        RedisUnavailable: repeat it; what was moved is not moved again.
    """
    args: list[str | bytes | float] = [repr(now)]
    targets = [source, keys.dead]
    for member, kept, effects in members:
        its_keys, its_args = packed(effects)
        targets += its_keys
        args += [member, kept, *its_args]
    return int(connection.script(_BURY, targets, args))
