"""Rules that fire by time: the template's schedules, by the stand-in, and a scheduled rule, by LocalStack."""

import json
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

from e2e.performers import QUEUES
from e2e.report import Line
from e2e.scheduler import fire, stored_schedules
from e2e.stage import Stage
from support.waiting import wait_until

MINUTE_MARKER = "rate"
"""First argument of what the rule in sources.yaml enqueues, before the performer's name."""


def play_schedules(stage: Stage) -> Iterator[Line]:
    """Fire each schedule of the stack; a second attempt of the same occurrence enqueues nothing."""
    schedules = list(stored_schedules(stage.cloud, stage.stack["ScheduleGroupName"]))
    if not schedules:
        yield Line(source="Scheduler", outcome="FAILED", remark="no schedule was deployed")
    for schedule in schedules:
        wanted = json.loads(schedule["Target"]["Input"])
        name = f"Scheduler rule {wanted['class']}"
        performer = "Ruby" if wanted["queue"] == QUEUES["Ruby"] else "Python"
        if performer not in stage.performers.names:
            yield Line(source=name, outcome="FAILED", remark=f"{performer} is not installed")
            continue
        before = len(stage.performers.performed(job_class=wanted["class"]))
        began, due = time.time(), datetime.now(UTC)
        try:
            fire(stage.cloud, schedule, due)
            [record] = wait_until(
                lambda: stage.performers.performed(job_class=wanted["class"])[before:],  # noqa: B023
                30,
                f"a {wanted['class']} being performed",
            )
            ms = (record["at"] - began) * 1000
            fire(stage.cloud, schedule, due, attempt=2)
            # What is sent after it is performed after it.
            marker = f"after/{uuid.uuid4().hex[:8]}"
            stage.client("lambda").invoke(
                FunctionName=stage.function,
                InvocationType="Event",
                Payload=json.dumps({"class": "Witness", "args": [marker]}).encode(),
            )
            stage.wait_performed(marker, 30)
            count = len(stage.performers.performed(job_class=wanted["class"])) - before
            assert count == 1, f"a second attempt of the same occurrence: performed {count} times"
        except AssertionError as error:
            yield Line(source=name, outcome="FAILED", remark=str(error))
        else:
            yield Line(
                source=name,
                outcome="ok",
                delivered="1 of 1",
                performed_by=record["by"],
                ms=f"{ms:.0f}",
                remark=f"{schedule['ScheduleExpression']}; a second attempt enqueued nothing",
            )


def play_minute_rule(stage: Stage) -> Line:
    """The rule `rate(1 minute)`, which LocalStack fires a minute after its deployment."""
    name = "scheduled rule, rate(1 minute)"
    try:
        records = [
            stage.wait_performed(f"{MINUTE_MARKER}/{each}", 90)[0]
            for each in stage.performers.names
        ]
    except AssertionError as error:
        return Line(source=name, outcome="FAILED", remark=str(error))
    return Line(
        source=name,
        outcome="ok",
        delivered=f"{len(records)} of {len(records)}",
        performed_by=", ".join(record["by"] for record in records),
        remark="with an input transformer",
    )
