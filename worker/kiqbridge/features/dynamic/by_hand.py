"""The instant for which a run of a schedule by hand stands in its ledger."""

from datetime import UTC, datetime
from typing import Final

from kiqbridge.client.known_schedules import KnownSchedule
from kiqbridge.errors import PayloadError
from kiqbridge.features.dynamic.due import next_instants
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys

LOOK_BACK_S: Final = 1000


def counted_instant(pool: RedisPool, keys: Keys, known: KnownSchedule, now: float) -> int:
    """The occurrence that a run stands for: the last one, if it was missed, else the next one.

    Raises:
        PayloadError: there is none.
    """
    last = known.definition.when.latest_at_or_before(datetime.fromtimestamp(now, UTC))
    if last is not None:
        instant = int(last.timestamp())
        missed, entries = pool.run(
            ("ZSCORE", keys.missed, f"{instant} {known.name}"),
            ("ZCOUNT", keys.ticks(known.name), instant, instant),
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


def free_instant(pool: RedisPool, keys: Keys, known: KnownSchedule, now: float) -> int:
    """The latest second that no occurrence has, nor another run."""
    instant = int(now)
    key, first = keys.ticks(known.name), instant - LOOK_BACK_S
    entries = pool.call("ZRANGE", key, first, instant, "BYSCORE")
    taken = {json_text.loads(entry)["at"] for entry in entries}
    while instant in taken or _may_be_due(known.definition, instant):
        instant -= 1
    return instant


def _may_be_due(definition: ScheduleDefinition, instant: int) -> bool:
    # AWS's instants are floored to the minute, and those of its rates are known to AWS alone.
    if definition.origin == "template":
        return instant % 60 == 0
    moment = datetime.fromtimestamp(instant, UTC)
    is_each_second = definition.when.next_after(moment) == datetime.fromtimestamp(instant + 1, UTC)
    return definition.when.latest_at_or_before(moment) == moment and not is_each_second
