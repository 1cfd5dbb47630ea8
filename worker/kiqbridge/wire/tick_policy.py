"""What a tick says beside the name of its schedule and its instant: the policies of the schedule.

    "tick": {"schedule": "shop/Nightly", "at": "<aws.scheduler.scheduled-time>",
             "missed": "last", "grace_s": 600, "max_age_s": 3600, "overlap": "skip"}

`overlap` and `max_age_s` go into the jobs (tick_mark.py); `missed` and `grace_s` are for who watches
(clocks/missed.py), and for the function nothing.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final, Literal, get_args

from kiqbridge.wire.tick_mark import Overlap

Missed = Literal["alert", "last", "all"]
"""What is done about ticks that did not come: an alert only, or the alert and the last one, or all of them up
to the maximum age, enqueued."""

_CHOICES: Final = {"missed": get_args(Missed), "overlap": get_args(Overlap)}
_SECONDS: Final = ("grace_s", "max_age_s")


def policy_faults(tick: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong with the policies of a tick, each beginning with the member's name."""
    for member, choices in _CHOICES.items():
        if member in tick and tick[member] not in choices:
            yield f"{member}: {tick[member]!r} is none of {', '.join(choices)}"
    for member in _SECONDS:
        if member in tick and not _is_seconds(tick[member]):
            yield f"{member}: {tick[member]!r} is no number of seconds from 0"


def _is_seconds(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]
