"""What the leader of the fleet does for dynamic schedules: their occurrences are placed ahead (clocks/placing.py)."""

from typing import Final

from kiqbridge.client.client import Client
from kiqbridge.clocks.placing import Placer
from kiqbridge.engine.schedule_leader import ScheduleStep

LOOK_S: Final = 2.0
"""How often it is looked whether a schedule was changed, one round trip; a change takes effect within that."""


def dynamic_steps(client: Client, *, identity: str, horizon_s: float) -> tuple[ScheduleStep, ...]:
    """The steps of `ScheduleLeader` for dynamic schedules.

    Args:
        client: prepares the jobs.
        identity: of this process, for the ledgers.
        horizon_s: how far ahead occurrences are placed, at least.
    """
    placer = Placer(client, client.keys, by=f"worker:{identity}", horizon_s=horizon_s)
    return (ScheduleStep("dynamic schedules", LOOK_S, placer.place),)
