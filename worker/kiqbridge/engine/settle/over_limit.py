"""What becomes of a job that ends with `OverLimit`: put off, without having failed (docs/limiters.md).

1. It is put into `schedule`, with the number of times in an attribute of its own: `"kb_over_limit":1`.
   `retry_count` and all that is recorded of failures stay as they are.
2. The delay doubles each time, from `put_off_s` of the limiter up to `LONGEST_S`, and has a jitter, so that
   jobs that were put off together do not come back together. It is never shorter than the time after which
   the limiter expects room.
3. After `max_put_offs` times it is an error like others: retried with the usual rules, and dead in the end.

A class that has a rule for `OverLimit` in `on_error` is treated by that rule from the first time on.
"""

import random
from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.client.registry import Handling
from kiqbridge.engine.settle.failed_payload import whole_number
from kiqbridge.errors import OverLimit

COUNT: Final = "kb_over_limit"
"""Attribute of a payload: how often the job was put off because of a limit."""

LONGEST_S: Final = 900.0
"""Seconds up to which the delay grows; a job is put off for longer only where the limiter asks for it."""

MOST_S: Final = 31 * 86_400.0
"""The longest delay that a limiter may ask for."""

JITTER: Final = 0.5
"""Up to this part of the delay is added to it."""


def may_be_put_off(payload: Mapping[str, Any], error: OverLimit, handling: Handling | None) -> bool:
    """Whether a job is put off; else its error counts as any other.

    Args:
        payload: as fetched.
        error: what it ended with.
        handling: the rules of its class, if it was found.
    """
    rules = handling.on_error if handling is not None else {}
    if any(issubclass(kind, OverLimit) and isinstance(error, kind) for kind in rules):
        return False
    return count_of(payload) < whole_number(error.max_put_offs)


def put_off(
    payload: Mapping[str, Any], error: OverLimit, *, queue: str, now: float, rng: random.Random
) -> tuple[dict[str, Any], float]:
    """The payload as it is kept, and when it is due (epoch seconds).

    Args:
        payload: as fetched.
        error: what it ended with.
        queue: where it was fetched from, for a payload that does not say.
        now: epoch seconds.
        rng: for the jitter.
    """
    count = count_of(payload)
    delay = max(
        delay_s(count, _seconds(error.put_off_s, OverLimit.put_off_s)), _seconds(error.wait_s, 0.0)
    )
    kept = {"queue": queue, **payload, COUNT: count + 1}
    return kept, now + delay * (1 + rng.random() * JITTER)


def delay_s(count: int, first_s: float) -> float:
    """Seconds for which a job is put off that was put off `count` times before, without jitter."""
    return min(first_s * 2.0 ** min(count, 60), max(LONGEST_S, first_s))


def _seconds(value: object, default: float) -> float:
    """What a limiter asks for; a job may raise an `OverLimit` of its own, with anything in it."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(min(value, MOST_S))
    return default


def count_of(payload: Mapping[str, Any]) -> int:
    """How often a job was put off; 0 for whatever is no such number."""
    return max(whole_number(payload.get(COUNT, 0)), 0)
