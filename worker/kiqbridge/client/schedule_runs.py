"""The jobs of an occurrence of a schedule, and running one by hand: as an extra run, or in place of an occurrence."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from kiqbridge.client.client import Client
from kiqbridge.client.known_schedules import KnownSchedule, Read, read_schedule, require_known
from kiqbridge.errors import KiqbridgeError, PayloadError
from kiqbridge.records import dataclass
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.due import next_instants
from kiqbridge.store.schedule_scripts import (
    ANY,
    BACK,
    CHANGED,
    PlacedJobs,
    Placement,
    hold,
    place,
)
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import TICK
from kiqbridge.wire.tick_mark import TickMark

TRIES: Final = 20
"""The schedule may be changed at the same time; so often in a row it is not."""

LOOK_BACK_S: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRun:
    """A run outside of the times of a schedule.

    Attributes:
        at: instant under which the ledger has it, epoch seconds.
        jids: of its jobs; empty if middleware stopped them.
    """

    at: int
    jids: list[str]


def run_schedule(client: Client, name: str, *, counted: bool, by: str) -> ScheduleRun:
    """Enqueue the jobs of a schedule now; see `Schedules.run`."""
    pool, keys = client.pool, client.keys
    for _ in range(TRIES):
        read = read_schedule(pool, keys, name)
        known = require_known(pool, keys, name, read)
        if counted:
            instant = counted_instant(client, known, read.now)
            _withdraw(client, name, read, instant)
        else:
            instant = _extra_instant(client, known, read.now)
        jobs = jobs_of_occurrence(
            client, known.definition, instant, due=int(read.now), by=by, now=read.now
        )
        placement = Placement(
            name=name,
            definition=digest_of(read.definition),
            state=ANY,
            cursor=ANY,
            new_cursor=None,
            occurrences=[jobs],
        )
        [placed] = place(pool, keys, read.now, [placement])
        if placed > 0:
            return ScheduleRun(at=instant, jids=json_text.loads(jobs.entry)["jids"])
        if placed == 0 and counted:
            raise PayloadError(
                f"schedule {name!r}: its occurrence of {_shown(instant)} was enqueued already; run it without "
                "counting it"
            )
        if placed < CHANGED:
            raise KiqbridgeError(
                f"schedule {name!r}: one of its keys holds another type; kiqbridge doctor names it"
            )
    raise KiqbridgeError(
        f"schedule {name!r} was changed by another process {TRIES} times in a row; try again"
    )


def counted_instant(client: Client, known: KnownSchedule, now: float) -> int:
    """The occurrence that a counted run would stand for, epoch seconds; see `Schedules.run`.

    Raises:
        PayloadError: there is none.
        RedisUnavailable: nothing was read.
    """
    last = known.definition.when.latest_at_or_before(datetime.fromtimestamp(now, UTC))
    if last is not None:
        instant = int(last.timestamp())
        missed, entries = client.pool.run(
            ("ZSCORE", client.keys.missed, f"{instant} {known.name}"),
            ("ZCOUNT", client.keys.ticks(known.name), instant, instant),
        )
        if missed is not None and not entries:
            return instant
    coming = next_instants(known.definition, known.state, after=now, count=1)
    if not coming:
        raise PayloadError(
            f"schedule {known.name!r} has no further occurrence that this run could count as; run it without "
            "counting it"
        )
    return coming[0]


def _withdraw(client: Client, name: str, read: Read, instant: int) -> None:
    """If it was placed ahead already: back, to be placed for now."""
    hold(
        *(client.pool, client.keys, name),
        known=read.state,
        state=read.state,
        cursor=BACK,
        withdraw=[instant],
    )


def _extra_instant(client: Client, known: KnownSchedule, now: float) -> int:
    """The newest second that is no occurrence, and that the ledger does not know."""
    instant = int(now)
    entries = client.pool.call(
        "ZRANGE", client.keys.ticks(known.name), instant - LOOK_BACK_S, instant, "BYSCORE"
    )
    taken = {json_text.loads(entry)["at"] for entry in entries}
    while instant in taken or _may_be_due(known.definition, instant):
        instant -= 1
    return instant


def _shown(instant: int) -> str:
    return f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _may_be_due(definition: ScheduleDefinition, instant: int) -> bool:
    # AWS's instants are floored to the minute, and those of its rates are known to AWS alone.
    if definition.origin == "template":
        return instant % 60 == 0
    moment = datetime.fromtimestamp(instant, UTC)
    is_each_second = definition.when.next_after(moment) == datetime.fromtimestamp(instant + 1, UTC)
    return definition.when.latest_at_or_before(moment) == moment and not is_each_second


def jobs_of_occurrence(
    client: Client, definition: ScheduleDefinition, instant: int, *, due: int, by: str, now: float
) -> PlacedJobs:
    """The jobs of one occurrence, prepared as a push would; those that middleware stops are missing.

    Args:
        client: whose middleware is called.
        definition: of the schedule.
        instant: of the occurrence, epoch seconds.
        due: when its jobs run, epoch seconds.
        by: who places them, for the ledger.
        now: epoch seconds.

    Raises:
        PayloadError: that is no job.
    """
    mark = TickMark(
        schedule=definition.name,
        at=instant,
        overlap=definition.overlap,
        max_age_s=definition.max_age_s,
    ).to_attribute()
    prepared = [
        made
        for item in definition.jobs
        if (made := client.prepare_placed(_item(item, mark, due))) is not None
    ]
    entry = {
        "at": instant,
        "jids": [jid for jid, _ in prepared],
        "by": by,
        "enqueued_at": round(now, 3),
    }
    return PlacedJobs(
        instant=instant,
        entry=json_text.dumps(entry),
        jobs=[(due, text) for _, text in prepared],
    )


def digest_of(text: bytes | None) -> str:
    """As scripts compare what was read; empty for nothing."""
    return hashlib.sha1(text, usedforsecurity=False).hexdigest() if text else ""


def _item(job: Mapping[str, object], mark: Mapping[str, object], due: int) -> dict[str, object]:
    return {**job, TICK: mark, "at": due}
