"""The set `processes` and the hashes of its members (protocol §10): reading, signing off, cleaning up.

The heartbeat alone writes what a living process shows there.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisLike, RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

BEAT_TTL_S: Final = 60
"""The hash of a process is forgotten so many seconds after its last heartbeat, of Ruby too (§10.2)."""

SIGNAL_TTL_S: Final = 60
"""A signal that no process takes is forgotten after so many seconds (§10.5)."""

CLEANUP_S: Final = 60.0
"""The shortest time between two clean-ups by any process of the fleet (§9.3)."""

MOST_READ: Final = 20
"""Processes that are read at a start, drawn at random from a larger fleet: if hundreds start at once, each of them
would read all others."""


def read_infos(
    run: Callable[..., list[Any]], keys: Keys, *, most: int | None = None, field: str = "info"
) -> Mapping[str, bytes | None]:
    """Identity of each process → a field of its hash (§10.2), None where the hash is gone, or has no such field.

    Args:
        run: sends commands and returns their replies.
        keys: the namespace.
        most: read those of at most so many processes, drawn at random; None: of all.
        field: which one.

    Raises:
        KiqbridgeError: as `run` does.
    """
    which = ("SMEMBERS", keys.processes)
    drawn = ("SRANDMEMBER", keys.processes, most)
    identities = [text_of(name) for name in run(which if most is None else drawn)[0]]
    if not identities:
        return {}
    infos = run(*(("HGET", keys.process(identity), field) for identity in identities))
    return dict(zip(identities, infos, strict=True))


def queues_of_processes(
    run: Callable[..., list[Any]], keys: Keys, *, most: int | None = None
) -> set[str]:
    """Names of all queues that living processes serve, of either language.

    Args:
        run: sends commands and returns their replies.
        keys: the namespace.
        most: read at most so many processes, drawn at random; None: all.

    Raises:
        KiqbridgeError: Redis does not answer that.
    """
    infos = read_infos(run, keys, most=most).values()
    return {name for info in infos if info is not None for name in queues_in(info)}


def queues_in(info: bytes) -> list[str]:
    """The queues that a process serves, out of the field `info` of its hash."""
    queues = json_text.read_object(info).get("queues")
    return [name for name in queues if isinstance(name, str)] if isinstance(queues, list) else []


def sign_off(
    connection: RedisConnection, keys: Keys, identity: str, *, with_hash: bool = False
) -> None:
    """Take a process off the set and forget what it runs (§10.6).

    Args:
        connection: where to write.
        keys: the namespace.
        identity: of the process.
        with_hash: forget its own hash as well, which else ends by itself, as Sidekiq's does.

    Raises:
        RedisUnavailable, RedisRefused: it disappears by itself in a minute.
    """
    own = [keys.process(identity)] if with_hash else []
    connection.run(
        ("SREM", keys.processes, identity),
        ("UNLINK", keys.work(identity), keys.workers(identity), *own),
    )


def remove_gone(connection: RedisLike, keys: Keys) -> None:
    """Take processes off the set whose hash is gone, at most once a minute in the fleet (§9.3).

    Raises:
        RedisUnavailable, RedisRefused: another turn does it.
    """
    if not connection.call("SET", keys.process_cleanup, "1", "NX", "EX", int(CLEANUP_S)):
        return
    gone = [name for name, info in read_infos(connection.run, keys).items() if info is None]
    if gone:
        connection.call("SREM", keys.processes, *gone)


def send_signal(pool: RedisPool, key: str, signal: str) -> None:
    """Put a signal's name into a process' list, from which its heartbeat takes it (§10.5).

    Raises:
        RedisUnavailable: it may have been put there; sending it again does no harm.
    """
    pool.run(("MULTI",), ("LPUSH", key, signal), ("EXPIRE", key, SIGNAL_TTL_S), ("EXEC",))
