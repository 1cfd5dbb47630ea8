"""How fast queues fill and empty, from what they were in the last minutes (the feature queue_history)."""

import time
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from kiqbridge import seams
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.processes import ProcessSet
from kiqbridge.wire.amounts import span_text

OVER_S: Final = 300
"""Seconds over which rates are counted."""
STALE_S: Final = 300
"""Seconds after which the last minute says nothing of now."""


class QueueMinute(NamedTuple):
    """A queue as it was in a minute.

    Attributes:
        size: jobs that waited.
        latency: seconds for which the oldest one had.
        taken: jobs that Kiqbridge's workers had taken by then, counted from some time on; None: none is known.
    """

    size: int
    latency: float
    taken: int | None = None


Minutes = Mapping[int, Mapping[str, QueueMinute]]
"""Epoch seconds of a minute's begin → queue → what it was, the oldest first."""


class QueueRates(NamedTuple):
    """Jobs a minute, over the last five minutes.

    Attributes:
        change: by how many the queue has grown; below 0: shrunk.
        out: how many Kiqbridge's workers took; None: not known.
        into: how many came, which is `out` and `change`; None: not known, since others take jobs, too, such as Ruby's
            workers or an operator.
    """

    change: float
    out: float | None = None
    into: float | None = None

    def empty_in_s(self, size: int) -> float | None:
        """Seconds until a queue of this size is empty; None: never, at this rate."""
        return 60 * size / -self.change if self.change <= -1 and size else None

    def text(self, size: int) -> str:
        """`-9 a minute (331 in, 340 out), empty in 4 min`, as far as it is known; `steady` below 1 a minute."""
        sign = "+" if self.change > 0 else "\N{MINUS SIGN}"
        steady = abs(self.change) < 1
        said = "steady" if steady else f"{sign}{abs(self.change):,.0f} a minute"
        if self.out is not None and self.into is None:
            said += f" ({self.out:,.0f} out by Kiqbridge's workers)"
        elif self.into or self.out:
            said += f" ({self.into:,.0f} in, {self.out:,.0f} out{' a minute' * steady})"
        left_s = self.empty_in_s(size)
        return said if left_s is None else f"{said}, empty in {span_text(left_s)}"

    def fields(self, size: int) -> dict[str, float | None]:
        """As in JSON: jobs a minute, and seconds."""
        return {
            "in_a_minute": self.into,
            "out_a_minute": self.out,
            "change_a_minute": self.change,
            "empty_in_s": self.empty_in_s(size),
        }


def fetch_queue_rates(
    operator: Operator | None = None, minutes: Minutes | None = None
) -> Mapping[str, QueueRates]:
    """The rates of each queue that was there five minutes ago, or since it is looked at; one of less is not known.

    Args:
        operator: default `default_operator()`.
        minutes: what the queues were, if that was read already.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    if minutes is None:
        minutes = fetch_queue_minutes(whose)
    if not minutes or max(minutes) < time.time() - STALE_S:
        return {}
    others = {
        name for process in ProcessSet(whose) if not process.is_ours for name in process.queues
    }
    return rates_of(minutes, others)


def fetch_queue_minutes(operator: Operator) -> Minutes:
    """What the queues were in the last hour; empty if no feature keeps it. Raises as `fetch_queue_rates`."""
    if seams.named("queue_history") is None:
        return {}
    found: Minutes = seams.call("queue_history")(operator)
    return found


def rates_of(minutes: Minutes, others: Collection[str] = ()) -> Mapping[str, QueueRates]:
    """The rates in these minutes; `others`: queues from which other workers than Kiqbridge's take jobs."""
    last = max(minutes, default=0)
    first = min((at for at in minutes if at >= last - OVER_S), default=last)
    passed = (last - first) / 60
    return {
        name: _rates(minutes[first][name], queue, passed, is_shared=name in others)
        for name, queue in minutes.get(last, {}).items()
        if passed and name in minutes[first]
    }


def _rates(before: QueueMinute, now: QueueMinute, passed: float, *, is_shared: bool) -> QueueRates:
    change = (now.size - before.size) / passed
    out = None if now.taken is None else (now.taken - (before.taken or 0)) / passed
    if out is None or out < 0:  # it counts anew
        return QueueRates(change)
    into = out + change
    return QueueRates(change, out, None if is_shared or into < 0 else into)
