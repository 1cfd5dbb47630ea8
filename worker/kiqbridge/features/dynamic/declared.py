"""Schedules that are declared beside their jobs: `@job(cron="0 3 * * *")`. Every worker keeps its own in Redis.

While a fleet is deployed, workers of two versions of the code run. So that they do not fight:

1. Each worker publishes in `kb:declared` what it declares, and refreshes that every 30 s.
2. A declaration that no worker has published before is a new version: it replaces the one in `kb:schedules`. But a
   schedule belongs to one app: while live workers of that app declare it, workers of another app that declare it
   otherwise do not start (`claim`). Workers that have loaded a package or file in common are of one app.
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
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.client.client import Client
from kiqbridge.client.known_schedules import digest_of, parsed, read_schedule
from kiqbridge.errors import ConfigError, KiqbridgeError
from kiqbridge.features.dynamic.published import (
    REFUSED,
    SEEN,
    WORKER,
    Live,
    Published,
    read_published,
)
from kiqbridge.features.dynamic.schedules import TRIES, Schedules, busy
from kiqbridge.features.dynamic.store import BACK, hold
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisLike, RedisPool
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import shown

if TYPE_CHECKING:
    from kiqbridge.client.fleets import FleetWriters
    from kiqbridge.client.registry import Registry
    from kiqbridge.engine.parts import EngineParts  # which the functions have not

logger = logging.getLogger(__name__)

READERS: Final = 10
"""Live workers of which each reads, at every refresh, what all declare; of more, as many in all."""

MOST_VERSIONS: Final = 20
"""Versions of one declaration that are remembered as older ones."""


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
        self._identity = identity
        self._field = f"{WORKER}{identity}"
        self._warned: set[str] = set()
        self._skips = 0

    def claim(self, connection: RedisLike) -> None:
        """Take the names of the declared schedules for the apps of this process, before anything else of it starts.

        Raises:
            ConfigError: one of them belongs to another app, and live workers declare it otherwise.
            RedisUnavailable: call again.
        """
        if not self._declared:
            return
        key = self._keys.declared
        now = server_time(connection.call("TIME"))
        _, *made, fields = connection.run(
            ("HSET", key, self._field, self._presence(now)),
            # So that of two that start at once only one has it.
            *(
                ("HSETNX", key, f"{SEEN}{name}", _seen(app, []))
                for name, (app, *_) in self._declared.items()
            ),
            ("HGETALL", key),
        )
        published = read_published(pairs_of(fields), self._field, now)
        for name, (app, *_) in self._declared.items():
            rival = self._rival(name, published)
            if rival is not None:
                taken = [
                    f"{SEEN}{each}" for each, new in zip(self._declared, made, strict=True) if new
                ]
                connection.call("HDEL", key, self._field, *taken)
                self._note_refusal(connection, name, rival, now)
                raise ConfigError(
                    f"schedule {shown(name)} of application {shown(app)} is declared by application {shown(rival.app)} as "
                    f"well, and otherwise (worker {shown(rival.worker)}): one of them would never fire; give one of "
                    f"them another schedule_name; if {shown(app)} is {shown(rival.app)} under a new name, set app: "
                    f"{shown(rival.app)} (KIQBRIDGE_APP)"
                )

    def keep(self, connection: RedisLike) -> None:
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
        published = read_published(pairs_of(fields), self._field, now)
        # For how many refreshes the others are not read; drawn, so that workers started together spread.
        self._skips = round(random.uniform(0.5, 1.5) * (published.workers // READERS))  # noqa: S311 - spreads load
        for name in self._declared:
            self._keep_one(connection, name, published, now)
        for name, (app, _) in published.seen.items():
            if app in self._apps and name not in self._declared and name not in published.live:
                self._remove(connection, name)
        for name, value in published.ahead.items():
            # So that it ends by this clock; who lives says the same.
            text = json_text.dumps({**value, "at": now})
            connection.call("HSET", self._keys.declared, name, text)
        if published.old:
            connection.call("HDEL", self._keys.declared, *published.old)

    def _refresh(self, connection: RedisLike) -> bool:
        """Publish what this process declares; whether `kb:schedules` has just that."""
        if not self._declared:
            return True
        texts, time = connection.run(("HMGET", self._keys.schedules, *self._declared), ("TIME",))
        presence = self._presence(server_time(time))
        connection.call("HSET", self._keys.declared, self._field, presence)
        return list(map(digest_of, texts)) == [digest for *_, digest in self._declared.values()]

    def _presence(self, now: float) -> bytes:
        apps: dict[str, dict[str, str]] = {app: {} for app in sorted(self._apps)}
        for name, (app, _, digest) in self._declared.items():
            apps[app][name] = digest
        return json_text.dumps({"at": now, "apps": apps})

    def _rival(self, name: str, published: Published) -> Live | None:
        """A live worker of the app whose schedule this is, which declares it otherwise; None: it may be ours."""
        owner, _ = published.seen.get(name, ("", []))
        *_, digest = self._declared[name]
        others = published.live.get(name, ())
        owners = [each for each in others if each.app == owner and self._apps.isdisjoint(each.apps)]
        # One that declares the same is this app under another name, or harms no other app.
        is_shared = owner in self._apps or any(each.digest == digest for each in owners)
        return owners[0] if owners and not is_shared else None

    def _note_refusal(self, connection: RedisLike, name: str, rival: Live, now: float) -> None:
        app, *_ = self._declared[name]
        refusal = {"at": now, "app": app, "by": self._identity, "owner": rival.app}
        connection.call("HSET", self._keys.declared, f"{REFUSED}{name}", json_text.dumps(refusal))

    def _keep_one(self, connection: RedisLike, name: str, published: Published, now: float) -> None:
        app, definition, digest = self._declared[name]
        owner, versions = published.seen.get(name, ("", []))
        text = connection.call("HGET", self._keys.schedules, name)
        current = digest_of(text)
        if (rival := self._rival(name, published)) is not None:  # both have started at once
            self._note_refusal(connection, name, rival, now)
            self._log_once(
                name,
                "schedule %s: application %s declares it as well as %s, and otherwise; the one of %s holds: give one of "
                "them another schedule_name",
                shown(rival.app),
                shown(app),
                shown(rival.app),
            )
            return
        others = published.live.get(name, ())
        is_older = digest in versions and any(each.digest == current for each in others)
        if current != digest and text and is_older:
            self._log_once(
                name,
                "schedule %s: a worker with a newer version of the code, or of another application of the name %s, "
                "declares it otherwise; that one holds; give two applications different names (app)",
                shown(app),
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
        if owner != app and not any(each.app == owner for each in others):
            owner = app
        if versions[-1:] != [digest] or published.seen[name][0] != owner:
            versions = [*(each for each in versions if each != digest), digest][-MOST_VERSIONS:]
            connection.call("HSET", self._keys.declared, f"{SEEN}{name}", _seen(owner, versions))

    def _take_over(self, fleets: "FleetWriters", name: str) -> bool:
        """Let a schedule count on here where another fleet ends it; False: it does not end there yet."""
        cursors = []
        for fleet, there in fleets.others():
            try:
                declared, time = there.pool.run(("HGETALL", there.keys.declared), ("TIME",))
                if name in read_published(pairs_of(declared), "", server_time(time)).live:
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

    def _remove(self, connection: RedisLike, name: str) -> None:
        if remove_declared(self._pool, self._keys, name):
            logger.info("schedule %s is declared by no worker any more: it is removed", name)
        connection.call("HDEL", self._keys.declared, f"{SEEN}{name}")

    def _log_once(self, name: str, text: str, *more: object) -> None:
        if name not in self._warned:
            self._warned.add(name)
            logger.warning(text, name, *more)


def keep(parts: "EngineParts") -> Callable[[RedisConnection], object]:
    """The chore of each worker for the schedules that its code declares."""
    return _of_worker(parts).keep


def claim(parts: "EngineParts") -> None:
    """Take the names of the schedules that are declared beside jobs.

    Raises:
        ConfigError: one of them belongs to another application.
        RedisUnavailable: call again.
    """
    _of_worker(parts).claim(parts.pool)


def _of_worker(parts: "EngineParts") -> DeclaredSchedules:
    return declared_schedules(
        parts.client, parts.registry, app=parts.config.app, identity=parts.identity
    )


def declared_schedules(
    client: Client, registry: "Registry", *, app: str, identity: str
) -> DeclaredSchedules:
    """Those that the jobs of a registry declare.

    Args:
        client: of the fleet.
        registry: the declared jobs, some with schedules.
        app: the setting; empty: that of a schedule is the package or file that declares it.
        identity: of this process.
    """
    fleets = client.fleets
    apps = {each.name: app or each.origin.partition(".")[0] for each in registry}
    return DeclaredSchedules(
        client,
        [
            (apps[each.name], each.schedule)
            for each in registry
            if each.schedule is not None
            and (fleets is None or all(map(fleets.has, each.schedule.queues)))
        ],
        apps=set(apps.values()),
        identity=identity,
    )


def remove_declared(pool: RedisPool, keys: Keys, name: str) -> bool:
    """Remove a schedule that is declared beside no job any more; its state and cursor stay.

    Returns:
        Whether there was one.

    Raises:
        RedisUnavailable: call again, which does no harm.
    """
    for _ in range(TRIES):
        read = read_schedule(pool, keys, name)
        known = parsed(name, read.definition)
        if known is None or known.origin != "code":
            return False
        about: Any = {"known": read.state, "state": read.state, "cursor": BACK}
        if hold(pool, keys, name, **about, withdraw="all", verb="remove"):
            return True
    raise busy(name)


def _seen(app: str, versions: list[str]) -> bytes:
    return json_text.dumps({"app": app, "versions": versions})
