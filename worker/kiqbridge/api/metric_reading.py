"""What workers wrote of each class: the commands that read it, and one answer out of both forms (protocol §12).

Sidekiq 7 and 8 write the same numbers under other names, and a worker of ours writes both. What lies under
both names with equal numbers is one and the same. Where they differ, some processes wrote one form only:
then the larger one holds the other, unless Ruby of both versions runs and none of ours: then it is the sum.
"""

import calendar
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kiqbridge.api.operator import Operator
from kiqbridge.api.percentiles import Histogram, read_histogram
from kiqbridge.api.processes import Process, ProcessSet
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.measures import minute_7, minute_8
from kiqbridge.wire.names import text_of

_FIELDS: Final = ("p", "f", "ms")
_AT_ONCE: Final = 250
"""Commands of one round trip, so that no reply grows large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was measured of a class.

    Attributes:
        executions: those that failed included.
        failures: executions that raised.
        ms: milliseconds of the executions that did not fail.
    """

    executions: int = 0
    failures: int = 0
    ms: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            executions=self.executions + other.executions,
            failures=self.failures + other.failures,
            ms=self.ms + other.ms,
        )

    @property
    def average_ms(self) -> float | None:
        """Milliseconds of an execution that succeeded; None if none did (§12.4)."""
        succeeded = self.executions - self.failures
        return self.ms / succeeded if succeeded > 0 else None


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


@dataclass(slots=True)
class MetricReading:
    """What is asked of Redis for one answer, and what it replied, by form (7, 8) and bucket.

    Attributes:
        operator: whose.
        asked: bucket → form → class → what that form says.
        names: all classes that were found.
        commands: what is to be asked.
        processes: those that live, if they are known; else they are read where they matter.
    """

    operator: Operator
    asked: dict[float, dict[int, dict[str, Counts]]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    marks: dict[float, str] = field(default_factory=dict)
    processes: Sequence[Process] | None = None
    _histograms: dict[tuple[float, int], Histogram] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    _takers: list[Callable[[Any], None]] = field(default_factory=list)
    _are_apart: bool | None = None

    def ask_minute(self, start: float, only: str = "") -> None:
        """The counters of a minute in both forms, of all classes or one."""
        at = time.gmtime(start)
        self.ask_counts(start, 7, minute_7(at), only=only)
        self.ask_counts(start, 8, minute_8(at), only=only)

    def ask_counts(self, bucket: float, form: int, key_part: str, only: str = "") -> None:
        """The counters of a bucket, of all classes or one; several keys may belong to one bucket."""
        forms = self.asked.setdefault(bucket, {7: {}, 8: {}})
        key = self.operator.keys.metrics(key_part)
        if only:
            fields = [f"{only}|{each}" for each in _FIELDS]
            self._ask(("HMGET", key, *fields), lambda reply: self._add(forms[form], only, reply))
        else:
            self._ask(("HGETALL", key), lambda reply: self._add_all(forms[form], reply))

    def ask_histogram(self, bucket: float, form: int, key: str) -> None:
        """A histogram; it is a plain string to Redis, so one GET brings all its counters."""

        def take(reply: bytes) -> None:
            self._histograms[bucket, form] = read_histogram(reply)

        self._ask(("GET", key), take)

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
        series = {start: self._counts(start, name) for start in starts}
        series = {start: each for start, each in series.items() if each.executions or each.ms}
        return ClassCounts(job_class=name, total=sum(series.values(), Counts()), series=series)

    def totals(self) -> dict[str, Counts]:
        """Class → what it did in all buckets."""
        return {name: self.class_counts(name, self.asked).total for name in sorted(self.names)}

    def histogram(self, bucket: float) -> Histogram:
        """Durations in a minute, out of both forms."""
        seven, eight = (self._histograms.get((bucket, form), Histogram()) for form in (7, 8))
        is_clear = seven == eight or not seven.count or not eight.count
        return one_of_both(seven, eight, are_apart=not is_clear and self._written_apart())

    def marks_within(self, since: float, until: float) -> Mapping[float, str]:
        """Those of the span, oldest first."""
        return {at: self.marks[at] for at in sorted(self.marks) if since <= at <= until}

    def _counts(self, bucket: float, name: str) -> Counts:
        forms = self.asked[bucket]
        seven, eight = (forms[form].get(name, Counts()) for form in (7, 8))
        if seven == eight or not seven.executions or not eight.executions:
            return seven if seven.executions else eight
        if self._written_apart():
            return seven + eight
        return max(seven, eight, key=lambda each: (each.executions, each.ms))

    def _written_apart(self) -> bool:
        if self._are_apart is None:
            living = self.processes
            self._are_apart = are_written_apart(
                list(ProcessSet(self.operator)) if living is None else living
            )
        return self._are_apart

    def _add(self, counts: dict[str, Counts], name: str, reply: Sequence[bytes | None]) -> None:
        executions, failures, ms = map(_number, reply)
        new = Counts(executions=executions, failures=failures, ms=ms)
        if new != Counts():
            counts[name] = counts.get(name, Counts()) + new

    def _add_all(self, counts: dict[str, Counts], reply: Any) -> None:
        rows: dict[str, dict[str, bytes]] = {}
        for raw, count in pairs_of(reply).items():
            name, _, kind = text_of(raw).rpartition("|")
            rows.setdefault(name, {})[kind] = count
        for name, row in rows.items():
            self._add(counts, name, [row.get(each) for each in _FIELDS])
        self.names.update(rows)

    def _add_marks(self, reply: Any) -> None:
        for raw, label in pairs_of(reply).items():
            at = _minute(text_of(raw))
            if at is not None:
                self.marks[at] = text_of(label)


def one_of_both(seven: Histogram, eight: Histogram, *, are_apart: bool) -> Histogram:
    """The durations of one minute, out of what lies under both names."""
    if seven == eight or not seven.count or not eight.count:
        return seven if seven.count else eight
    return seven + eight if are_apart else max(seven, eight, key=lambda each: each.count)


def are_written_apart(processes: Sequence[Process]) -> bool:
    """Whether the two forms of counters come from different processes: Ruby of both versions, none of ours."""
    if any(each.is_ours for each in processes):
        return False
    majors = {each.version.partition(".")[0] for each in processes}
    return "7" in majors and any(each.isdecimal() and int(each) > 7 for each in majors)  # noqa: PLR2004


def _number(reply: bytes | None) -> int:
    try:
        return int(reply or 0)
    except ValueError:
        return 0


def _minute(stamp: str) -> float | None:
    """Epoch seconds of a mark's stamp such as 2026-11-20T11:33:00Z; None: that is none."""
    try:
        # Ruby's and ours are UTC without exception (§12.5).
        return float(calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return None
