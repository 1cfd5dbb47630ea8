"""The set `processes` and the hashes of its members (protocol §10): reading, signing off, cleaning up.

The heartbeat alone writes what a living process shows there.

`auto` chooses the wire profile from the Ruby processes that live now (docs/decisions/0008-wire-profile.md).

Profile 8 (integer milliseconds) is read wrongly by every Sidekiq before 8, profile 7 by none. So
`auto` writes 8 only while live heartbeats show Ruby processes and all of them are version 8 or later.
"""

import functools
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from redis.exceptions import RedisError

from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime import job_forks
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisLike, RedisPool, has_stand_in
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.payload import Profile, ProfileSetting

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


FRESH_S: Final = 60.0
"""As long as a heartbeat: what is older may be gone, what is newer cannot have been seen by all."""

RETRY_S: Final = 5.0
"""Pause after a look-up that failed, so that a slow server does not slow every push."""

LOOK_UP_TIMEOUT_S: Final = 0.5

OURS: Final = "kiqbridge"
_FIRST_NEW_MAJOR: Final = 8


def profile_for(infos: Iterable[bytes | None]) -> Profile:
    """The profile that every reader understands, given the `info` texts of live processes (§10.2).

    None stands for a process whose hash is gone. Ours are not asked, since they read both; one that
    shows no version is older than 7.
    """
    theirs = [version for info in infos if info is not None and (version := _version(info)) != OURS]
    return "8" if theirs and all(map(_reads_milliseconds, theirs)) else "7"


def is_ours(info: bytes) -> bool:
    """Whether the `info` text of a process is of one of ours (§10.2)."""
    return _version(info) == OURS


def _version(info: bytes) -> str:
    """The version that a process shows, OURS for one of ours, empty for what cannot be read."""
    parsed = json_text.read_object(info)
    version = parsed.get("version")
    version = version if isinstance(version, str) else ""
    labels = parsed.get("labels")
    if version.startswith(f"{OURS}-") or (isinstance(labels, list) and OURS in labels):
        return OURS
    return version


def _reads_milliseconds(version: str) -> bool:
    major = version.partition(".")[0]
    return major.isdecimal() and int(major) >= _FIRST_NEW_MAJOR


class FleetProfile:
    """The profile in effect; with `auto` looked up at most once a minute, when it is needed."""

    def __init__(
        self,
        setting: ProfileSetting,
        pool: RedisPool,
        keys: Keys,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.setting = setting
        self._pool = pool
        self._keys = keys
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._found: Profile = "7"
        self._valid_until = -float("inf")
        _profiles.add(self)

    def current(self) -> Profile:
        """The profile to write now; `auto` is 7 while that is not known. Never raises."""
        if self.setting != "auto":
            return self.setting
        with self._lock:
            if self._monotonic() >= self._valid_until:
                self._look_up()
            return self._found

    def known(self) -> Profile | None:
        """The profile, if nothing has to be read for it; else None."""
        if self.setting != "auto":
            return self.setting
        return self._found if self._monotonic() < self._valid_until else None

    def without_redis(self) -> Profile:
        """The profile for what is not written to Redis."""
        return "7" if self.setting == "auto" else self.setting

    def renew_lock(self) -> None:
        """In a forked child: the thread that held the lock may not be there."""
        self._lock = threading.Lock()

    def _look_up(self) -> None:
        if has_stand_in():
            return  # no process beats there
        # A connection of its own: its timeout is short, and a slow reply here must not cost a push.
        connection = self._pool.connection(timeout_s=LOOK_UP_TIMEOUT_S)
        try:
            # Not repeatable: a second try would double what a push waits at most.
            run = functools.partial(connection.run, repeatable=False)
            self._found = profile_for(read_infos(run, self._keys).values())
            valid_s = FRESH_S
        except (KiqbridgeError, RedisError, OSError):
            self._found, valid_s = "7", RETRY_S  # the push itself reports what is wrong with Redis
        finally:
            connection.close()
        self._valid_until = self._monotonic() + valid_s


_profiles: "weakref.WeakSet[FleetProfile]" = weakref.WeakSet()


def _renew_in_child() -> None:
    for profile in list(_profiles):
        profile.renew_lock()


job_forks.on_child(_renew_in_child)
