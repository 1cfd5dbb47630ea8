"""What `kb:declared` holds: which live workers declare which schedules, of which app, and who was refused."""

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, Final

from kiqbridge.runtime.records import dataclass
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

REFRESH_S: Final = 30.0
"""How often a worker refreshes what it declares."""

LIVE_S: Final = 90.0
"""For so long after its last refresh a worker counts as living."""

FORGET_S: Final = 86_400.0
"""A worker that has not refreshed for so long is forgotten."""

REFUSED_S: Final = 3600.0
"""For so long a refusal is reported; a worker that is started again and again is refused anew each time."""

WORKER: Final = "worker "
SEEN: Final = "schedule "
REFUSED: Final = "refused "


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What a live worker declares of one schedule: the app that declares it, all apps of the worker, the digest."""

    worker: str
    app: str
    apps: Collection[str]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedSchedule:
    """That a worker was refused, or has not registered its schedule, since another app has one of this name.

    Attributes:
        name: of the schedule.
        app: of the worker that was refused.
        by: identity of that worker.
        owner: the app whose schedule it is.
        age_s: seconds since then.
    """

    name: str
    app: str
    by: str
    owner: str
    age_s: float


@dataclass(slots=True, kw_only=True)
class Published:
    """What `kb:declared` holds.

    Attributes:
        live: name of a schedule → what live workers declare of it.
        workers: how many other workers are live.
        seen: name → its app, and the digests that were ever written, newest last.
        refused: the latest refusal of each schedule.
        old: fields of workers that are gone for long, and of refusals.
        ahead: fields of workers with a time to come: from before the server's clock was set back.
    """

    live: dict[str, list[Live]] = field(default_factory=dict)
    workers: int = 0
    seen: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    refused: list[RefusedSchedule] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    ahead: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def undeclared(connection: RedisLike, keys: Keys) -> list[str]:
    """Names of schedules that were declared beside a job, and are declared by no live worker; empty if none lives.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    texts, declared, time = connection.run(
        ("HGETALL", keys.schedules), ("HGETALL", keys.declared), ("TIME",)
    )
    published = read_published(pairs_of(declared), "", server_time(time))
    if not published.workers:
        return []
    return sorted(
        text_of(name)
        for name, text in pairs_of(texts).items()
        if json_text.read_object(text).get("origin") == "code"
        and text_of(name) not in published.live
    )


def refused(connection: RedisLike, keys: Keys) -> list[RefusedSchedule]:
    """The schedules that a worker of a second app has declared within the last hour, by name.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    declared, time = connection.run(("HGETALL", keys.declared), ("TIME",))
    published = read_published(pairs_of(declared), "", server_time(time))
    return sorted(published.refused, key=lambda each: each.name)


def read_published(fields: Mapping[bytes, bytes], own: str, now: float) -> Published:
    """What the fields of `kb:declared` say at `now` (epoch seconds), without the worker whose field is `own`."""
    found = Published()
    for field_, text in fields.items():
        name, value = text_of(field_), json_text.read_object(text)
        if name.startswith(SEEN):
            versions = value.get("versions")
            found.seen[name.removeprefix(SEEN)] = (
                str(value.get("app", "")),
                [str(each) for each in versions] if isinstance(versions, list) else [],
            )
            continue
        at = value.get("at")
        age = now - at if isinstance(at, int | float) else FORGET_S
        if name.startswith(REFUSED):
            if age >= REFUSED_S:
                found.old.append(name)
            else:
                about = {key: str(value.get(key, "")) for key in ("app", "by", "owner")}
                name = name.removeprefix(REFUSED)
                found.refused.append(RefusedSchedule(name=name, age_s=max(age, 0.0), **about))
        elif name.startswith(WORKER) and name != own:
            if age >= FORGET_S:
                found.old.append(name)
            if age < -REFRESH_S:
                found.ahead[name] = value
            found.workers += age < LIVE_S
            if age < LIVE_S:
                _read_worker(found, name.removeprefix(WORKER), value.get("apps"))
    return found


def _read_worker(found: Published, worker: str, apps: object) -> None:
    if not isinstance(apps, Mapping):
        return
    for app, schedules in apps.items():
        for name, digest in schedules.items() if isinstance(schedules, Mapping) else ():
            declared = Live(worker=worker, app=str(app), apps=apps.keys(), digest=str(digest))
            found.live.setdefault(str(name), []).append(declared)
