"""The spill queues on the page Sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read


@dataclass(frozen=True, slots=True, kw_only=True)
class SpillQueue:
    """A queue in SQS that holds jobs while Redis is away.

    Attributes:
        url: its address.
        waiting: messages, as far as SQS knows; None = it did not answer.
        in_flight: of these, messages that a function has taken.
        fault: why it did not answer, else empty.
    """

    url: str
    waiting: int | None = None
    in_flight: int = 0
    fault: str = ""


def show(environ: Mapping[str, str]) -> tuple[str, Sequence[SpillQueue]]:
    """Each spill queue, with its depth."""
    return "spill.html", read_spill(environ)


def read_spill(environ: Mapping[str, str]) -> Sequence[SpillQueue]:
    """The depth of each spill queue that the settings of this process name; asks SQS, for seconds at most."""
    urls = [
        read(each, environ)
        for each in (ForFunctions.spill_queue_url, ForFunctions.spill_fifo_queue_url)
    ]
    return [_depth(url) for url in urls if url]


def _depth(url: str) -> SpillQueue:
    try:
        from kiqbridge.features.spill.queues import sqs_client  # noqa: PLC0415 - other pages need none

        found: Mapping[str, Any] = sqs_client(url).get_queue_attributes(
            QueueUrl=url,
            AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
        )["Attributes"]
    except ModuleNotFoundError as error:
        return SpillQueue(
            url=url, fault=f"{error.name} is not installed: pip install 'kiqbridge[aws]'"
        )
    except Exception as error:  # noqa: BLE001 - whatever AWS or the network says: the page shows it
        return SpillQueue(url=url, fault=str(error))
    return SpillQueue(
        url=url,
        waiting=int(found.get("ApproximateNumberOfMessages", 0)),
        in_flight=int(found.get("ApproximateNumberOfMessagesNotVisible", 0)),
    )
