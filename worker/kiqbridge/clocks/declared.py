"""Schedules that are declared beside their jobs: `@job(cron="0 3 * * *")`. Every worker keeps its own in Redis.

While a fleet is deployed, workers of two versions of the code run. So that they do not fight:

1. Each worker publishes in `kb:declared` what it declares, and refreshes that every 30 s.
2. A declaration that no worker has published before is a new version: it replaces the one in `kb:schedules`.
3. One that is known is an older version: it is written again only when no live worker has the other one (all of
   the new version were rolled back).
4. A schedule that no live worker declares is removed by a worker of the same app: one that loads the package or file
   that declared it, or has the same setting `app`. The folder of a release plays no part. State and cursor stay: if
   the schedule is declared again within a day, it counts on.

5. Where there are fleets, a worker declares those whose jobs have queues of its own fleet. One that is new here ends
   in the other fleets first: it waits until no live worker declares it there, removes it, and counts on from there.

Reading what all workers declare is for a few of them at a time in a large fleet: each worker refreshes what it
declares every 30 s, and compares it with what is in `kb:schedules`; it reads all when these differ, and else the less
often the more workers live (`READERS` of them in 30 s).

A worker is live for 90 s after its last refresh. Workers of one app that load different modules each declare a part:
a schedule stays as long as one of them lives.
"""

import logging
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.client.client import Client
from kiqbridge.client.known_schedules import digest_of
from kiqbridge.client.schedules import Schedules, remove_declared
from kiqbridge.errors import ConfigError, KiqbridgeError
from kiqbridge.runtime.records import dataclass
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

if TYPE_CHECKING:
    from kiqbridge.client.fleets import FleetWriters

logger = logging.getLogger(__name__)

REFRESH_S: Final = 30.0
LIVE_S: Final = 90.0
FORGET_S: Final = 86_400.0
"""A worker that has not refreshed for so long is forgotten."""

READERS: Final = 10
"""Live workers of which each reads, at every refresh, what all declare; of more, as many in all."""

MOST_VERSIONS: Final = 20
"""Versions of one declaration that are remembered as older ones."""

_WORKER: Final = "worker "
_SEEN: Final = "schedule "


@dataclass(slots=True, kw_only=True)
class _Published:
    """What `kb:declared` holds.

    Attributes:
        live: name of a schedule → digests that live workers declare.
        workers: how many other workers are live.
        seen: name → its app, and the digests that were ever written, newest last.
        old: fields of workers that are gone for long.
        ahead: fields of workers with a time to come: from before the server's clock was set back.
    """

    live: dict[str, set[str]] = field(default_factory=dict)
    workers: int = 0
    seen: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    old: list[str] = field(default_factory=list)
    ahead: dict[str, Mapping[str, Any]] = field(default_factory=dict)


class DeclaredSchedules:
    """The declared schedules of this process.

    Args:
        client: of this process.
        definitions: those that its code declares, each with its app.
        apps: all apps of this process, those without schedules as well.
        identity: of this process.
    """

    def __init__(
        self,
        client: Client,
        definitions: Iterable[tuple[str, ScheduleDefinition]],
        *,
        apps: Collection[str],
        identity: str,
    ) -> None:
        self._keys = client.keys
        self._pool = client.pool
        self._fleets = client.fleets
        self._schedules = Schedules(client)
        self._declared = {
            each.name: (app, each, digest_of(json_text.dumps(each.to_document())))
            for app, each in definitions
        }
        self._apps = frozenset(apps)
        self._field = f"{_WORKER}{identity}"
        self._warned: set[str] = set()
        self._skips = 0

    def keep(self, connection: RedisConnection | RedisPool) -> None:
        """Publish what this process declares, and write what is due to be written; see the module.

        Raises:
            RedisUnavailable: call again.
        """
        if self._skips > 0 and self._refresh(connection):
            self._skips -= 1
            return
        fields, time = connection.run(("HGETALL", self._keys.declared), ("TIME",))
        if not fields and not self._declared:
            self._skips = 1  # what others declare meanwhile stays for longer than that
            return
        now = server_time(time)
        if self._declared:
            connection.call("HSET", self._keys.declared, self._field, self._presence(now))
        published = _read(pairs_of(fields), self._field, now)
        # For how many refreshes the others are not read; drawn, so that workers started together spread.
        self._skips = round(random.uniform(0.5, 1.5) * (published.workers // READERS))  # noqa: S311 - spreads load
        for name in self._declared:
            self._keep_one(connection, name, published)
        for name, (app, _) in published.seen.items():
            if app in self._apps and name not in self._declared and name not in published.live:
                self._remove(connection, name)
        for name, value in published.ahead.items():
            # So that it ends by this clock; who lives says the same.
            text = json_text.dumps({**value, "at": now})
            connection.call("HSET", self._keys.declared, name, text)
        if published.old:
            connection.call("HDEL", self._keys.declared, *published.old)

    def _refresh(self, connection: RedisConnection | RedisPool) -> bool:
        """Publish what this process declares; whether `kb:schedules` has just that."""
        if not self._declared:
            return True
        texts, time = connection.run(("HMGET", self._keys.schedules, *self._declared), ("TIME",))
        presence = self._presence(server_time(time))
        connection.call("HSET", self._keys.declared, self._field, presence)
        return list(map(digest_of, texts)) == [digest for *_, digest in self._declared.values()]

    def _presence(self, now: float) -> bytes:
        declared = {name: digest for name, (*_, digest) in self._declared.items()}
        return json_text.dumps({"at": now, "schedules": declared})

    def _keep_one(
        self, connection: RedisConnection | RedisPool, name: str, published: _Published
    ) -> None:
        app, definition, digest = self._declared[name]
        _, versions = published.seen.get(name, ("", []))
        text = connection.call("HGET", self._keys.schedules, name)
        current = digest_of(text)
        is_older = digest in versions and current in published.live.get(name, set())
        if current != digest and text and is_older:
            self._log_once(
                name,
                "schedule %s: a worker with a newer version of the code declares it otherwise; that one holds",
            )
            return
        if current != digest:
            if not text and self._fleets is not None and not self._take_over(self._fleets, name):
                return
            try:
                change = self._schedules.save(definition)
            except ConfigError as error:
                self._log_once(name, "a declared schedule is not registered, %s: %s", error)
                return
            logger.info("schedule %s, declared beside its job, is %s", name, change)
        if versions[-1:] != [digest] or published.seen[name][0] != app:
            versions = [*(each for each in versions if each != digest), digest][-MOST_VERSIONS:]
            seen = json_text.dumps({"app": app, "versions": versions})
            connection.call("HSET", self._keys.declared, f"{_SEEN}{name}", seen)

    def _take_over(self, fleets: "FleetWriters", name: str) -> bool:
        """Let a schedule count on here where another fleet ends it; False: it does not end there yet."""
        cursors = []
        for fleet, there in fleets.others():
            try:
                declared, time = there.pool.run(("HGETALL", there.keys.declared), ("TIME",))
                if name in _read(pairs_of(declared), "", server_time(time)).live:
                    self._log_once(
                        name,
                        "schedule %s: workers of fleet %s still declare it; it begins here once they have stopped",
                        fleet,
                    )
                    return False
                remove_declared(there.pool, there.keys, name)
                cursors.append(there.pool.call("HGET", there.keys.cursors, name))
            except KiqbridgeError as error:
                self._log_once(
                    name,
                    "schedule %s: whether fleet %s has ended it is not known, so that it does not begin here: %s",
                    fleet,
                    error,
                )
                return False
        cursors.append(self._pool.call("HGET", self._keys.cursors, name))
        newest = max(int(cursor or 0) for cursor in cursors)
        if newest > int(cursors[-1] or 0):
            self._pool.call("HSET", self._keys.cursors, name, newest)
        return True

    def _remove(self, connection: RedisConnection | RedisPool, name: str) -> None:
        if remove_declared(self._pool, self._keys, name):
            logger.info("schedule %s is declared by no worker any more: it is removed", name)
        connection.call("HDEL", self._keys.declared, f"{_SEEN}{name}")

    def _log_once(self, name: str, text: str, *more: object) -> None:
        if name not in self._warned:
            self._warned.add(name)
            logger.warning(text, name, *more)


def undeclared(connection: RedisConnection | RedisPool, keys: Keys) -> list[str]:
    """Names of schedules that were declared beside a job, and are declared by no live worker; empty if none lives.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    texts, declared, time = connection.run(
        ("HGETALL", keys.schedules), ("HGETALL", keys.declared), ("TIME",)
    )
    published = _read(pairs_of(declared), "", server_time(time))
    if not published.workers:
        return []
    return sorted(
        text_of(name)
        for name, text in pairs_of(texts).items()
        if _parsed(text).get("origin") == "code" and text_of(name) not in published.live
    )


def _read(fields: Mapping[bytes, bytes], own: str, now: float) -> _Published:
    found = _Published()
    for field_, text in fields.items():
        name, value = text_of(field_), _parsed(text)
        if name.startswith(_SEEN):
            versions = value.get("versions")
            found.seen[name.removeprefix(_SEEN)] = (
                str(value.get("app", "")),
                [str(each) for each in versions] if isinstance(versions, list) else [],
            )
        elif name.startswith(_WORKER) and name != own:
            at = value.get("at")
            age = now - at if isinstance(at, int | float) else FORGET_S
            if age >= FORGET_S:
                found.old.append(name)
            if age < -REFRESH_S:
                found.ahead[name] = value
            found.workers += age < LIVE_S
            if age < LIVE_S and isinstance(schedules := value.get("schedules"), Mapping):
                for schedule, digest in schedules.items():
                    found.live.setdefault(str(schedule), set()).add(str(digest))
    return found


def _parsed(text: bytes) -> Mapping[str, Any]:
    try:
        value = json_text.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}
