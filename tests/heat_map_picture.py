"""The heat map of docs/reference/schedules.md: `python tests/heat_map_picture.py > docs/images/heat_map.svg` (`make docs`)."""

import sys
from datetime import UTC, datetime

from kiqbridge.features.lint.heat_map import heat_map
from kiqbridge.features.lint.simulation import DAY_S, Load, simulate
from kiqbridge.schedule.definition import ScheduleDefinition

NIGHT = (0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 5, 6, 22, 23)
MINUTES = (0, 0, 0, 30, 15)
"""What people choose."""


def picture() -> str:
    """Seventy schedules of a year, most of them at night and at full hours."""
    texts = [
        *(f"cron({MINUTES[n % 5]} {NIGHT[n % 15]} * * ? *)" for n in range(40)),
        *(f"cron({n * 7 % 60} {n * 5 % 24} ? * MON-FRI *)" for n in range(18)),
        *(f"cron({minute} * * * ? *)" for minute in (0, 0, 0, 20, 40, 45)),
        *(f"cron(0 {hour} 1 * ? *)" for hour in (1, 4, 9)),
        *("cron(0/30 8-18 ? * MON-FRI *)" for _ in range(3)),
    ]
    zones = ("Europe/Paris", "Europe/Paris", "UTC")
    definitions = [
        ScheduleDefinition(
            name=str(n), expression=text, timezone=zones[n % 3], jobs=({"class": "A"},)
        )
        for n, text in enumerate(texts)
    ]
    start = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    load = Load("Europe/Paris")
    for day in simulate(definitions, start, start + 365 * DAY_S):
        load.add(day)
    return heat_map(load, schedules=len(definitions), period="2026-01-01 to 2027-01-01")


if __name__ == "__main__":
    sys.stdout.write(picture())
