"""Ticks that did not come: found in the ledgers, recorded once, and by policy enqueued.

A rule of a template is fired by AWS. The process that watches (the leader of the fleet, or the monitor function
while no worker lives) calls `check_missed` again and again:

1. which occurrences were due since the last check, and are older than their grace time (due_ticks.py);
2. which of them have no entry in the ledger;
3. each is recorded in `kb:missed` by one script: who recorded it raises the alert;
4. by the policy of its schedule the last one, or all of them, are enqueued as AWS would have done it, by
   `push_tick`. If AWS delivers later, that is a duplicate: nothing fires twice.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from kiqbridge.client.client import Client
from kiqbridge.client.host import Host
from kiqbridge.errors import KiqbridgeError, RedisRefused, RedisUnavailable
from kiqbridge.features.missed_ticks.due_ticks import KEEP_S, Expectations, Watched, read_watched
from kiqbridge.runtime.records import dataclass
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.missed import MissedTick
from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

DEFAULT_MAX_AGE_S: Final = 86_400.0
"""Seconds after its instant up to which a missed tick is enqueued, where its schedule says nothing."""

AT_ONCE: Final = 500
"""Missed ticks that one script records."""

_RECORD: Final = scripts.load("record_missed", __file__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedReport:
    """What a check found.

    Attributes:
        schedules: how many it looked at.
        now: epoch seconds, on the clock of Redis.
        missed: all that came due since the last check and are missing now, new or not.
    """

    schedules: int
    now: float
    missed: Sequence[MissedTick] = ()

    @property
    def new(self) -> list[MissedTick]:
        """Those that were not recorded before."""
        return [each for each in self.missed if each.is_new]

    @property
    def enqueued(self) -> int:
        """How many were enqueued now."""
        return sum(each.enqueued for each in self.missed)


def check_missed(
    connection: RedisLike,
    keys: Keys,
    client: Client,
    *,
    by: str,
    notify: Callable[[Sequence[MissedTick]], object] | None = None,
    now: float | None = None,
) -> MissedReport:
    """Find the ticks that did not come, record them, and do by policy what is to be done.

    Four round trips if none is missing, whatever the number of schedules.

    Args:
        connection: to Redis.
        keys: names of keys.
        client: enqueues.
        by: who does, kept in the ledger: `worker:IDENTITY` or `monitor:REQUEST`.
        notify: called with those that are new, if there are any; it must not wait.
        now: epoch seconds; None = by the clock of Redis.

    Raises:
        RedisUnavailable, RedisRefused: what is left is done by the next check.
    """
    expected = read_watched(connection, keys, now)
    found: list[MissedTick] = []
    failure: KiqbridgeError | None = None
    missing = _missing(connection, keys, expected)
    new = _record(connection, keys, missing, expected.now)
    for each in missing:
        ticks = [
            MissedTick(
                schedule=each.watched.name,
                at=at,
                late_s=expected.now - at,
                policy=each.watched.policy,
                is_new=(each.watched.name, at) in new,
            )
            for at in each.instants
        ]
        try:
            ticks = _enqueued(each, ticks, client, by, expected.now)
        except (RedisUnavailable, RedisRefused) as error:
            failure = error
        found += ticks
        _log(ticks)
    raised = [each for each in found if each.is_new]
    if raised and notify is not None:
        notify(raised)
    if failure is not None:
        raise failure
    if expected.schedules:
        connection.call("SET", keys.watched, repr(expected.now))
    return MissedReport(schedules=len(expected.schedules), now=expected.now, missed=found)


def watch(host: Host) -> Callable[[RedisConnection], MissedReport]:
    """The chore of who watches."""
    client = host.client
    return lambda connection: check_missed(
        connection, client.keys, client, by=host.by, notify=host.notify
    )


class _Missing(NamedTuple):
    """A schedule, those instants that are not in its ledger, and the latest one that was due."""

    watched: Watched
    instants: list[int]
    latest: int


def _missing(connection: RedisLike, keys: Keys, expected: Expectations) -> list[_Missing]:
    asked: list[tuple[Watched, list[int]]] = []
    for watched in expected.schedules:
        instants = watched.instants(*watched.window(expected.now, expected.last))
        if instants or watched.counts_from_unknown:
            asked.append((watched, instants))
    if not asked:
        return []
    replies = connection.run(*(_ledger_of(keys, *each) for each in asked))
    found = []
    for (watched, instants), texts in zip(asked, replies, strict=True):
        known = {int(json_text.loads(text)["at"]) for text in texts}
        due = instants
        if watched.counts_from_unknown:
            window = watched.window(expected.now, expected.last)
            due = watched.instants(*window, max(known, default=None))
        missing = [each for each in due if each not in known]
        if missing:
            found.append(_Missing(watched, missing, due[-1]))
    return found


def _ledger_of(keys: Keys, watched: Watched, instants: list[int]) -> tuple[str | int, ...]:
    """The command that reads the entries that matter."""
    ledger = keys.ticks(watched.name)
    if watched.counts_from_unknown:
        return ("ZRANGE", ledger, "+inf", "-inf", "BYSCORE", "REV", "LIMIT", 0, 1)
    return ("ZRANGE", ledger, instants[0], instants[-1], "BYSCORE")


def _record(
    connection: RedisLike, keys: Keys, missing: Sequence[_Missing], now: float
) -> set[tuple[str, int]]:
    """Schedule and instant of those that are recorded for the first time."""
    ticks = [(each.watched.name, at) for each in missing for at in each.instants]
    new: set[tuple[str, int]] = set()
    for start in range(0, len(ticks), AT_ONCE):
        some = ticks[start : start + AT_ONCE]
        args: list[str | int] = [int(now - KEEP_S)]
        for name, at in some:
            args += [at, f"{at} {name}"]
        flags = connection.script(_RECORD, [keys.missed], args)
        new |= {tick for tick, flag in zip(some, flags, strict=True) if flag}
    return new


def _enqueued(
    missing: _Missing, ticks: list[MissedTick], client: Client, by: str, now: float
) -> list[MissedTick]:
    """The same ticks, those that the policy asks for enqueued, oldest first."""
    watched = missing.watched
    if watched.policy == "alert":
        return ticks
    max_age_s = watched.definition.max_age_s
    if max_age_s is None:
        max_age_s = DEFAULT_MAX_AGE_S
    done = []
    for tick in ticks:
        if watched.policy == "last" and tick.at != missing.latest:
            done.append(replace(tick, reason="a later one was due"))
        elif tick.late_s > max_age_s:
            done.append(replace(tick, reason=f"it is older than {max_age_s:g} s"))
        else:
            done.append(_pushed(tick, watched.definition, client, by, now))
    return done


def _pushed(
    tick: MissedTick, definition: ScheduleDefinition, client: Client, by: str, now: float
) -> MissedTick:
    try:
        items = [_item(job, now) for job in definition.jobs]
        policies: Any = {"overlap": definition.overlap, "max_age_s": definition.max_age_s}
        outcome = client.push_tick(tick.schedule, tick.at, items, by=by, **policies)
    except (RedisUnavailable, RedisRefused):
        raise
    except KiqbridgeError as error:
        return replace(tick, reason=str(error))
    if outcome.kind == "enqueued":
        return replace(tick, enqueued=True)
    return replace(tick, reason=str(outcome.kind))


def _item(job: Mapping[str, Any], now: float) -> dict[str, Any]:
    """A job of an Input as `Client.push` takes it: `in` and a text in `at` are the function's forms."""
    item = dict(job)
    if "in" in item:
        item["at"] = now + float(item.pop("in"))
    elif isinstance(item.get("at"), str):
        item["at"] = datetime.fromisoformat(item["at"]).timestamp()
    return item


def _log(ticks: Sequence[MissedTick]) -> None:
    """One line for the new ones of a schedule."""
    new = [each for each in ticks if each.is_new]
    if not new:
        return
    newest = new[-1]
    enqueued = sum(each.enqueued for each in ticks)
    logger.warning(
        "schedule %s: %s did not come, %s late; %s. Look at its rule in EventBridge Scheduler (enabled?), at the "
        "errors of the enqueue function and at its dead-letter queue",
        newest.schedule,
        f"the tick of {newest.instant}"
        if len(new) == 1
        else f"{len(new)} ticks up to {newest.instant}",
        f"{newest.late_s / 60:.0f} min",
        f"{enqueued} enqueued by the policy {newest.policy}"
        if enqueued
        else f"not enqueued ({newest.reason or 'its policy is alert'})",
        extra={"schedule": newest.schedule, "missed": len(new)},
    )
