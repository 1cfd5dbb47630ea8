"""Giving back what dead workers hold while no worker lives that would do it.

A worker's reaper does the same within 30 seconds. Here it is done in one invocation, by the same reaper with
the same fencing: a worker that was only frozen finds its lease gone, and drops what it has not begun.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

from kiqbridge.engine.inflight import recovery
from kiqbridge.engine.inflight.incarnations import Incarnation
from kiqbridge.engine.inflight.reaping import Outcome
from kiqbridge.features.monitor.fleet import Fleet
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import shown

logger = logging.getLogger(__name__)

RESERVE_S = 4.0
"""Kept of the invocation's time for giving back what was watched, and for what follows."""


class Rescue(NamedTuple):
    """What was done about dead workers.

    Attributes:
        returned: jobs that went back to their queues, or to those that run alone.
        left: how many dead or silent processes still hold their jobs.
    """

    returned: int = 0
    left: int = 0


def give_back_orphans(
    connection: RedisConnection, keys: Keys, fleet: Fleet, *, within_s: float
) -> Rescue:
    """Give back what silent workers hold, if none lives.

    Ends as soon as a worker gives a sign of life: it does the rest.

    Args:
        connection: its own.
        keys: the namespace.
        fleet: as it was just read.
        within_s: seconds that it may take.

    Raises:
        RedisUnavailable: what was not given back is so by the next call.
    """
    orphans = fleet.orphans
    if fleet.has_leases or not orphans:
        return Rescue(left=len(orphans))
    silent = [each for each in orphans if each.state == "silent"]
    may_be_silent = max(
        (recovery.may_be_silent_s(each, recovery.SILENT_AFTER_S) for each in silent), default=0.0
    )
    rescued: dict[str, int] = {}

    def note(name: str, outcome: Outcome) -> None:
        rescued[name] = rescued.get(name, 0) + outcome.returned + outcome.suspected

    reaper = recovery.Reaper(
        connection,
        keys,
        watch_for_s=may_be_silent * recovery.WATCH_SHARE or recovery.WATCH_FOR_S,
        on_rescue=note,
    )
    for each in orphans:
        if each.state == "being reaped":
            note(each.name, reaper.go_on(each.name))
    for_s = may_be_silent * (1 + recovery.WATCH_SHARE)
    beats = {each.name: each.beat for each in fleet.incarnations}

    def nobody_lives(_left: Sequence[Incarnation], _watched: float) -> bool:
        return all(name in beats and beats[name] == beat for name, beat in reaper.seen.items())

    left = silent
    if for_s <= within_s - RESERVE_S:
        left = recovery.watch(
            reaper, silent, for_s=for_s, until_s=within_s - RESERVE_S, goes_on=nobody_lives
        )
    else:
        logger.warning(
            "%s must be seen silent for %.0f s, which is longer than the %.0f s of this invocation: the jobs "
            "stay in flight; start a worker, or run `kiqbridge recover`",
            shown(", ".join(each.name for each in silent)),
            for_s,
            within_s,
        )
    if rescued:
        logger.warning(
            "%d workers died and none lives: %d of their jobs went back to their queues",
            len(rescued),
            sum(rescued.values()),
        )
    return Rescue(sum(rescued.values()), len(left))
