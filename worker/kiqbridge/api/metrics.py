"""How often each class ran and failed and how long it took, out of what workers measured (protocol §12).

metric_reading.py says how executions that are written in several forms count once.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kiqbridge.api.metric_reading import (
    ClassCounts,
    MetricReading,
    are_written_apart,
    one_of_both,
)
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.percentiles import Histogram, read_histogram
from kiqbridge.api.processes import ProcessSet
from kiqbridge.wire.measures import (
    field_name,
    histogram_minute_7,
    histogram_minute_8,
    minute_7,
    ten_minutes_8,
)

MOST_MINUTES: Final = 480
"""As long as the counters of a minute are kept."""

MOST_HOURS: Final = 72
"""As long as those of ten minutes are kept."""

_MINUTE_S: Final = 60
_TEN_MINUTES_S: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class TopJobs:
    """All classes that ran in a span of time.

    Attributes:
        bucket_s: seconds of a bucket: 60, or 600.
        buckets: the begin of each bucket of the span, epoch seconds, oldest first; the last one still grows.
        classes: by name, those that took the most time first.
        marks: deployments in the span: minute (epoch seconds) → label.
    """

    bucket_s: int
    buckets: Sequence[float]
    classes: Mapping[str, ClassCounts]
    marks: Mapping[float, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMetrics:
    """One class in the last minutes.

    Attributes:
        counts: totals and series by minute.
        buckets: the begin of each minute, epoch seconds, oldest first.
        histogram: of the durations in the whole span.
        histograms: begin of a minute → its histogram; only minutes in which it ran.
        marks: deployments in the span: minute (epoch seconds) → label.
    """

    counts: ClassCounts
    buckets: Sequence[float]
    histogram: Histogram
    histograms: Mapping[float, Histogram]
    marks: Mapping[float, str]


def top_jobs(
    minutes: int = 60,
    *,
    hours: int | None = None,
    operator: Operator | None = None,
    now: float | None = None,
) -> TopJobs:
    """What every class did lately; an hour is one round trip.

    Args:
        minutes: length of the span in buckets of a minute, from 1 to 480; more are cut to 480.
        hours: instead of it, in buckets of ten minutes, from 1 to 72; what only processes of Sidekiq 7
            wrote is kept for 8 hours.
        operator: whose; default `default_operator()`.
        now: epoch seconds; default the clock of this machine.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    moment = time.time() if now is None else now
    length = _TEN_MINUTES_S if hours else _MINUTE_S
    count = _within(hours, MOST_HOURS) * 6 if hours else _within(minutes, MOST_MINUTES)
    starts = _starts(moment, length, count)
    reading = _read_top(starts, hours, moment, whose)
    classes = [reading.class_counts(name, starts) for name in sorted(reading.names)]
    classes.sort(key=lambda each: (-each.total.ms, -each.total.executions, each.job_class))
    return TopJobs(
        bucket_s=length,
        buckets=starts,
        classes={each.job_class: each for each in classes},
        marks=reading.marks_within(starts[0], moment),
    )


def _read_top(
    starts: Sequence[float], hours: int | None, moment: float, whose: Operator
) -> MetricReading:
    reading = MetricReading(whose)
    for start in starts:
        if hours:
            reading.ask_counts(start, 8, ten_minutes_8(time.gmtime(start)))
        else:
            reading.ask_minute(start)
    if hours:  # Sidekiq 7 has minutes only
        for minute in _starts(moment, _MINUTE_S, min(MOST_MINUTES, hours * 60)):
            bucket = minute // _TEN_MINUTES_S * _TEN_MINUTES_S
            if bucket in reading.asked:
                reading.ask_counts(bucket, 7, minute_7(time.gmtime(minute)))
    reading.ask_marks(starts)
    reading.read()
    return reading


def job_metrics(
    job_class: str,
    minutes: int = 60,
    *,
    operator: Operator | None = None,
    now: float | None = None,
) -> JobMetrics:
    """What one class did in the last minutes, with its durations; an hour is one round trip.

    Args:
        job_class: as `top_jobs` names it.
        minutes: from 1 to 480; more are cut to 480.
        operator: whose; default `default_operator()`.
        now: epoch seconds; default the clock of this machine.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    moment = time.time() if now is None else now
    starts = _starts(moment, _MINUTE_S, _within(minutes, MOST_MINUTES))
    name = field_name(job_class)
    reading = _read_class(starts, name, whose)
    histograms = {start: reading.histogram(start) for start in starts}
    kept = {start: each for start, each in histograms.items() if each.count}
    return JobMetrics(
        counts=reading.class_counts(name, starts),
        buckets=starts,
        histogram=_sum_of(kept.values()),
        histograms=kept,
        marks=reading.marks_within(starts[0], moment),
    )


def _read_class(starts: Sequence[float], name: str, whose: Operator) -> MetricReading:
    reading = MetricReading(whose)
    for start in starts:
        at = time.gmtime(start)
        reading.ask_minute(start, only=name)
        reading.ask_histogram(start, 7, whose.keys.histogram_7(name, histogram_minute_7(at)))
        reading.ask_histogram(start, 8, whose.keys.histogram_8(name, histogram_minute_8(at)))
    reading.ask_marks(starts)
    reading.read()
    return reading


def class_histograms(
    names: Sequence[str],
    minutes: int = 60,
    *,
    operator: Operator | None = None,
    now: float | None = None,
) -> dict[str, Histogram]:
    """The durations of each of these classes in the last minutes together, in one round trip (protocol §12.3).

    Args:
        names: as `top_jobs` names them.
        minutes: from 1 to 480; more are cut to 480.
        operator: whose; default `default_operator()`.
        now: epoch seconds; default the clock of this machine.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    moment = time.time() if now is None else now
    starts = _starts(moment, _MINUTE_S, _within(minutes, MOST_MINUTES))
    moments = [time.gmtime(start) for start in starts]
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
        name: _sum_of(
            one_of_both(read_histogram(seven), read_histogram(eight), are_apart=are_apart)
            for seven, eight in zip(*replies[2 * place : 2 * place + 2], strict=True)
            if seven or eight
        )
        for place, name in enumerate(names)
    }


def _sum_of(histograms: Iterable[Histogram]) -> Histogram:
    counts = [each.counts for each in histograms]
    return Histogram(tuple(map(sum, zip(*counts, strict=True)))) if counts else Histogram()


def _within(count: int, most: int) -> int:
    return max(1, min(most, int(count)))


def _starts(now: float, length: int, count: int) -> list[float]:
    newest = int(now) // length * length
    return [float(newest - length * back) for back in reversed(range(count))]
