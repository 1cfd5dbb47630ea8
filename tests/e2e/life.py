"""The life of the stack after its creation: a changed parameter takes effect, and deletion leaves nothing."""

import time
import uuid
from collections.abc import Iterator

import redis
from botocore.exceptions import ClientError
from e2e.performers import QUEUES
from e2e.report import Line
from e2e.scheduler import stored_schedules
from e2e.sources import invoke
from e2e.stacks import Stack
from e2e.stage import Stage

OTHER_DATABASE = 1


def update_stack(stage: Stage, stack: Stack) -> Line:
    """Another address in the secret and fewer allowed classes, then back again: the function follows."""
    name = f"update of {stack.name}"
    began = time.monotonic()
    marker = f"update/{uuid.uuid4().hex[:8]}"
    job = {"class": "Witness", "args": [marker]}
    allowed, secret = stack.parameters["AllowedClasses"], stack.parameters["RedisUrlSecretArn"]
    secrets = stage.client("secretsmanager")
    url = secrets.get_secret_value(SecretId=secret)["SecretString"]
    elsewhere = f"{url.rpartition('/')[0]}/{OTHER_DATABASE}"
    try:
        before = stack.resources()
        secrets.put_secret_value(SecretId=secret, SecretString=elsewhere)
        stack.deploy(AllowedClasses=allowed.replace(",Witness", ""), RedisUrlVersionId="second")
        refused = refusal(stage, job)
        assert "Witness" in refused and "NotAllowed" in refused, refused
        invoke(stage, {"class": "Failing", "queue": QUEUES["Python"], "args": []})
        with redis.Redis.from_url(elsewhere) as other:
            assert other.llen(f"queue:{QUEUES['Python']}") == 1, (
                "the job is not in the new database"
            )
        secrets.put_secret_value(SecretId=secret, SecretString=url)
        stack.deploy(AllowedClasses=allowed, RedisUrlVersionId="third")
        invoke(stage, job)
        stage.wait_performed(marker, 30)
        after = stack.resources()
        moved = {key for key, value in before.items() if after.get(key) != value}
        assert not moved, f"replaced or gone by the updates: {sorted(moved)}"
    except (AssertionError, ClientError) as error:
        return Line(source=name, outcome="FAILED", remark=str(error))
    return Line(
        source=name,
        outcome="ok",
        ms=f"{(time.monotonic() - began) * 1000:.0f}",
        remark="address in the secret and AllowedClasses changed and changed back; nothing was replaced",
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
