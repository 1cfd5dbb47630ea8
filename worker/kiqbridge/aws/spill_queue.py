"""The spill queues in SQS: which they are, how a message comes into one.

botocore is loaded by the first message that is sent: Lambda's runtime has it, and an environment that
never misses Redis never pays for it. Of boto3 nothing is needed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from kiqbridge.aws.spill_form import Message

MAX_BYTES: Final = 1_048_576
"""Bytes of a message, and of all messages of one call together (SQS' quota since August 2025)."""
MAX_ENTRIES: Final = 10
"""Messages of one call."""

_REGION: Final = re.compile(r"(?:^|\.)sqs[.-](?:fips\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.")
"""In the host of a queue's address."""


class SpillQueues:
    """Where to send what; either address may be empty.

    Args:
        url: of the standard queue.
        fifo_url: of the FIFO queue.
    """

    def __init__(self, url: str, fifo_url: str) -> None:
        self.url = url
        self.fifo_url = fifo_url
        self._names = {name_of(each) for each in (url, fifo_url) if each}
        self._client: Any = None

    def __repr__(self) -> str:
        return f"SpillQueues({self.url!r}, {self.fifo_url!r})"

    def delivers(self, event: object) -> bool:
        """Whether an event is a batch of messages of one of these queues."""
        if not isinstance(event, Mapping):
            return False
        records = event.get("Records")
        first = records[0] if isinstance(records, list) and records else None
        if not isinstance(first, Mapping) or first.get("eventSource") != "aws:sqs":
            return False
        return ":".join(str(first.get("eventSourceARN")).split(":")[-2:]) in self._names

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
        if self._client is None:
            self._client = sqs_client(url)
        entries = [
            {"Id": str(place), "MessageBody": message.body}
            | ({} if message.group is None else _in_order(message))
            for place, message in enumerate(batch)
        ]
        answer = self._client.send_message_batch(QueueUrl=url, Entries=entries)
        return {batch[int(each["Id"])].id for each in answer.get("Successful", ())}


def name_of(url: str) -> str:
    """`ACCOUNT:NAME` of a queue's address, the end of its ARN."""
    return ":".join(urlsplit(url).path.strip("/").split("/")[-2:])


def batches(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The messages in their order, divided into what one call may have."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        if batch and (len(batch) == MAX_ENTRIES or size + len(message.body) > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += len(message.body)
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
            connect_timeout=1,
            read_timeout=3,
            retries={"mode": "standard", "total_max_attempts": 2},
        ),
    )


def _in_order(message: Message) -> dict[str, str]:
    return {"MessageGroupId": str(message.group), "MessageDeduplicationId": message.id}
