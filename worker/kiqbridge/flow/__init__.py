"""Flow control: which of several jobs run, when, and how many at once, and what happens when they end. Public.

Users call it where they declare and enqueue jobs (docs/flow.md, docs/batches.md), and in jobs (docs/limiters.md:
`from kiqbridge.flow import limiter`). It must never decide by what a payload names alone: rules are declared in code.
"""

from kiqbridge.client.unique import Debounce, Throttle, Unique
from kiqbridge.flow.batch import Batch, current_batch
from kiqbridge.flow.calls import Call, call
from kiqbridge.flow.chains import Chain, Group, chain, group
from kiqbridge.flow.status import BatchSet, BatchStatus, find_owner

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
