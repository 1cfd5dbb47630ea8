"""Locks of unique jobs: asked for before one begins, looked after when its job is gone or has ended.

The seams `begins`, `open_jobs` and `consequences`.

`kb:locks` is a hash, name → `UNTIL JID`; `kb:locks:look` says when each is looked at next; `kb:replaced` are the
jids of jobs that another one has replaced, until when that must be known. Pushes take locks (mark.py).

A lock is due for a look ten minutes after it was taken. One whose job was found is looked at an hour later; one whose job
is gone is freed.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kiqbridge.client.client import Client
from kiqbridge.features.gone_jobs.search import AGAIN_S
from kiqbridge.features.unique.freeing import Lock, looked_at
from kiqbridge.features.unique.mark import LOOK_S, lock_of
from kiqbridge.store import scripts
from kiqbridge.store.begin import Answer, Ask
from kiqbridge.store.effects import Effect
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.payload import FLOW

_WORK: Final = "beginning unique jobs under their locks, without which they begin at once,"


def ask_lock(keys: Keys, payload: Mapping[str, Any]) -> Ask | None:
    """Ask for its lock, which is freed if the job holds it until it begins; None: it has none."""
    mark = lock_of(payload)
    if mark is None:
        return None
    take = "" if mark.take_s is None else repr(mark.take_s)
    args: list[str | float] = [mark.name, str(payload.get("jid")), mark.until, take, LOOK_S]

    def why(answer: Answer) -> str:
        if answer.more[0] == "replaced":
            return f"a later job has replaced it (unique, lock {mark.name})"
        return f"job {answer.more[0]} has its lock {mark.name} (unique)"

    return Ask(Effect("lock", [keys.locks, keys.locks_look, keys.replaced], args), _WORK, why)


logger = logging.getLogger(__name__)

MOST: Final = 500
"""Locks that one search is about."""

_DUE: Final = scripts.load("locks_due", __file__)


KIND: Final = Lock


def due(connection: RedisConnection, keys: Keys) -> list[Lock]:
    """The locks that are to be looked at, up to `MOST`; forgets what is over, locks included. One command.

    Raises:
        RedisUnavailable, RedisRefused: repeat it.
    """
    names = [keys.locks, keys.locks_look, keys.replaced]
    found = [text_of(each) for each in connection.script(_DUE, names, [MOST])]
    return [Lock(name, jid) for name, jid in zip(found[::2], found[1::2], strict=True)]


def pages(*_: object) -> Sequence[Sequence[Lock]]:
    """No others."""
    return ()


def found(connection: RedisConnection, keys: Keys, kept: Sequence[Lock]) -> None:
    """They are looked at again."""
    looked_at(connection, keys, kept=kept, again_s=AGAIN_S)


def end(connection: RedisConnection, keys: Keys, gone: Sequence[Lock]) -> int:
    """They are freed, unless other jobs own them by now; how many were."""
    freed = looked_at(connection, keys, gone=gone)
    if freed:
        logger.warning(
            "%d locks of unique jobs are freed: their jobs are gone, and their end was not noted, "
            "such as %s of job %s",
            freed,
            gone[0].name,
            gone[0].jid,
        )
    return freed


def unlock(end: FlowEnd, client: Client) -> Sequence[Effect]:
    """The lock of a unique job is free, if this job still owns it."""
    mark = lock_of({FLOW: end.flow})
    if mark is None:
        return ()
    keys = client.keys
    return [Effect("unlock", [keys.locks, keys.locks_look, keys.replaced], [mark.name, end.jid])]
