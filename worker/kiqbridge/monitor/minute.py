"""One minute's look of the monitor function: what it measures, and what it does while no worker lives."""

from collections.abc import Collection, Sequence
from typing import Any

from kiqbridge.api import Fact, Operator, fetch_verdict
from kiqbridge.aws.minutely import QUEUE_LATENCY, Turn
from kiqbridge.clocks.missed import MissedTick, check_missed
from kiqbridge.monitor.demand import Backlog, read_backlog
from kiqbridge.monitor.fleet import Fleet, read_fleet
from kiqbridge.monitor.orphans import give_back_orphans
from kiqbridge.monitor.settings import MonitorSettings
from kiqbridge.store.forgetting import dropped_in

MEASURED_QUEUES = 50
"""Queues with metrics of their own, the deepest first: each metric costs."""

MOST_LOGGED = 20
"""Problems in a line of the log."""

MISSED_FOR_S = 3600.0
"""For so long a tick that did not come is measured, whoever has noticed it, and a dead job that was dropped."""


def look(turn: Turn, settings: MonitorSettings) -> dict[str, Any]:
    """Measure fleet and queues, and judge them; if no worker lives, give back what dead ones hold, and look for missed ticks.

    Args:
        turn: of the invocation.
        settings: of the function.

    Returns:
        What was found and done, as JSON.

    Raises:
        RedisUnavailable, RedisRefused: nothing, or not all of it, was done; the next minute does it.
    """
    served = settings.queues
    fleet = read_fleet(turn.connection, turn.keys)
    backlog = read_backlog(turn.connection, turn.keys, served)
    # Before anything that takes time: an alarm that starts workers waits for it.
    _measure(turn, fleet, backlog, served)
    rescue = give_back_orphans(turn.connection, turn.keys, fleet, within_s=turn.left_s())
    found: Sequence[MissedTick] = ()
    if not fleet.has_workers:  # else the leader of the fleet looks for them
        hooks = settings.hooks(turn.by)
        found = check_missed(
            turn.connection, turn.keys, turn.client, by=turn.by, notify=hooks.send
        ).new
    since = backlog.at - MISSED_FOR_S
    recent = turn.connection.call("ZCOUNT", turn.keys.missed, repr(since), "+inf")
    missed = recent + sum(each.at < since for each in found)
    notes = turn.connection.call("ZRANGE", turn.keys.dead_trimmed, since, "+inf", "BYSCORE")
    dropped = dropped_in(notes)
    problems = _problems(turn)
    turn.measure(
        {
            "OrphansGivenBack": rescue.returned,
            "MissedTicks": missed,
            "DeadTrimmed": dropped,
            "Problems": len(problems),
        }
    )
    return {
        "workers_alive": fleet.workers_alive,
        "demand": backlog.demand(fleet, served),
        "in_flight": fleet.in_flight,
        "due": backlog.due,
        "retries": backlog.retries,
        "scheduled": backlog.scheduled,
        "dead": backlog.dead,
        "dead_trimmed": dropped,
        "queues": {each.name: each.depth for each in backlog.queues},
        "unserved": list(backlog.unserved(fleet)),
        "fleet_silent": backlog.is_silent(fleet),
        "problems": [{"rule": each.kind, "what": each.what} for each in problems[:MOST_LOGGED]],
        "orphans_given_back": rescue.returned,
        "workers_silent": rescue.left,
        "missed_ticks": [
            {"schedule": each.schedule, "at": each.instant, "enqueued": each.enqueued}
            for each in found
        ],
    }


def _problems(turn: Turn) -> Sequence[Fact]:
    """What the page Now calls critical; missed ticks, which it shows for a day, have a metric of their own."""
    here = Operator(client=turn.client, by=turn.by, via="monitor")
    return [
        each
        for each in fetch_verdict(here).facts
        if each.severity == "critical" and each.kind != "missed-ticks"
    ]


def _measure(turn: Turn, fleet: Fleet, backlog: Backlog, served: Collection[str]) -> None:
    workers = fleet.workers
    turn.measure(
        {
            "WorkersAlive": fleet.workers_alive,
            "BusyThreads": sum(each.busy for each in workers),
            "Concurrency": sum(each.concurrency for each in workers),
            "Demand": backlog.demand(fleet, served),
            "QueueDepth": sum(each.depth for each in backlog.queues),
            QUEUE_LATENCY: max(
                (each.latency_s for each in backlog.queues if not each.is_paused), default=0.0
            ),
            "InFlight": fleet.in_flight,
            "Due": backlog.due,
            "Retries": backlog.retries,
            "Dead": backlog.dead,
            "FleetSilent": int(backlog.is_silent(fleet)),
        }
    )
    deepest = sorted(backlog.queues, key=lambda each: (-each.depth, each.name))
    for each in deepest[:MEASURED_QUEUES]:
        turn.measure({"QueueDepth": each.depth, QUEUE_LATENCY: each.latency_s}, queue=each.name)
