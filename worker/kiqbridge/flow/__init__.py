"""Flow control: which of several jobs run, when, and how many at once, and what happens when they end. Public.

Users call it where they declare and enqueue jobs (docs/flow.md, docs/batches.md), and in jobs (docs/limiters.md:
`from kiqbridge.flow import limiter`). It must never decide by what a payload names alone: rules are declared in code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kiqbridge.client.unique import Debounce, Throttle, Unique
from kiqbridge.flow.status import find_owner

if TYPE_CHECKING:
    from kiqbridge.features.batches.batch import Batch, current_batch
    from kiqbridge.features.batches.calls import Call, call
    from kiqbridge.features.batches.chains import Chain, Group, chain, group
    from kiqbridge.features.batches.status import BatchSet, BatchStatus

_OF_FEATURES: dict[str, str] = {
    "Batch": "kiqbridge.features.batches.batch",
    "BatchSet": "kiqbridge.features.batches.status",
    "BatchStatus": "kiqbridge.features.batches.status",
    "Call": "kiqbridge.features.batches.calls",
    "Chain": "kiqbridge.features.batches.chains",
    "Group": "kiqbridge.features.batches.chains",
    "call": "kiqbridge.features.batches.calls",
    "chain": "kiqbridge.features.batches.chains",
    "current_batch": "kiqbridge.features.batches.batch",
    "group": "kiqbridge.features.batches.chains",
}
"""Names that features bring: the module of each."""

__all__ = [
    "Batch",
    "BatchSet",
    "BatchStatus",
    "Call",
    "Chain",
    "Debounce",
    "Group",
    "Throttle",
    "Unique",
    "call",
    "chain",
    "current_batch",
    "find_owner",
    "group",
]


def __getattr__(name: str) -> Any:
    if (home := _OF_FEATURES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found
