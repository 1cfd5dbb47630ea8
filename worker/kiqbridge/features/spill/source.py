"""The spill queues on the page Sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kiqbridge.features.spill.queues import numbers_of, sqs_client, urls_in


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
    return [_depth(url) for url in urls_in(environ)]


def _depth(url: str) -> SpillQueue:
    try:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = sqs_client(url).get_queue_attributes(QueueUrl=url, AttributeNames=names)
        known = numbers_of(found["Attributes"])
        return SpillQueue(url=url, waiting=known["waiting"], in_flight=known["in_flight"])
    except ModuleNotFoundError as error:
        return SpillQueue(
            url=url, fault=f"{error.name} is not installed: pip install 'kiqbridge[aws]'"
        )
    except Exception as error:  # noqa: BLE001 - whatever AWS or the network says: the page shows it
        return SpillQueue(url=url, fault=str(error))
