"""The spill queues in SQS: which they are, how a message comes into one.

botocore is loaded by the first message that is sent: Lambda's runtime has it, and an environment that
never misses Redis never pays for it. Of boto3 nothing is needed.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.features.spill.form import SIGNATURE, Message, SpillKey, signature_of

MAX_BYTES: Final = 1_048_576
"""Bytes of a message, and of all messages of one call together (SQS' quota since August 2025)."""
MAX_ENTRIES: Final = 10
"""Messages of one call."""

REASON: Final = "ErrorMessage"
"""The attribute of a dead letter that has the reason, as Lambda names it."""
_LONGEST_REASON: Final = 1000
_NOT_PLAIN: Final = re.compile(r"[^ -~]")
"""What SQS may refuse in an attribute."""

_REGION: Final = re.compile(r"(?:^|\.)sqs[.-](?:fips\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.")
"""In the host of a queue's address."""


class SpillQueues:
    """Where to send what; either address may be empty.

    Args:
        url: of the standard queue.
        fifo_url: of the FIFO queue.
        key: signs what is sent; None = nothing is signed.
    """

    def __init__(self, url: str, fifo_url: str, key: SpillKey | None = None) -> None:
        self.url = url
        self.fifo_url = fifo_url
        self.key = key
        self._names = {name_of(each) for each in (url, fifo_url) if each}
        self._client: Any = None
        self._dead: dict[str, str | None] = {}

    def __repr__(self) -> str:
        return f"SpillQueues({self.url!r}, {self.fifo_url!r})"

    def delivers(self, event: object) -> bool:
        """Whether an event is a batch of messages of one of these queues."""
        if not isinstance(event, (dict, Mapping)):
            return False
        records = event.get("Records")
        first = records[0] if isinstance(records, list) and records else None
        if not isinstance(first, (dict, Mapping)) or first.get("eventSource") != "aws:sqs":
            return False
        return name_in(str(first.get("eventSourceARN"))) in self._names

    def send(self, messages: Sequence[Message], *, to_fifo: bool) -> set[str]:
        """Send messages, in as few calls as SQS allows; the ids of those that it took.

        Raises:
            Exception: of botocore, if not even the first call got through; after a later one that
                does not, the rest counts as not taken.
        """
        url = self.fifo_url if to_fifo else self.url
        taken: set[str] = set()
        for batch in batches(messages):
            try:
                taken |= self._send_batch(url, batch)
            except Exception:
                if not taken:
                    raise
                break
        return taken

    def _send_batch(self, url: str, batch: Sequence[Message]) -> set[str]:
        client = self._client_of(url)
        entries = []
        for place, message in enumerate(batch):
            entry = {"Id": str(place), "MessageBody": message.body}
            if message.group is not None:
                entry |= _in_order(message)
            if self.key is not None:
                entry |= _attributes({SIGNATURE: self.key.signature(message.body)})
            entries.append(entry)
        answer = client.send_message_batch(QueueUrl=url, Entries=entries)
        return {batch[int(each["Id"])].id for each in answer.get("Successful", ())}

    def give_up(self, message: Mapping[str, Any], reason: str) -> None:
        """Send a message that one of these queues has delivered to its dead-letter queue, with the reason.

        Raises:
            Exception: of botocore; LookupError: the queue has none.
        """
        is_fifo = str(message["eventSourceARN"]).endswith(".fifo")
        url = self.fifo_url if is_fifo else self.url
        client = self._client_of(url)
        if url not in self._dead:
            found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
            self._dead[url] = dead_letters_of(url, found.get("Attributes", {}))
        if (dead := self._dead[url]) is None:
            raise LookupError(f"{url} has no dead-letter queue")
        values = {REASON: _NOT_PLAIN.sub("?", reason)[:_LONGEST_REASON]}
        if signature := signature_of(message):
            values[SIGNATURE] = signature
        order = {}
        if is_fifo:
            order["MessageGroupId"] = message["attributes"]["MessageGroupId"]
            order["MessageDeduplicationId"] = message["messageId"]
        client.send_message(
            QueueUrl=dead, MessageBody=message["body"], **_attributes(values), **order
        )

    def _client_of(self, url: str) -> Any:
        if self._client is None:
            self._client = sqs_client(url)
        return self._client


def dead_letters_of(url: str, attributes: Mapping[str, str]) -> str | None:
    """The address of a queue's dead-letter queue, which is in the same region and account; None = it has none."""
    if "RedrivePolicy" not in attributes:
        return None
    name = json.loads(attributes["RedrivePolicy"])["deadLetterTargetArn"].rpartition(":")[2]
    return f"{url.rpartition('/')[0]}/{name}"


def urls_in(environ: Mapping[str, str]) -> list[str]:
    """The addresses of the spill queues that the settings name."""
    rows = (ForFunctions.spill_queue_url, ForFunctions.spill_fifo_queue_url)
    return [url for row in rows if (url := read(row, environ))]


def numbers_of(attributes: Mapping[str, str]) -> dict[str, int]:
    """How many messages wait in a queue and how many were taken, by its attributes, as far as SQS knows."""
    return {
        "waiting": int(attributes["ApproximateNumberOfMessages"]),
        "in_flight": int(attributes["ApproximateNumberOfMessagesNotVisible"]),
    }


def name_of(url: str) -> str:
    """`ACCOUNT:NAME` of a queue's address, the end of its ARN."""
    return ":".join(urlsplit(url).path.strip("/").split("/")[-2:])


def name_in(arn: str) -> str:
    """The same of its ARN."""
    return ":".join(arn.split(":")[-2:])


def batches(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The messages in their order, divided into what one call may have."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        if batch and (len(batch) == MAX_ENTRIES or size + message.size > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += message.size
    if batch:
        yield batch


def sqs_client(url: str) -> Any:
    """A client of SQS for the region and the host in a queue's address.

    It gives up within some seconds: there is no use in waiting longer than the invocation lasts.
    """
    import botocore.session  # noqa: PLC0415 - see the module
    from botocore.config import Config  # noqa: PLC0415

    parts = urlsplit(url)
    region = _REGION.search(parts.netloc)
    return botocore.session.get_session().create_client(
        "sqs",
        region_name=region[1] if region else None,
        endpoint_url=f"{parts.scheme}://{parts.netloc}",
        config=Config(
            connect_timeout=1, read_timeout=3, retries={"mode": "standard", "total_max_attempts": 2}
        ),
    )


def _attributes(values: Mapping[str, str]) -> dict[str, Any]:
    written = {name: {"DataType": "String", "StringValue": text} for name, text in values.items()}
    return {"MessageAttributes": written}


def _in_order(message: Message) -> dict[str, str]:
    return {"MessageGroupId": str(message.group), "MessageDeduplicationId": message.id}
