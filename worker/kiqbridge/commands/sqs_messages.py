"""The messages of an SQS queue, for a person who looks at them and takes some out."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kiqbridge.errors import ConfigError, EventError

HELD_S: Final = 300
"""For so long a message is not given to others: longer than a person's look at some thousand of them."""
MAX_MESSAGES: Final = 10
"""Of one call."""


class Messages:
    """One queue.

    Args:
        url: its address.

    Raises:
        ConfigError: boto3's lower half is missing.
        EventError: SQS refuses: no such queue, no permission.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            from kiqbridge.aws.spill_queue import sqs_client  # noqa: PLC0415

            self._client = sqs_client(url)
        except ImportError as error:
            raise ConfigError(
                "botocore is not installed, and SQS is asked by it: pip install boto3"
            ) from error
        self._held: dict[str, str] = {}
        self._attributes = self._read_attributes(url)
        self.arn = str(self._attributes["QueueArn"])

    def counts(self) -> dict[str, Any]:
        """`waiting` and `in_flight`, as far as SQS knows; `dead_letters`: the same of its dead-letter queue."""
        found = self._read_attributes(self.url)
        dead_letters = None
        if "RedrivePolicy" in found:
            name = json.loads(found["RedrivePolicy"])["deadLetterTargetArn"].rpartition(":")[2]
            url = f"{self.url.rpartition('/')[0]}/{name}"
            dead_letters = {"queue_url": url, **_numbers(self._read_attributes(url))}
        return {**_numbers(found), "dead_letters": dead_letters}

    def take(self, most: int | None) -> Iterator[Mapping[str, Any]]:
        """Up to `most` messages, None = all; each is held until it is deleted or put back."""
        left = most
        while left is None or left > 0:
            found = self._call(
                "receive_message",
                MaxNumberOfMessages=MAX_MESSAGES if left is None else min(MAX_MESSAGES, left),
                VisibilityTimeout=HELD_S,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            ).get("Messages", [])
            if not found:
                return
            for message in found:
                self._held[message["MessageId"]] = message["ReceiptHandle"]
            left = None if left is None else left - len(found)
            yield from found

    def delete(self, message: Mapping[str, Any]) -> None:
        """It is done with."""
        self._call("delete_message", ReceiptHandle=message["ReceiptHandle"])
        self._held.pop(message["MessageId"], None)

    def put_back(self) -> None:
        """Let others have what was taken and not deleted."""
        for handle in self._held.values():
            self._call("change_message_visibility", ReceiptHandle=handle, VisibilityTimeout=0)
        self._held.clear()

    def _read_attributes(self, url: str) -> dict[str, str]:
        answer = self._call("get_queue_attributes", QueueUrl=url, AttributeNames=["All"])
        return dict(answer["Attributes"])

    def _call(self, operation: str, **options: Any) -> Any:
        import botocore.exceptions as of_botocore  # noqa: PLC0415

        try:
            return getattr(self._client, operation)(**{"QueueUrl": self.url, **options})
        except (of_botocore.ClientError, of_botocore.BotoCoreError) as error:
            raise EventError(
                f"SQS refuses {operation} of {self.url}: {error}; check the address, the region and your "
                "credentials"
            ) from error


def _numbers(attributes: Mapping[str, str]) -> dict[str, int]:
    return {
        "waiting": int(attributes["ApproximateNumberOfMessages"]),
        "in_flight": int(attributes["ApproximateNumberOfMessagesNotVisible"]),
    }
