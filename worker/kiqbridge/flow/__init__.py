"""Flow control: which of several jobs run, when, and how many at once, and what happens when they end. Public.

Users call it where they declare and enqueue jobs (docs/how_to/flow.md, docs/how_to/batches.md), and in jobs (docs/how_to/limiters.md:
`from kiqbridge.flow import limiter`). It must never decide by what a payload names alone: rules are declared in code.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kiqbridge.features.batches.batch import Batch, current_batch
    from kiqbridge.features.batches.calls import Call, call
    from kiqbridge.features.batches.chains import Chain, Group, chain, group
    from kiqbridge.features.batches.handle import FlowHandle
    from kiqbridge.features.batches.status import BatchSet, BatchStatus
    from kiqbridge.features.debounce.rules import Debounce, Throttle
    from kiqbridge.features.unique.mark import Unique
    from kiqbridge.features.unique.owner import find_owner

_OF_FEATURES: dict[str, str] = {
    "Batch": "kiqbridge.features.batches.batch",
    "BatchSet": "kiqbridge.features.batches.status",
    "BatchStatus": "kiqbridge.features.batches.status",
    "Call": "kiqbridge.features.batches.calls",
    "Chain": "kiqbridge.features.batches.chains",
    "Debounce": "kiqbridge.features.debounce.rules",
    "FlowHandle": "kiqbridge.features.batches.handle",
    "Group": "kiqbridge.features.batches.chains",
    "Throttle": "kiqbridge.features.debounce.rules",
    "Unique": "kiqbridge.features.unique.mark",
    "call": "kiqbridge.features.batches.calls",
    "chain": "kiqbridge.features.batches.chains",
    "current_batch": "kiqbridge.features.batches.batch",
    "find_owner": "kiqbridge.features.unique.owner",
    "group": "kiqbridge.features.batches.chains",
}
"""Names that features bring: the module of each."""

__all__ = [
    "Batch", "BatchSet", "BatchStatus", "Call", "Chain", "Debounce", "FlowHandle", "Group",
    "Throttle", "Unique", "call", "chain", "current_batch", "find_owner", "group",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if (home := _OF_FEATURES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found
