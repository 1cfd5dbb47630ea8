"""One minute's look of the monitor function: what it measures, and what it does while no worker lives."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kiqbridge.api import Fact, Facts, Operator, judge
from kiqbridge.api.facts import QueueFacts
from kiqbridge.api.gauges import GAUGES
from kiqbridge.aws.environment import QUEUE_LATENCY
from kiqbridge.aws.minutely import Invocation
from kiqbridge.config.client_settings import aws_variables
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.config.worker_parsers import OfMissedTicks
from kiqbridge.features.missed_ticks.hooks import MissedTickHooks, hooks_of
from kiqbridge.features.monitor.fleet import Fleet, read_fleet
from kiqbridge.features.monitor.orphans import give_back_orphans
from kiqbridge.wire.dead_bounds import dropped_in

if TYPE_CHECKING:
    from kiqbridge.schedule.missed import MissedTick

MEASURED_QUEUES = 50
"""Queues with metrics of their own, the deepest first: each metric costs."""

MOST_LOGGED = 20
"""Problems, and questions that Redis refused, in a line of the log."""

MISSED_FOR_S = 3600.0
"""For so long a tick that did not come is measured, whichever process noticed it, and a dead job that was dropped."""


PAUSES_S = (1.0,)
"""Between attempts to notify: an invocation waits for them, and ends within a minute."""


class MonitorSettings(NamedTuple):
    """The settings of the monitor function, besides the way to Redis.

    Attributes:
        queues: of the fleet that is scaled; empty = all.
        hooks: makes those who are notified of ticks that did not come; `by` says who does it.
    """

    queues: frozenset[str]
    hooks: Callable[..., MissedTickHooks]

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read them.

        Raises:
            ConfigError: a wrong value; names the variable.
        """
        hooks = partial(
            hooks_of,
            webhook=read(OfMissedTicks.missed_tick_webhook, environ),
            sns_topic_arn=read(OfMissedTicks.missed_tick_sns_topic_arn, environ),
            aws=aws_variables(environ),
            pauses_s=PAUSES_S,
        )
        return cls(frozenset(read(ForFunctions.monitor_queues, environ)), hooks)


def look(turn: Invocation, settings: MonitorSettings) -> dict[str, Any]:
    """Measure fleet and queues, and judge them; if no worker lives, give back what dead ones hold, and look for missed ticks.

    Args:
        turn: of the invocation.
        settings: of the function.

    Returns:
        What was found and done, as JSON.

    Raises:
        RedisUnavailable, RedisRefused: nothing, or not all of it, was done; the next minute does it.
    """
    here = Operator(client=turn.client, by=turn.by, via="monitor")
    fleet = read_fleet(here, turn.connection, settings.queues)
    facts, demand = fleet.facts, fleet.demand(settings.queues)
    # Before anything that takes time: an alarm that starts workers waits for it.
    _measure(turn, fleet, demand)
    rescue = give_back_orphans(turn.connection, turn.keys, fleet, within_s=turn.left_s())
    found: Sequence[MissedTick] = ()
    if not fleet.workers_alive:  # else the leader of the fleet looks for them
        turn.notify = settings.hooks(by=turn.by).send
        found = turn.do_chores()["missed ticks"].new
    since = facts.at - MISSED_FOR_S
    recent = turn.connection.call("ZCOUNT", turn.keys.missed, repr(since), "+inf")
    missed = recent + sum(each.at < since for each in found)
    notes = turn.connection.call("ZRANGE", turn.keys.dead_trimmed, since, "+inf", "BYSCORE")
    dropped = dropped_in(notes)
    problems = _problems(facts)
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
        "demand": demand,
        "in_flight": fleet.in_flight,
        "due": fleet.due,
        "retries": facts.retry.size,
        "scheduled": facts.schedule.size,
        "dead": facts.dead,
        "dead_trimmed": dropped,
        "queues": {each.name: each.depth for each in facts.queues},
        "refused": list(facts.refused[:MOST_LOGGED]),
        "unserved": fleet.unserved,
        "fleet_silent": fleet.is_silent,
        "problems": [{"rule": each.kind, "what": each.what} for each in problems[:MOST_LOGGED]],
        "orphans_given_back": rescue.returned,
        "workers_silent": rescue.left,
        "missed_ticks": [
            {"schedule": each.schedule, "at": each.instant, "enqueued": each.enqueued}
            for each in found
        ],
    }


def _problems(facts: Facts) -> Sequence[Fact]:
    """What the page Now calls critical; missed ticks, which it shows for a day, have a metric of their own."""
    return [
        each
        for each in judge(facts).facts
        if each.severity == "critical" and each.kind != "missed-ticks"
    ]


def _measure(turn: Invocation, fleet: Fleet, demand: int) -> None:
    workers, queues = fleet.workers, fleet.facts.queues
    turn.measure(
        {
            "WorkersAlive": fleet.workers_alive,
            "BusyThreads": sum(each.busy for each in workers),
            "Concurrency": sum(each.concurrency for each in workers),
            "Demand": demand,
            "QueueDepth": sum(each.depth for each in queues),
            QUEUE_LATENCY: max(map(_latency, fleet.unpaused), default=0.0),
            "InFlight": fleet.in_flight,
            "Due": fleet.due,
            **{each.cloudwatch: each.read(fleet.facts) for each in GAUGES if each.cloudwatch},
            "FleetSilent": int(fleet.is_silent),
        }
    )
    for each in sorted(queues, key=lambda each: (-each.depth, each.name))[:MEASURED_QUEUES]:
        turn.measure({"QueueDepth": each.depth, QUEUE_LATENCY: _latency(each)}, queue=each.name)


def _latency(queue: QueueFacts) -> float:
    """Seconds for which its oldest job has waited; 0 if the job says that it is of the future."""
    return max(queue.latency_s, 0.0)
