"""The sources of events, an entry each: how a job is handed to it, and what is checked besides."""

import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from e2e.localstack import REGION
from e2e.stage import Source, Stage
from support.servers import HOST
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


def publish_event(source: str, bus: str | None):
    """A job as the detail of an event."""

    def send(stage: Stage, job: Job, marker: str) -> None:
        entry = {"Source": source, "DetailType": "Order placed", "Detail": json.dumps(job)}
        if bus:
            entry["EventBusName"] = stage.sources[bus]
        answer = stage.client("events").put_events(Entries=[entry])
        assert answer["FailedEntryCount"] == 0, answer

    return send


def send_message(stage: Stage, job: Job, marker: str) -> None:
    stage.client("sqs").send_message(
        QueueUrl=stage.sources["StandardQueue"], MessageBody=json.dumps(job)
    )


def check_partial_failure(stage: Stage, markers: Sequence[str]) -> str:
    """Of a batch with a message that is refused, the others count, and only that one is repeated."""
    sqs, run = stage.client("sqs"), uuid.uuid4().hex[:8]
    good = [f"batch/{index}/{run}" for index in range(3)]
    bodies = [{"class": "Witness", "queue": "default", "args": [marker]} for marker in good]
    bodies.insert(1, {"class": "NotAllowed", "args": [run]})
    sqs.send_message_batch(
        QueueUrl=stage.sources["StandardQueue"],
        Entries=[
            {"Id": str(index), "MessageBody": json.dumps(body)} for index, body in enumerate(bodies)
        ],
    )
    for marker in good:
        assert len(stage.wait_performed(marker, 30)) == 1, marker
    wait_message(stage, "RefusedQueue", run)
    again = [len(stage.performers.performed(marker=marker)) for marker in good]
    assert again == [1, 1, 1], f"performed again with the refused one: {again}"
    return "a batch with 1 refused of 4: 3 once, 1 in the dead-letter queue"


def wait_message(stage: Stage, queue: str, text: str, timeout_s: float = 30) -> dict[str, Any]:
    """Wait for a message with this text in a queue (an output's name, or its address)."""
    sqs = stage.client("sqs")
    url = stage.sources.get(queue, queue)

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
        QueueUrl=stage.sources["FifoQueue"], MessageBody=json.dumps(job), MessageGroupId=marker
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
        QueueUrl=stage.sources["FifoQueue"],
        Entries=[
            {"Id": str(index), "MessageBody": json.dumps(body), "MessageGroupId": run}
            for index, body in enumerate(bodies)
        ],
    )
    dead = [
        json.loads(wait_message(stage, "RefusedFifoQueue", run, 60)["Body"])["args"][0]
        for _ in range(3)
    ]
    texts = reversed(stage.performers.redis.lrange(f"queue:{UNSERVED}", 0, -1))
    enqueued = [marker for text in texts if (marker := json.loads(text)["args"][0]).endswith(run)]
    wanted = [body["args"][0] for body in bodies]
    assert (enqueued, dead) == (wanted[:2], wanted[2:]), f"{enqueued}, dead letters {dead}"
    return "5 of a group, the third refused: 2 enqueued, then 3 dead letters, in order"


def publish_to(topic: str, form: str | None = None):
    """A job as a topic's message, for the subscription that takes this form."""

    def send(stage: Stage, job: Job, marker: str) -> None:
        attributes = {"form": {"DataType": "String", "StringValue": form}} if form else {}
        stage.client("sns").publish(
            TopicArn=stage.sources[topic],
            Message=json.dumps(job),
            MessageAttributes=attributes,
        )

    return send


def put_object(bucket: str):
    """An object, whose key a mapping makes the argument of the job of this performer."""

    def send(stage: Stage, job: Job, marker: str) -> None:
        stage.client("s3").put_object(Bucket=stage.sources[bucket], Key=marker, Body=b"data")

    return send


def post(url: str, host: str, body: object, service: str) -> tuple[int, Any]:
    """A signed POST to LocalStack under the name of this host; status and answer."""
    data = json.dumps(body).encode()
    request = AWSRequest("POST", url, data=data, headers={"Content-Type": "application/json"})
    request.headers["Host"] = host
    SigV4Auth(Credentials("test", "test"), service, REGION).add_auth(request)
    sent = urllib.request.Request(url, data, dict(request.headers.items()), method="POST")
    try:
        with urllib.request.urlopen(sent, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            text = error.read().decode(errors="replace")
        return error.code, text


def call_function_url(stage: Stage, job: Job, marker: str) -> None:
    name = stage.sources["FunctionUrl"].partition("://")[2].rstrip("/")
    status, answer = post(f"{stage.cloud.url}/", name, job, "lambda")
    assert status in {200, 201, 202}, f"{status}: {answer}"


def call_api(stage: Stage, job: Job, marker: str) -> None:
    api = stage.sources["Api"]
    url = f"{stage.cloud.url}/_aws/execute-api/{api}/e2e/jobs"
    status, answer = post(url, f"{HOST}:{stage.cloud.port}", job, "execute-api")
    assert status in {200, 201, 202}, f"{status}: {answer}"


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
        stateMachineArn=stage.sources[machine], input=json.dumps(given)
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
    Source(name="EventBridge, custom bus", send=publish_event("shop.orders", "Bus")),
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
    Source(name="SNS", send=publish_to("Topic")),
    Source(name="SNS to SQS, wrapped", send=publish_to("QueueTopic", "wrapped")),
    Source(name="SNS to SQS, raw", send=publish_to("QueueTopic", "raw")),
    Source(name="S3", send=put_object("DirectBucket")),
    Source(name="S3 by EventBridge", send=put_object("BusBucket")),
    Source(name="S3 by SQS", send=put_object("QueueBucket")),
    Source(name="Lambda function URL", send=call_function_url),
    Source(name="API Gateway, REST", send=call_api),
)

GAPS = {
    "EventBridge Scheduler itself": (
        "LocalStack stores schedules and never fires them; a stand-in fired what it had stored"
    ),
    "DynamoDB streams": "LocalStack's DynamoDB needs a Java server that is downloaded at its start",
    "Kinesis": "LocalStack's Kinesis needs a server that is downloaded at its start",
    "API Gateway, HTTP API (v2)": "not in the open edition",
    "Application Load Balancer": "not in the open edition",
    "ElastiCache and ECS": "not in the open edition; the nested stacks behind CreateRedis and "
    "CreateWorkerService are not created",
    "IAM, VPC, KMS": "accepted and not enforced: a missing permission is not noticed",
}
"""What this run cannot prove, and why."""
