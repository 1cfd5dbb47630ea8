"""What becomes of a job that ends with `OverLimit`: put off, without having failed (docs/how_to/limiters.md).

1. It is put into `schedule`, with the number of times in an attribute of its own: `"kb_over_limit":1`.
   `retry_count` and all that is recorded of failures stay as they are.
2. The delay doubles each time, from `put_off_s` of the limiter up to `LONGEST_S`, and has a jitter. It is never
   shorter than the time after which the limiter expects room.
3. After `max_put_offs` times it is an error like others: retried with the usual rules, and dead in the end.
"""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.engine.settle.retry import PutOff, whole_number
from kiqbridge.errors import OverLimit
from kiqbridge.features.limiters.known import JITTER, delay_s
from kiqbridge.features.limiters.store import COUNT, LIMITER

MOST_S: Final = 31 * 86_400.0
"""The longest delay that a limiter may ask for."""


def put_off(payload: Mapping[str, Any], error: OverLimit) -> PutOff | None:
    """How a job is put off; None: it was put off too often, and its error counts as any other."""
    count = max(whole_number(payload.get(COUNT, 0)), 0)  # 0 for whatever is no such number
    if count >= whole_number(error.max_put_offs):
        return None
    delay = delay_s(count, _seconds(error.put_off_s, OverLimit.put_off_s))
    return PutOff(
        delay_s=max(delay, _seconds(error.wait_s, 0.0)),
        jitter=JITTER,
        attributes={COUNT: count + 1, **_named(error)},
        line="over limit",
        said=f"for the {count + 1}. time",
    )


def _named(error: OverLimit) -> dict[str, str]:
    """Which limiter it was; nothing for an `OverLimit` of the job's own."""
    words = f"{error.kind} {error.limiter}"
    return {LIMITER: words} if error.kind and error.limiter else {}


def _seconds(value: object, default: float) -> float:
    """What a limiter asks for; a job may raise an `OverLimit` of its own, with anything in it."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(min(value, MOST_S))
    return default
