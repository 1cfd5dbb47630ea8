"""How long the executions of several classes took, two commands for each class (protocol §12.3)."""

import time
from collections.abc import Sequence
from typing import Any, Final

from kiqbridge.api.metric_reading import are_written_apart, one_of_both
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.percentiles import Histogram, read_histogram
from kiqbridge.api.processes import ProcessSet
from kiqbridge.wire.measures import field_name, histogram_minute_7, histogram_minute_8

_MINUTE_S: Final = 60
_MOST_MINUTES: Final = 480


def class_histograms(
    names: Sequence[str],
    minutes: int = 60,
    *,
    operator: Operator | None = None,
    now: float | None = None,
) -> dict[str, Histogram]:
    """The durations of each of these classes in the last minutes together, in one round trip.

    Args:
        names: as `top_jobs` names them.
        minutes: from 1 to 480; more are cut to 480.
        operator: whose; default `default_operator()`.
        now: epoch seconds; default the clock of this machine.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    newest = int(time.time() if now is None else now) // _MINUTE_S * _MINUTE_S
    count = max(1, min(_MOST_MINUTES, minutes))
    moments = [time.gmtime(newest - _MINUTE_S * back) for back in range(count)]
    sevens = [histogram_minute_7(at) for at in moments]
    eights = [histogram_minute_8(at) for at in moments]
    commands: list[tuple[Any, ...]] = []
    for name in map(field_name, names):
        commands.append(("MGET", *(whose.keys.histogram_7(name, each) for each in sevens)))
        commands.append(("MGET", *(whose.keys.histogram_8(name, each) for each in eights)))
    if not commands:
        return {}
    replies = whose.pool.run(*commands)
    are_apart = are_written_apart(list(ProcessSet(whose)))
    return {
        name: _together(
            [
                one_of_both(read_histogram(seven), read_histogram(eight), are_apart=are_apart)
                for seven, eight in zip(*replies[2 * place : 2 * place + 2], strict=True)
                if seven or eight
            ]
        )
        for place, name in enumerate(names)
    }


def _together(histograms: Sequence[Histogram]) -> Histogram:
    if not histograms:
        return Histogram()
    return Histogram(tuple(map(sum, zip(*(each.counts for each in histograms), strict=True))))
