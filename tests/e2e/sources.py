"""The sources of events, an entry each: how a job is handed to it, and what is checked besides."""

import json
import time
import uuid
from collections.abc import Sequence
from typing import Any

from e2e.http_sources import check_http, post_to_function_url, post_to_rest_api
from e2e.stage import Source, Stage
from support.waiting import wait_until

UNSERVED = "unserved"
"""A queue that nobody serves: what lies in it shows the order in which it was enqueued."""

Job = dict[str, Any]


def invoke(stage: Stage, event: object, kind: str = "RequestResponse") -> Any:
    """Invoke the function; AssertionError if it answers with an error."""
    answer = stage.client("lambda").invoke(
        FunctionName=stage.function, InvocationType=kind, Payload=json.dumps(event).encode()
    )
    body = answer["Payload"].read()
    assert "FunctionError" not in answer, body.decode()
    return json.loads(body) if body else None


def invoke_asynchronously(stage: Stage, job: Job, marker: str) -> None:
    invoke(stage, job, "Event")


def invoke_other(stage: Stage, job: Job, marker: str) -> None:
    """Another function returns the job, and its destination is the enqueue function."""
    stage.client("lambda").invoke(
        FunctionName=stage.resources["OtherFunction"],
        InvocationType="Event",
        Payload=json.dumps(job).encode(),
    )


def publish_event(source: str, bus: str | None):
    """A job as the detail of an event."""

    def send(stage: Stage, job: Job, marker: str) -> None:
        entry = {"Source": source, "DetailType": "Order placed", "Detail": json.dumps(job)}
        if bus:
            entry["EventBusName"] = stage.resources[bus]
        answer = stage.client("events").put_events(Entries=[entry])
        assert answer["FailedEntryCount"] == 0, answer

    return send


def send_message(stage: Stage, job: Job, marker: str) -> None:
    stage.client("sqs").send_message(
        QueueUrl=stage.resources["OrdersQueue"], MessageBody=json.dumps(job)
    )


def check_partial_failure(stage: Stage, markers: Sequence[str]) -> str:
    """Of a batch with a message that is refused, the others count, and only that one is repeated."""
    sqs, run = stage.client("sqs"), uuid.uuid4().hex[:8]
    good = [f"batch/{index}/{run}" for index in range(3)]
    bodies = [{"class": "Witness", "queue": "default", "args": [marker]} for marker in good]
    bodies.insert(1, {"class": "NotAllowed", "args": [run]})
    sqs.send_message_batch(
        QueueUrl=stage.resources["OrdersQueue"],
        Entries=[
            {"Id": str(index), "MessageBody": json.dumps(body)} for index, body in enumerate(bodies)
        ],
    )
    for marker in good:
        assert len(stage.wait_performed(marker, 30)) == 1, marker
    wait_message(stage, "OrdersDeadLetterQueue", run)
    again = [len(stage.performers.performed(marker=marker)) for marker in good]
    assert again == [1, 1, 1], f"performed again with the refused one: {again}"
    return "a batch with 1 refused of 4: 3 once, 1 in the dead-letter queue"


def wait_message(stage: Stage, queue: str, text: str, timeout_s: float = 30) -> dict[str, Any]:
    """Wait for a message with this text in a queue (a logical id, or its address)."""
    sqs = stage.client("sqs")
    url = stage.resources.get(queue, queue)

    def look() -> dict[str, Any] | None:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1, WaitTimeSeconds=1)
        for message in answer.get("Messages", ()):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            if text in message["Body"]:
                return message
        return None

    return wait_until(look, timeout_s, f"a message with {text} in {queue}")


def send_fifo_message(stage: Stage, job: Job, marker: str) -> None:
    stage.client("sqs").send_message(
        QueueUrl=stage.resources["LedgerQueue"], MessageBody=json.dumps(job), MessageGroupId=marker
    )


def check_fifo_order(stage: Stage, markers: Sequence[str]) -> str:
    """Nothing overtakes a refused message of its group.

    SQS counts a delivery for the whole batch, so those behind the refused one go with it to the
    dead-letter queue, in their order.
    """
    sqs, run = stage.client("sqs"), uuid.uuid4().hex[:8]
    bodies = [
        {"class": "Witness", "queue": UNSERVED, "args": [f"fifo/{index}/{run}"]}
        for index in range(5)
    ]
    bodies[2]["class"] = "NotAllowed"
    sqs.send_message_batch(
        QueueUrl=stage.resources["LedgerQueue"],
        Entries=[
            {"Id": str(index), "MessageBody": json.dumps(body), "MessageGroupId": run}
            for index, body in enumerate(bodies)
        ],
    )
    dead = [
        json.loads(wait_message(stage, "LedgerDeadLetterQueue", run, 60)["Body"])["args"][0]
        for _ in range(3)
    ]
    texts = reversed(stage.performers.redis.lrange(f"queue:{UNSERVED}", 0, -1))
    enqueued = [marker for text in texts if (marker := json.loads(text)["args"][0]).endswith(run)]
    wanted = [body["args"][0] for body in bodies]
    assert (enqueued, dead) == (wanted[:2], wanted[2:]), f"{enqueued}, dead letters {dead}"
    return "5 of a group, the third refused: 2 enqueued, then 3 dead letters, in order"


def publish_to(topic: str, attribute: str):
    """A job as a topic's message, with the attribute by which its subscription takes it."""

    def send(stage: Stage, job: Job, marker: str) -> None:
        name, _, value = attribute.partition("=")
        attributes = {name: {"DataType": "String", "StringValue": value}}
        stage.client("sns").publish(
            TopicArn=stage.resources[topic],
            Message=json.dumps(job),
            MessageAttributes=attributes,
        )

    return send


def put_object(bucket: str):
    """An object, whose key a mapping makes the argument of the job of this performer."""

    def send(stage: Stage, job: Job, marker: str) -> None:
        stage.client("s3").put_object(Bucket=stage.resources[bucket], Key=marker, Body=b"data")

    return send


def run_machine(stage: Stage, job: Job, marker: str) -> None:
    ended = execute(stage, "Machine", job)
    assert ended["status"] == "SUCCEEDED", f"{ended['status']}: {ended.get('cause')}"


def run_waiting_machine(machine: str):
    """A state machine that waits for the job, whose return value is its output."""

    def send(stage: Stage, job: Job, marker: str) -> None:
        ended = execute(stage, machine, job)
        assert ended["status"] == "SUCCEEDED", f"{ended['status']}: {ended.get('cause')}"
        assert json.loads(ended["output"]) == marker, ended["output"]

    return send


def check_failed_task(stage: Stage, markers: Sequence[str]) -> str:
    """A job that is dead fails the task with its error."""
    ended = execute(stage, "WaitingMachine", {"class": "Failing", "queue": "default", "args": []})
    assert (ended["status"], ended.get("error")) == ("FAILED", "ValueError"), ended
    assert json.loads(ended["cause"])["errorMessage"] == "as intended", ended
    return "a dead job fails the task with its error"


def execute(stage: Stage, machine: str, given: object) -> dict[str, Any]:
    """Run a state machine to its end, and describe it."""
    states = stage.client("stepfunctions")
    started = states.start_execution(
        stateMachineArn=stage.resources[machine], input=json.dumps(given)
    )

    def ended() -> dict[str, Any] | None:
        now = states.describe_execution(executionArn=started["executionArn"])
        return None if now["status"] == "RUNNING" else now

    return wait_until(ended, 60, f"the end of an execution of {machine}")


def check_dead_letter(stage: Stage, markers: Sequence[str]) -> str:
    """An asynchronous invocation that is refused each time ends in the function's dead-letter queue."""
    marker = uuid.uuid4().hex
    began = time.time()
    invoke(stage, {"class": "NotAllowed", "args": [marker]}, "Event")
    message = wait_message(stage, stage.stack["EnqueueDeadLetterQueueUrl"], marker, 60)
    record = json.loads(message["Body"])
    attempts = record["requestContext"]["approximateInvokeCount"]
    assert attempts == 3, record
    return f"a refused one: in the dead-letter queue after 3 attempts, {time.time() - began:.0f} s"


SOURCES = (
    Source(name="direct invocation", send=lambda stage, job, marker: invoke(stage, job)),
    Source(
        name="several jobs in one invocation",
        send=lambda stage, job, marker: invoke(
            stage, {"jobs": [job, {**job, "args": [f"{marker}/2"]}]}
        ),
    ),
    Source(name="asynchronous invocation", send=invoke_asynchronously, check=check_dead_letter),
    Source(name="EventBridge, default bus", send=publish_event("shop.payments", None)),
    Source(name="EventBridge, custom bus", send=publish_event("shop.orders", "ShopBus")),
    Source(name="Step Functions, lambda:invoke", send=run_machine),
    Source(
        name="Step Functions, waiting",
        send=run_waiting_machine("WaitingMachine"),
        check=check_failed_task,
        performers=("Python",),
    ),
    Source(
        name="Step Functions, waiting, by SQS",
        send=run_waiting_machine("WaitingQueueMachine"),
        performers=("Python",),
    ),
    Source(name="SQS standard", send=send_message, check=check_partial_failure),
    Source(name="SQS FIFO", send=send_fifo_message, check=check_fifo_order),
    Source(name="SNS", send=publish_to("NoticesTopic", "kind=job")),
    Source(name="SNS to SQS, wrapped", send=publish_to("QueueTopic", "form=wrapped")),
    Source(name="SNS to SQS, raw", send=publish_to("QueueTopic", "form=raw")),
    Source(name="S3", send=put_object("UploadsBucket"), form="incoming/{}.csv"),
    Source(name="S3 by EventBridge", send=put_object("BusBucket")),
    Source(name="S3 by SQS", send=put_object("QueueBucket")),
    Source(name="Lambda destination", send=invoke_other),
)

HTTP_SOURCES = (
    Source(name="Lambda function URL", send=post_to_function_url, check=check_http),
    Source(name="API Gateway, REST", send=post_to_rest_api),
)

GAPS = {
    "EventBridge Scheduler itself": (
        "LocalStack stores schedules and never fires them; a stand-in fired what it had stored"
    ),
    "DynamoDB streams": "LocalStack's DynamoDB needs a Java server that is downloaded at its start",
    "Kinesis": "LocalStack's Kinesis needs a server that is downloaded at its start",
    "who sent an HTTP request": "LocalStack verifies no signature and names no caller in the event; the "
    "function refused it as deployed (401), and took it with KIQBRIDGE_HTTP_AUTH=none",
    "API Gateway, HTTP API (v2)": "not in the open edition",
    "Application Load Balancer": "not in the open edition",
    "ElastiCache and ECS": "not in the open edition; the nested stacks behind CreateRedis and "
    "CreateWorkerService are not created, nor that of CreateAlarms",
    "RedisUrl as a parameter": "LocalStack makes no custom resources (infra/redis_url.yaml), and updates no "
    "nested stacks; the address comes from a secret, RedisUrlSecretArn",
    "IAM, VPC, KMS": "accepted and not enforced: a missing permission is not noticed",
}
"""What this run cannot prove, and why."""
