"""How often each class ran and failed and how long it took, out of what workers measured (protocol §12).

Sidekiq 7 and 8 write the same numbers under other names, and a worker of ours writes both. What lies under
both names with equal numbers is one and the same. Where they differ, some processes wrote one form only:
then the larger one holds the other, unless Ruby of both versions runs and none of ours: then it is the sum.
"""

import calendar
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kiqbridge.api.counts import Counts
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.percentiles import Histogram, read_histogram
from kiqbridge.api.processes import Process, ProcessSet
from kiqbridge.store.replies import count_in, pairs_of
from kiqbridge.wire import measures
from kiqbridge.wire.names import text_of

MOST_MINUTES: Final = 480
"""As long as the counters of a minute are kept."""
MOST_HOURS: Final = 72
"""As long as those of ten minutes are kept."""

_MINUTE_S: Final = 60
_TEN_MINUTES_S: Final = 600
_FIELDS: Final = ("p", "f", "ms")
_AT_ONCE: Final = 250
"""Commands of one round trip, so that no reply grows large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassCounts:
    """One class in a span of time.

    Attributes:
        job_class: as it was measured: for a Rails job the class that Rails knows.
        total: of the whole span.
        series: begin of a bucket (epoch seconds) → counts; only buckets in which it ran.
    """

    job_class: str
    total: Counts
    series: Mapping[float, Counts]


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
        histogram: of the durations in the whole span.
        marks: deployments in the span: minute (epoch seconds) → label.
    """

    counts: ClassCounts
    histogram: Histogram
    marks: Mapping[float, str]


def complete_until(operator: Operator | None = None) -> float | None:
    """Up to when metrics that are read now are complete, epoch seconds, in two round trips.

    Each process writes what it measured with its heartbeat, so it is the oldest of the last ones; None = no process
    lives that has more to write.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    now = time.time()
    return min((now - each.silent_s(now) for each in ProcessSet(operator)), default=None)


def top_jobs(
    minutes: int = 60,
    *,
    hours: int | None = None,
    operator: Operator | None = None,
    now: float | None = None,
) -> TopJobs:
    """Executions of every class in the last minutes; an hour is one round trip.

    Args:
        minutes: length of the span in buckets of a minute, from 1 to 480; more are cut to 480.
        hours: instead of it, in buckets of ten minutes, from 1 to 72; what only processes of Sidekiq 7
            wrote is kept for 8 hours.
        operator: default `default_operator()`.
        now: epoch seconds; default the clock of this machine.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    reading = MetricReading(operator or default_operator())
    moment = time.time() if now is None else now
    if hours:
        starts = _starts(moment, _TEN_MINUTES_S, _within(hours, MOST_HOURS) * 6)
        for start in starts:
            reading.ask_counts(start, 8, measures.ten_minutes_8(time.gmtime(start)))
        for minute in _starts(moment, _MINUTE_S, min(MOST_MINUTES, hours * 60)):
            bucket = minute // _TEN_MINUTES_S * _TEN_MINUTES_S
            if bucket in reading.asked:  # Sidekiq 7 has minutes only
                reading.ask_counts(bucket, 7, measures.minute_7(time.gmtime(minute)))
    else:
        starts = _starts(moment, _MINUTE_S, _within(minutes, MOST_MINUTES))
        for start in starts:
            reading.ask_minute(start)
    reading.ask_marks(starts)
    reading.read()
    classes = [reading.class_counts(name, starts) for name in sorted(reading.names)]
    classes.sort(key=lambda each: (-each.total.ms, -each.total.executions, each.job_class))
    return TopJobs(
        bucket_s=_TEN_MINUTES_S if hours else _MINUTE_S,
        buckets=starts,
        classes={each.job_class: each for each in classes},
        marks=reading.marks_within(starts[0], moment),
    )


def job_metrics(
    job_class: str, minutes: int = 60, *, operator: Operator | None = None, now: float | None = None
) -> JobMetrics:
    """Executions of one class in the last minutes, with their durations; an hour is one round trip.

    Args:
        job_class: as `top_jobs` names it.
        minutes: from 1 to 480; more are cut to 480.
        operator: default `default_operator()`.
        now: epoch seconds; default the clock of this machine.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    moment = time.time() if now is None else now
    starts = _starts(moment, _MINUTE_S, _within(minutes, MOST_MINUTES))
    name = measures.field_name(job_class)
    reading = MetricReading(operator or default_operator())
    for start in starts:
        reading.ask_minute(start, only=name)
    reading.ask_histograms(name, starts)
    reading.ask_marks(starts)
    reading.read()
    return JobMetrics(
        counts=reading.class_counts(name, starts),
        histogram=reading.histogram(name),
        marks=reading.marks_within(starts[0], moment),
    )


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
        operator: default `default_operator()`.
        now: epoch seconds; default the clock of this machine.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    moment = time.time() if now is None else now
    starts = _starts(moment, _MINUTE_S, _within(minutes, MOST_MINUTES))
    reading = MetricReading(operator or default_operator())
    for name in names:
        reading.ask_histograms(measures.field_name(name), starts)
    reading.read()
    return {name: reading.histogram(measures.field_name(name)) for name in names}


class MetricReading:
    """What is asked of Redis for one answer, and what it replied, by form (7, 8) and bucket.

    Args:
        operator: whose.

    Attributes:
        asked: bucket → form → class → what that form says.
        names: all classes that were found.
        commands: what is to be asked.
        processes: those that live, if they are known; else they are read where they matter.
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.asked: dict[float, dict[int, dict[str, Counts]]] = {}
        self.names: set[str] = set()
        self.processes: Sequence[Process] | None = None
        self.commands: list[tuple[str, ...]] = []
        self._takers: list[Callable[[Any], None]] = []
        self._fields: dict[bytes, tuple[str, int | None]] = {}
        self._last: tuple[Any, Mapping[str, Counts]] = None, {}
        self._marks: dict[float, str] = {}
        self._histograms: dict[tuple[str, int], Sequence[bytes | None]] = {}

    def ask_minute(self, start: float, only: str = "") -> None:
        """The counters of a minute in both forms, of all classes or one."""
        at = time.gmtime(start)
        self.ask_counts(start, 7, measures.minute_7(at), only=only)
        self.ask_counts(start, 8, measures.minute_8(at), only=only)

    def ask_counts(self, bucket: float, form: int, key_part: str, only: str = "") -> None:
        """The counters of a bucket, of all classes or one; several keys may belong to one bucket."""
        counts = self.asked.setdefault(bucket, {7: {}, 8: {}})[form]
        key = self.operator.keys.metrics(key_part)
        if only:
            fields = [f"{only}|{each}" for each in _FIELDS]
            self._ask(("HMGET", key, *fields), lambda reply: _add(counts, only, reply))
        else:
            self._ask(("HGETALL", key), lambda reply: self._add_all(counts, reply))

    def ask_histograms(self, name: str, starts: Sequence[float]) -> None:
        """The histograms of a class at these minutes; each is a plain string to Redis."""
        moments = [time.gmtime(start) for start in starts]
        keys = self.operator.keys

        def ask(form: int, found: Iterable[str]) -> None:
            def take(replies: Sequence[bytes | None]) -> None:
                self._histograms[name, form] = replies

            self._ask(("MGET", *found), take)

        ask(7, (keys.histogram_7(name, measures.histogram_minute_7(at)) for at in moments))
        ask(8, (keys.histogram_8(name, measures.histogram_minute_8(at)) for at in moments))

    def ask_marks(self, starts: Iterable[float]) -> None:
        """The deployments of each UTC day of these buckets."""
        for day in sorted({time.strftime("%Y%m%d", time.gmtime(start)) for start in starts}):
            self._ask(("HGETALL", self.operator.keys.marks(day)), self._add_marks)

    def _ask(self, command: tuple[str, ...], take: Callable[[Any], None]) -> None:
        self.commands.append(command)
        self._takers.append(take)

    def read(self) -> None:
        """Ask all of it, in as few round trips as replies of a fair size allow."""
        replies: list[Any] = []
        for first in range(0, len(self.commands), _AT_ONCE):
            replies += self.operator.pool.run(*self.commands[first : first + _AT_ONCE])
        self.take(replies)

    def take(self, replies: Iterable[Any]) -> None:
        """What Redis replied to `commands`; None: it refused that one."""
        for take, reply in zip(self._takers, replies, strict=True):
            if reply is not None:
                take(reply)

    def class_counts(self, name: str, starts: Iterable[float]) -> ClassCounts:
        """Totals and series of one class."""
        nothing = Counts()
        series = {}
        for start in starts:
            forms = self.asked[start]
            each = seven = forms[7].get(name, nothing)
            eight = forms[8].get(name, nothing)
            if seven is not eight:
                each = self._one_of_both(seven, eight, lambda each: (each.executions, each.ms))
            if each.executions or each.ms:
                series[start] = each
        total = Counts(*map(sum, zip(*series.values(), strict=True)))
        return ClassCounts(job_class=name, total=total, series=series)

    def totals(self) -> dict[str, Counts]:
        """Class → what it did in all buckets."""
        return {name: self.class_counts(name, self.asked).total for name in sorted(self.names)}

    def histogram(self, name: str) -> Histogram:
        """Durations in all minutes that were asked for, out of both forms."""
        both = zip(self._histograms[name, 7], self._histograms[name, 8], strict=True)
        minutes = (
            read_histogram(seven)
            if seven == eight
            else self._one_of_both(
                read_histogram(seven), read_histogram(eight), lambda each: each.count
            )
            for seven, eight in both
        )
        counts = [each.counts for each in minutes if each]
        return Histogram(tuple(map(sum, zip(*counts, strict=True)))) if counts else Histogram()

    def marks_within(self, since: float, until: float) -> Mapping[float, str]:
        """Those of the span, oldest first."""
        return {at: self._marks[at] for at in sorted(self._marks) if since <= at <= until}

    def _one_of_both(
        self, seven: "_Measured", eight: "_Measured", size: Callable[["_Measured"], Any]
    ) -> "_Measured":
        if not seven:
            return eight
        if seven == eight or not eight:
            return seven
        if self.processes is None:
            self.processes = list(ProcessSet(self.operator))
        # Written by Ruby of both versions, none of ours, they are different executions.
        majors = {each.version.partition(".")[0] for each in self.processes}
        newer = any(each.isdecimal() and int(each) > 7 for each in majors)  # noqa: PLR2004
        if "7" in majors and newer and not any(each.is_ours for each in self.processes):
            return seven + eight
        return max(seven, eight, key=size)

    def _add_all(self, counts: dict[str, Counts], reply: Any) -> None:
        former, found = self._last
        if former != reply:  # else the other form of the same minute, which our workers write alike
            found = self._counts(reply)
            self._last = reply, found
            self.names.update(found)
        for name, each in found.items():
            counts[name] = counts[name] + each if name in counts else each

    def _counts(self, reply: Any) -> dict[str, Counts]:
        fields, rows, found = self._fields, dict[str, list[int]](), pairs_of(reply)
        try:
            numbers = list(map(int, found.values()))
        except ValueError:
            numbers = list(map(count_in, found.values()))
        for raw, number in zip(found, numbers, strict=True):
            known = fields.get(raw)
            if known is None:
                name, _, kind = text_of(raw).rpartition("|")
                known = fields[raw] = name, _FIELDS.index(kind) if kind in _FIELDS else None
            name, place = known
            row = rows.get(name)
            if row is None:
                row = rows[name] = [0, 0, 0]
            if place is not None:
                row[place] = number
        return {name: Counts(*row) for name, row in rows.items()}

    def _add_marks(self, reply: Any) -> None:
        for stamp, label in pairs_of(reply).items():
            try:
                # Ruby's and ours are UTC without exception (§12.5).
                at = calendar.timegm(time.strptime(text_of(stamp), "%Y-%m-%dT%H:%M:%SZ"))
            except ValueError:
                continue
            self._marks[float(at)] = text_of(label)


_Measured = TypeVar("_Measured", Counts, Histogram)


def _add(counts: dict[str, Counts], name: str, reply: Sequence[bytes | None]) -> None:
    executions, failures, ms = map(count_in, reply)
    new = Counts(executions=executions, failures=failures, ms=ms)
    counts[name] = counts.get(name, Counts()) + new


def _within(count: int, most: int) -> int:
    return max(1, min(most, int(count)))


def _starts(now: float, length: int, count: int) -> list[float]:
    newest = int(now) // length * length
    return [float(newest - length * back) for back in reversed(range(count))]
