"""In place of EventBridge Scheduler: LocalStack stores its schedules and never fires them.

They are read by Scheduler's API, so what is fired is what was deployed. The target is invoked as
Scheduler does, asynchronously and with the Input in which the context attributes are filled in.
"""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from e2e.localstack import LocalStack


def stored_schedules(cloud: "LocalStack", group: str) -> Iterator[dict[str, Any]]:
    """All schedules of a group, as GetSchedule returns them."""
    scheduler = cloud.client("scheduler")
    for page in scheduler.get_paginator("list_schedules").paginate(GroupName=group):
        for each in page["Schedules"]:
            yield scheduler.get_schedule(GroupName=group, Name=each["Name"])


def fire(cloud: "LocalStack", schedule: dict[str, Any], at: datetime, attempt: int = 1) -> None:
    """Deliver one attempt of the occurrence that was due at `at`.

    Raises:
        AssertionError: Scheduler would not fire it.
    """
    assert schedule["State"] == "ENABLED", schedule
    target = schedule["Target"]
    role = target["RoleArn"].rpartition("/")[2]
    assert cloud.client("iam").get_role(RoleName=role), role
    payload = filled_in(target["Input"], arn=schedule["Arn"], at=at, attempt=attempt)
    cloud.client("lambda").invoke(
        FunctionName=target["Arn"], InvocationType="Event", Payload=payload.encode()
    )


def filled_in(text: str, *, arn: str, at: datetime, attempt: int) -> str:
    """An Input with Scheduler's context attributes in it."""
    attributes = {
        "schedule-arn": arn,
        "scheduled-time": f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "execution-id": str(uuid.uuid4()),
        "attempt-number": str(attempt),
    }
    for name, value in attributes.items():
        text = text.replace(f"<aws.scheduler.{name}>", value)
    return text
