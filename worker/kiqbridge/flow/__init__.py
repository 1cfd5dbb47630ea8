"""Flow control: which of several jobs run, when, and how many at once. Public.

Users call it where they declare and enqueue jobs (docs/flow.md), and in jobs (docs/limiters.md: `from kiqbridge.flow
import limiter`). It must never decide by what a payload names alone: rules are declared in code.
"""

from kiqbridge.client.unique import Debounce, Throttle, Unique
from kiqbridge.flow.owners import find_owner

__all__ = ["Debounce", "Throttle", "Unique", "find_owner"]
