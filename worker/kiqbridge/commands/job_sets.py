"""The three sets of jobs as the command line calls them."""

from collections.abc import Callable
from typing import Final

from kiqbridge.api import DeadSet, JobSet, Operator, RetrySet, ScheduledSet

SETS: Final[dict[str, Callable[[Operator], JobSet]]] = {
    "retries": RetrySet,
    "dead": DeadSet,
    "scheduled": ScheduledSet,
}
NOUNS: Final = {"retries": "retry", "dead": "dead job", "scheduled": "scheduled job"}
