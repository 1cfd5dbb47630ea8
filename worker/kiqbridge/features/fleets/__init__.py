"""Fleets: several Redis, or namespaces of one, each with queues of its own (docs/explanation/scaling.md).

For applications that outgrow one Redis. Where the setting `fleets` is empty nothing of it is loaded. It must never write a
job to a fleet that its queue does not belong to.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(
    package=__name__,
    calls={
        "read_fleets": "fleets:read_fleets",
        "in_fleet": "fleets:in_fleet",
        "fleets_from_message": "fleets:from_message",
        "fleet_writers": "writers:FleetWriters",
    },
)
