"""An SQS in memory (moto), and what AWS Lambda does with a queue: batches, visibility, redelivery.

Only the account of moto is asked, whatever credentials the machine has.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import boto3
import moto.sqs.models
import pytest
from moto import mock_aws

REGION = "eu-west-1"
ACCOUNT = "123456789012"


class Queue:
    """A queue, its dead-letter queue, and a poller that is as Lambda's event source mapping.

    Attributes:
        url, arn: of the queue.
        dead_url: of its dead-letter queue.
    """

    def __init__(self, name: str, *, fifo: bool = False, receives: int = 1000) -> None:
        self.client = boto3.client("sqs", region_name=REGION)
        ending, attributes = (".fifo", {"FifoQueue": "true"}) if fifo else ("", {})
        make = self.client.create_queue
        self.dead_url = make(QueueName=f"{name}-dead{ending}", Attributes=attributes)["QueueUrl"]
        redrive = {
            "deadLetterTargetArn": arn_of(f"{name}-dead{ending}"),
            "maxReceiveCount": receives,
        }
        self.url = make(
            QueueName=f"{name}{ending}",
            Attributes={
                **attributes,
                "RedrivePolicy": json.dumps(redrive),
                "VisibilityTimeout": "60",
            },
        )["QueueUrl"]
        self.arn = arn_of(f"{name}{ending}")
        self.name = f"{name}{ending}"

    def send(self, body: str, **options: Any) -> str:
        """The id of the message."""
        return self.client.send_message(QueueUrl=self.url, MessageBody=body, **options)["MessageId"]

    def size(self, url: str | None = None) -> int:
        """How many messages there are, those in flight included."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.client.get_queue_attributes(QueueUrl=url or self.url, AttributeNames=names)
        return sum(int(found["Attributes"][name]) for name in names)

    def all(self) -> list[Any]:
        """The messages of the queue; they stay there."""
        messages = list(self._receive_all())
        self._show_again(messages)
        return messages

    def bodies(self) -> list[Any]:
        """What they contain."""
        return [json.loads(each["Body"]) for each in self.all()]

    def deliver(self, invoke: Callable[[Any], Any], *, most: int = 10) -> int:
        """One round of Lambda's poller: every message once, in batches; how many succeeded.

        What fails becomes visible again at the end, as after its visibility timeout.
        """
        succeeded, failed = 0, []
        while messages := self._receive(most):
            answer = invoke(self.event(messages))
            again = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
            failed += [each for each in messages if each["MessageId"] in again]
            for each in messages:
                if each["MessageId"] not in again:
                    succeeded += 1
                    self.client.delete_message(
                        QueueUrl=self.url, ReceiptHandle=each["ReceiptHandle"]
                    )
        self._show_again(failed)
        return succeeded

    def event(self, messages: Sequence[Any]) -> dict[str, Any]:
        """The event that Lambda makes of received messages."""
        return {
            "Records": [
                {
                    "messageId": each["MessageId"],
                    "receiptHandle": each["ReceiptHandle"],
                    "body": each["Body"],
                    "attributes": each.get("Attributes", {}),
                    "messageAttributes": {
                        name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
                        for name, value in each.get("MessageAttributes", {}).items()
                    },
                    "eventSource": "aws:sqs",
                    "eventSourceARN": self.arn,
                    "awsRegion": REGION,
                }
                for each in messages
            ]
        }

    def _receive(self, most: int = 10) -> list[Any]:
        return self.client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=most,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])

    def _receive_all(self) -> Iterator[Any]:
        while messages := self._receive():
            yield from messages

    def _show_again(self, messages: Sequence[Any]) -> None:
        for each in messages:
            self.client.change_message_visibility(
                QueueUrl=self.url, ReceiptHandle=each["ReceiptHandle"], VisibilityTimeout=0
            )


def _now_ms(moment: datetime | None = None) -> float:
    return (time.time() if moment is None else moment.timestamp()) * 1000


def arn_of(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


@contextmanager
def simulated_sqs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SQS in memory for the block, also for the function's own client."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    # moto looks at the time of each message at each call; its own way takes ten times as long.
    monkeypatch.setattr(moto.sqs.models, "unix_time_millis", _now_ms)
    with mock_aws():
        yield
