"""EventBridge Pipes: a list of records as the same service's event source mapping sends them.

A pipe reads `batchItemFailures` as an event source mapping does.
"""

from collections.abc import Sequence
from typing import Any

from kiqbridge.aws import sources
from kiqbridge.aws.record import Delivery, Done


def read(event: Sequence[Any]) -> Delivery | Done:
    """As the records' own source reads them."""
    return sources.read({"Records": event})
