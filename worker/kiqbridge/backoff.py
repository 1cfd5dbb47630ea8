"""When a failed job is tried again (protocol §8.2)."""

import random
from typing import Final

LONGEST_S: Final = 1_000_000_000
"""No try is put off for longer, about 32 years: a `retry_count` or an answer of `retry_in` may be any
number, and its sum with the time must still be a score."""


def retry_delay(count: int, rng: random.Random, seconds: float | None = None) -> float:
    """Seconds until the next try: count⁴ + 15 and a jitter of 0…9 times (count + 1).

    `seconds` is a job's own choice instead of count⁴ + 15; the jitter stays (§8.3).

    `count` is the new `retry_count`, 0 at the first failure. The jitter is that of Sidekiq
    6.2.2 to 7, which also lies in the range of 8. A count below 0 (a job retried by
    hand from the UI before, §8.7) counts as 0.
    """
    count = min(max(count, 0), LONGEST_S)
    base = count**4 + 15 if seconds is None else seconds
    return min(base + rng.randrange(10) * (count + 1), LONGEST_S)
