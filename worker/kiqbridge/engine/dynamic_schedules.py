"""What a worker does for dynamic schedules.

The leader of the fleet places their occurrences ahead (clocks/placing.py); each worker keeps those that its code
declares in Redis (clocks/declared.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kiqbridge.client.client import Client
from kiqbridge.clocks.declared import DeclaredSchedules
from kiqbridge.clocks.placing import HORIZON_S, Placer, PlacingReport
from kiqbridge.feature import Host
from kiqbridge.store.redis_connection import RedisConnection

if TYPE_CHECKING:
    from kiqbridge.client.registry import Registry
    from kiqbridge.engine.parts import EngineParts
    from kiqbridge.schedule.definition import ScheduleDefinition


def place(host: Host) -> Callable[[RedisConnection], PlacingReport]:
    """The chore that looks whether a schedule was changed, or is to be placed: one round trip if not."""
    horizon_s = host.config.schedule_horizon_s if host.config else HORIZON_S
    placer = Placer(host.client, host.client.keys, by=host.by, horizon_s=horizon_s)

    def place_due(connection: RedisConnection) -> PlacingReport:
        report = placer.place(connection)
        if report.new:
            host.notify(report.new)
        return report

    return place_due


def keep_declared(parts: "EngineParts") -> Callable[[RedisConnection], object]:
    """The chore of each worker for the schedules that its code declares."""
    return declared_schedules(
        parts.client, parts.registry, app=parts.config.app, identity=parts.identity
    ).keep


def claim(parts: "EngineParts") -> None:
    """Take the names of the schedules that are declared beside jobs.

    Raises:
        ConfigError: one of them belongs to another application.
        RedisUnavailable: call again.
    """
    declared_schedules(
        parts.client, parts.registry, app=parts.config.app, identity=parts.identity
    ).claim(parts.pool)


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
    apps = {each.name: app or each.origin.partition(".")[0] for each in registry}
    return DeclaredSchedules(
        client,
        [
            (apps[each.name], each.schedule)
            for each in registry
            if each.schedule is not None and _is_here(client, each.schedule)
        ],
        apps=set(apps.values()),
        identity=identity,
    )


def _is_here(client: Client, schedule: "ScheduleDefinition") -> bool:
    """Whether the jobs of a schedule have queues of this worker's fleet."""
    fleets = client.fleets
    return fleets is None or all(
        fleets.has(str(job.get("queue", "default"))) for job in schedule.jobs
    )
