"""What a worker does for dynamic schedules.

The leader of the fleet places their occurrences ahead (clocks/placing.py); each worker keeps those that its code
declares in Redis (clocks/declared.py).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from kiqbridge.client.client import Client
from kiqbridge.client.registry import Registry
from kiqbridge.clocks.declared import DeclaredSchedules
from kiqbridge.clocks.placing import Placer
from kiqbridge.clocks.published import REFRESH_S
from kiqbridge.engine.leader import Chore
from kiqbridge.store.redis_connection import RedisConnection

if TYPE_CHECKING:
    from kiqbridge.clocks.missed import MissedTick
    from kiqbridge.schedule.definition import ScheduleDefinition

LOOK_S: Final = 2.0
"""How often it is looked whether a schedule was changed, one round trip; a change takes effect within that."""


def dynamic_chores(
    client: Client,
    registry: Registry,
    *,
    app: str,
    identity: str,
    horizon_s: float,
    notify: Callable[[Sequence["MissedTick"]], object],
) -> tuple[Chore, ...]:
    """The chores of the `Leader` for dynamic schedules.

    Args:
        client: prepares the jobs.
        registry: the declared jobs, some with schedules.
        app: the setting; empty: that of a schedule is the package or file that declares it.
        identity: of this process, for the ledgers.
        horizon_s: how far ahead occurrences are placed, at least.
        notify: called with the occurrences that nobody has placed in time.
    """
    placer = Placer(client, client.keys, by=f"worker:{identity}", horizon_s=horizon_s)
    declared = declared_schedules(client, registry, app=app, identity=identity)

    def place(connection: RedisConnection) -> None:
        found = placer.place(connection).new
        if found:
            notify(found)

    return (
        Chore("declared schedules", REFRESH_S, declared.keep, always=True),
        Chore("dynamic schedules", LOOK_S, place),
    )


def declared_schedules(
    client: Client, registry: Registry, *, app: str, identity: str
) -> DeclaredSchedules:
    """Those that the jobs of a registry declare; the arguments are those of `dynamic_chores`."""
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
