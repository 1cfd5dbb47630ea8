"""The life of the stack after its creation: a changed parameter takes effect, and deletion leaves nothing."""

import time
import uuid
from collections.abc import Iterator

from botocore.exceptions import ClientError
from e2e.report import Line
from e2e.scheduler import stored_schedules
from e2e.sources import invoke
from e2e.stacks import Stack
from e2e.stage import Stage


def update_stack(stage: Stage, stack: Stack) -> Line:
    """Take a class from the allowed ones, then allow it again: the function follows."""
    name = f"update of {stack.name}"
    began = time.monotonic()
    marker = f"update/{uuid.uuid4().hex[:8]}"
    job = {"class": "Witness", "args": [marker]}
    allowed = stack.parameters["AllowedClasses"]
    try:
        before = stack.resources()
        stack.deploy(AllowedClasses=allowed.replace(",Witness", ""))
        refused = refusal(stage, job)
        assert "Witness" in refused and "NotAllowed" in refused, refused
        stack.deploy(AllowedClasses=allowed)
        invoke(stage, job)
        stage.wait_performed(marker, 30)
        moved = {key for key, value in before.items() if stack.resources().get(key) != value}
        assert not moved, f"replaced or gone by a changed parameter: {sorted(moved)}"
    except AssertionError as error:
        return Line(source=name, outcome="FAILED", remark=str(error))
    return Line(
        source=name,
        outcome="ok",
        ms=f"{(time.monotonic() - began) * 1000:.0f}",
        remark="a class refused after the first update and performed after the second",
    )


def refusal(stage: Stage, job: dict) -> str:
    try:
        return f"it was enqueued: {invoke(stage, job)}"
    except AssertionError as error:
        return str(error)


def delete_stacks(stage: Stage, ours: Stack, sources: Stack) -> Iterator[Line]:
    """Delete both; nothing stays but what the template retains."""
    for stack in (sources, ours):
        name, began = f"deletion of {stack.name}", time.monotonic()
        try:
            resources = stack.resources()
            stack.delete()
            left = left_behind(stage, resources) if stack is ours else ""
            assert not left, left
        except (AssertionError, ClientError) as error:
            yield Line(source=name, outcome="FAILED", remark=str(error))
        else:
            yield Line(
                source=name,
                outcome="ok",
                ms=f"{(time.monotonic() - began) * 1000:.0f}",
                remark=f"{len(resources)} resources"
                + (", the dead-letter queue and the layer stay" if stack is ours else ""),
            )


def left_behind(stage: Stage, resources: dict[str, str]) -> str:
    """What should be gone and is there, or the reverse."""
    functions = stage.client("lambda").list_functions()["Functions"]
    if any(each["FunctionName"] == resources["EnqueueFunction"] for each in functions):
        return "the function is still there"
    try:
        if list(stored_schedules(stage.cloud, resources["ScheduleGroup"])):
            return "schedules are still there"
    except ClientError as error:
        if "ResourceNotFound" not in str(error):
            raise
    queues = stage.client("sqs").list_queues().get("QueueUrls", [])
    if resources["EnqueueDeadLetterQueue"] not in queues:
        return "the dead-letter queue is gone, although its DeletionPolicy is Retain"
    return ""
