"""What a schedule is, wherever it comes from: a rule of a template, a call, a declaration, a file.

It is kept as JSON under its name in `kb:schedules`. Pure; who writes it: clocks/.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, get_args

from kiqbridge.errors import ConfigError
from kiqbridge.runtime.digests import sha256
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.schedule.cron import Rate, ScheduleExpression, Union
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.wire.payload import is_number
from kiqbridge.wire.tick_mark import Missed, Overlap

Origin = Literal["template", "dynamic", "code"]
"""`template`: AWS fires it, published by its manifest; `dynamic`: made by a call, the command line or a file;
`code`: declared beside its job. The last two are fired by the fleet's leader or the tick function."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DEFAULT_GRACE_S: Final = 300.0
"""Seconds after its instant from which a tick counts as missed: EventBridge's precision is a minute, and Lambda
tries again after one and two minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDefinition:
    """One schedule.

    Attributes:
        name: unique in its namespace; of a template `STACK/LogicalId`.
        expression: as it was written, in any form that `parse_expression` reads.
        jobs: what each occurrence enqueues, items as `Client.push` takes them; not empty.
        also: further expressions of the same zone; it is due when any of them is.
        timezone: IANA name, for an expression that names none.
        start, end: aware; bound what is due, both included. A rate without start counts from 1970 in UTC.
        origin: where it comes from, which says who fires it.
        enabled: False = never due.
        missed: what is done about ticks that did not come.
        max_age_s: seconds after its instant from which an occurrence is not enqueued late, and its job not
            begun any more; None = no limit.
        grace_s: seconds after its instant from which a tick counts as missed.
        overlap: what a job does while an earlier one of this schedule runs.
        jitter_s: each occurrence is put off by up to so many seconds, always the same for the same instant.
        description: for people.
    """

    name: str
    expression: str
    jobs: tuple[Mapping[str, Any], ...]
    also: tuple[str, ...] = ()
    timezone: str = "UTC"
    start: datetime | None = None
    end: datetime | None = None
    origin: Origin = "dynamic"
    enabled: bool = True
    missed: Missed = "alert"
    max_age_s: float | None = None
    grace_s: float = DEFAULT_GRACE_S
    overlap: Overlap = "allow"
    jitter_s: int = 0
    description: str = ""
    _parsed: list[ScheduleExpression] = field(default_factory=list, repr=False, compare=False)

    @property
    def when(self) -> ScheduleExpression:
        """The expression, or the union of all, read once.

        Raises:
            ExpressionError: it cannot be read.
        """
        if not self._parsed:
            first, *more = parts = [self._read(text) for text in (self.expression, *self.also)]
            self._parsed.append(
                Union(
                    text=first.text,
                    timezone=first.timezone,
                    bounds=first.bounds,
                    parts=tuple(parts),
                )
                if more
                else first
            )
        return self._parsed[0]

    @property
    def classes(self) -> list[str]:
        """The classes of its jobs, each once."""
        names = (str(job.get("class") or job.get("active_job")) for job in self.jobs)
        return list(dict.fromkeys(names))

    @property
    def queues(self) -> list[str]:
        """The queues of its jobs, each once."""
        return list(dict.fromkeys(str(job.get("queue", "default")) for job in self.jobs))

    def _read(self, text: str) -> ScheduleExpression:
        found = parse_expression(text, self.timezone, start=self.start, end=self.end)
        if isinstance(found, Rate) and found.bounds.start is None:
            return replace(found, bounds=replace(found.bounds, start=EPOCH))
        return found

    def put_off_s(self, instant: int) -> int:
        """Seconds by which the occurrence of this instant is put off: 0 to `jitter_s`, stable."""
        if not self.jitter_s:
            return 0
        digest = sha256(f"{self.name} {instant}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % (self.jitter_s + 1)

    def to_document(self) -> dict[str, Any]:
        """As JSON holds it under the name; what is the default is left out."""
        document: dict[str, Any] = {
            "expression": self.expression,
            "jobs": [dict(job) for job in self.jobs],
            "origin": self.origin,
        }
        for member, default in _DEFAULTS.items():
            value = getattr(self, member)
            if isinstance(value, datetime):
                value = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
            if value != default:
                document[member] = list(value) if isinstance(value, tuple) else value
        return document

    @classmethod
    def from_document(cls, name: str, document: object) -> "ScheduleDefinition":
        """The counterpart of `to_document`; the expression is not read yet.

        Raises:
            ConfigError: it is none; names the schedule and the member.
        """
        if not isinstance(document, Mapping):
            raise ConfigError(f"schedule {name!r}: {document!r} is no mapping of its members")
        found: dict[str, Any] = {}
        for member, read in _READERS.items():
            if member in document or member in ("expression", "jobs"):
                value = document.get(member)
                try:
                    found[member] = read(value)
                except (TypeError, ValueError) as error:
                    raise ConfigError(
                        f"schedule {name!r}: {member}: {shorten(value)} {error}"
                    ) from None
        return cls(name=name, **found)


_DEFAULTS: Final = {
    each.name: each.default
    for each in fields(ScheduleDefinition)
    if each.default is not MISSING and each.name != "origin"
}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("is no text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("is no list of texts")
    return tuple(value)


def _jobs(value: object) -> tuple[Mapping[str, Any], ...]:
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(job, Mapping) for job in value)
    ):
        raise ValueError("is no list of jobs")
    return tuple(value)


def _one_of(choices: Any) -> Callable[[object], object]:
    def read(value: object) -> object:
        if value not in get_args(choices):
            raise ValueError(f"is none of {', '.join(get_args(choices))}")
        return value

    return read


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not is_number(seconds) or seconds < 0:
        raise ValueError("is no number of seconds from 0")
    return float(seconds)


def _moment(value: object) -> datetime | None:
    if value is None:
        return None
    moment = read_moment(value)
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            "is no time with a zone; write an aware datetime, or a text such as 2027-01-31T00:00:00Z"
        )
    return moment.astimezone(UTC)


def read_moment(value: object) -> datetime | None:
    """A datetime, or one written as ISO 8601; None for anything else."""
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, datetime) else None


_READERS: Final[Mapping[str, Callable[[object], object]]] = {
    "expression": _text,
    "jobs": _jobs,
    "also": _texts,
    "timezone": _text,
    "start": _moment,
    "end": _moment,
    "origin": _one_of(Origin),
    "enabled": lambda value: value is True,
    "missed": _one_of(Missed),
    "max_age_s": _seconds,
    "grace_s": lambda value: _seconds(value) or 0.0,
    "overlap": _one_of(Overlap),
    "jitter_s": lambda value: int(_seconds(value) or 0),
    "description": _text,
}
