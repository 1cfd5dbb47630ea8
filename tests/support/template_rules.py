"""Rules as a template has them, without a template."""

import dataclasses
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from kiqbridge.schedule import cron
from kiqbridge.schedule.template import TemplateFunction, TemplateSchedule

TICK = {"schedule": "app/Rule", "at": "<aws.scheduler.scheduled-time>"}


def rule(
    expression: str,
    name: str = "Rule",
    *,
    timezone: str = "UTC",
    start: datetime | None = None,
    end: datetime | None = None,
    **changes: Any,
) -> TemplateSchedule:
    """A rule of the enqueue function; `changes` are other attributes of it."""
    document = {"class": "Pulse", "args": [2**70], "tick": TICK}
    schedule = TemplateSchedule(
        name=name,
        kind="ScheduleV2",
        expression=cron.parse(expression, timezone, start=start, end=end),
        timezone=timezone,
        input=json.dumps(document),
        enabled=True,
        start=start,
        end=end,
        window_minutes=0,
        function=TemplateFunction(
            name="Enqueue",
            handler="app.lambda_handler",
            code_uri="lambdas/enqueue",
            environment={},
        ),
        path=Path("template.yaml"),
        line=1,
    )
    return dataclasses.replace(schedule, **changes)
