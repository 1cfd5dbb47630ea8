"""A schedule as a program declares it: `Schedule("nightly", NightlyReport, cron="0 3 * * *")`.

It is checked at once: expression, time zone, job and arguments. `Schedules` (schedules.py) saves it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Unpack, cast

from kiqbridge.client.registry import JobDefinition, definition_of
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.schedule.cron import Cron
from kiqbridge.schedule.definition import Origin, ScheduleDefinition, read_moment
from kiqbridge.schedule.expression import parse_duration, parse_expression, rate_text
from kiqbridge.wire import payload
from kiqbridge.wire.options import ScheduleTimes
from kiqbridge.wire.tick_mark import MAX_NAME

_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAME: Final = re.compile(r"[A-Za-z0-9_.:/-]+", re.ASCII)
MAX_JITTER_S: Final = 86_400
MAX_PERIOD_S: Final = 100 * 366 * 86_400


class ScheduleOptions(ScheduleTimes, total=False):
    """How and when a schedule is due; one of `cron`, `every`, `at` and `expression` is needed.

    `every` counts from `start`, or from 1970 in UTC.
    """

    at: str | datetime
    """The only instant: an aware datetime, or ISO 8601; without an offset it is in `timezone`."""
    expression: str
    """Any form that `kiqbridge schedule next --expression` reads."""
    start: datetime | str | None
    """Nothing is due before; aware."""
    end: datetime | str | None
    """Nothing is due after; aware."""
    grace_s: float
    """Seconds by which an occurrence may be late before it counts as missed; default 300."""
    enabled: bool
    """False: never due."""


class Schedule:
    """A schedule, checked.

    Args:
        name: letters, digits and `_ - . : /`, at most 256; unique in the namespace.
        job: a declared job, or the name of a class as on the wire.
        args: of the job, a list.
        queue: default: the declared one, or `default`.
        attributes: further attributes of the job, such as `retry` or `tags`.
        options: when it is due, see `ScheduleOptions`.

    Raises:
        ConfigError: name, expression, time zone or an option is wrong.
        PayloadError: that is no job.

    Attributes:
        definition: as it is kept.
    """

    def __init__(
        self,
        name: str,
        job: object = None,
        *,
        args: Sequence[Any] = (),
        queue: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        check_name(name)
        item = job_item(job, args, queue=queue, attributes=attributes or {})
        self.definition = make_definition(name, [item], options)
        check_fires(self.definition)

    def __repr__(self) -> str:
        return f"<Schedule {self.definition.name}: {self.definition.expression}>"

    @property
    def name(self) -> str:
        """Name of the schedule."""
        return self.definition.name


def declared(definition: JobDefinition, given: dict[str, Any]) -> JobDefinition:
    """The job with the schedule that these options of its declaration make.

    Raises:
        ConfigError: they make none.
    """
    name, args = given.pop("schedule_name", definition.name), given.pop("args", [])
    try:
        check_name(name)
        item = job_item(definition, args, queue=None, attributes={})
        made = make_definition(name, [item], cast("Any", given), origin="code")
        check_fires(made)
    except (ConfigError, PayloadError) as error:
        hint = "; give args=[…] with what it needs" if isinstance(error, PayloadError) else ""
        raise ConfigError(f"its schedule: {error}{hint}") from error
    return replace(definition, schedule=made)


def check_name(name: object) -> None:
    """Refuse what is no name of a schedule.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(name, str) or len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise ConfigError(
            f"schedule: {shorten(name)} is not a name; write letters, digits and _ - . : /, at most {MAX_NAME}"
        )


def job_item(
    job: object, args: Sequence[Any], *, queue: str | None, attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """A job as a schedule keeps it: with the options that its declaration gives it.

    Raises:
        PayloadError: that is no job, or it cannot be called with these arguments.
    """
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise PayloadError(f"args: {shorten(args)} is not a list; write the arguments as a list")
    declared = job if isinstance(job, JobDefinition) else definition_of(job)
    options = payload.DEFAULT_OPTIONS if declared is None else declared.options
    given = list(args) if declared is None else declared.positional(tuple(args), {})
    name = job if declared is None else declared.name
    item = {**options, "class": name, "args": given, **attributes}
    if queue is not None:
        item["queue"] = queue
    if declared is not None and declared.rule is not None:
        rule = declared.rule
        rule.stamp(item, rule.name_of(item, declared.signature), is_taken=False)
    payload.validate(item)
    payload.check_queue(item["queue"])
    payload.check_payload(item)
    if {"at", "jid", "tick"} & item.keys():
        raise PayloadError(
            "attributes: at, jid and tick are set anew for each occurrence; leave them out"
        )
    return item


def make_definition(
    name: str,
    jobs: Sequence[Mapping[str, Any]],
    options: ScheduleOptions,
    origin: Origin = "dynamic",
) -> ScheduleDefinition:
    """The checked definition of a schedule.

    Raises:
        ConfigError: an option is wrong; names the schedule and the option.
    """
    unknown = options.keys() - ScheduleOptions.__annotations__.keys()
    if unknown:
        known = ", ".join(ScheduleOptions.__annotations__)
        raise ConfigError(f"schedule {name!r}: {min(unknown)}: no such option; known: {known}")
    for option in ("timezone", "description"):
        if not isinstance(options.get(option, ""), str | None):
            raise _refused(name, option, options[option], "is no text")
    expression, zone = _expression(name, options, options.get("timezone") or "UTC")
    enabled, jitter_s = options.get("enabled", True), options.get("jitter_s", 0)
    if not isinstance(enabled, bool):
        raise _refused(name, "enabled", enabled, "is not true or false")
    if type(jitter_s) is not int or not 0 <= jitter_s <= MAX_JITTER_S:
        wanted = f"is no whole number of seconds from 0 to {MAX_JITTER_S}"
        raise _refused(name, "jitter_s", jitter_s, wanted)
    found = {
        "missed": "last",
        **options,
        "expression": expression,
        "timezone": zone,
        "jobs": list(jobs),
        "origin": origin,
        "description": options.get("description") or "",
    }
    made = ScheduleDefinition.from_document(name, found)
    check_expression(made)
    return made


def check_expression(definition: ScheduleDefinition) -> None:
    """Refuse a definition whose expression, time zone or bounds cannot be read.

    Raises:
        ConfigError: names the schedule and the reason.
    """
    try:
        definition.when.next_after(datetime.now(UTC))
    except ConfigError as error:
        raise ConfigError(f"schedule {definition.name!r}: {error}") from error


def check_fires(definition: ScheduleDefinition) -> None:
    """Refuse a cron expression that no day of the calendar matches, such as the 31st of February.

    Raises:
        ConfigError: names the schedule and the expression.
    """
    unbounded = parse_expression(definition.expression, definition.timezone)
    if isinstance(unbounded, Cron) and unbounded.next_after(_FIRST) is None:
        raise ConfigError(
            f"schedule {definition.name!r}: {definition.expression!r} never fires, since no day of the calendar "
            "matches it; correct its days or months"
        )


def _expression(name: str, options: ScheduleOptions, zone: str) -> tuple[str, str]:
    given = [
        each for each in ("cron", "every", "at", "expression") if options.get(each) is not None
    ]
    if len(given) != 1:
        raise ConfigError(
            f"schedule {name!r}: {' and '.join(given) or 'no expression'} given; give one of cron, every, at "
            "and expression"
        )
    if given == ["every"]:
        return _every(name, options["every"]), zone
    if given == ["at"]:
        return _at(name, options["at"], zone)
    text = options.get(given[0])
    if not isinstance(text, str) or not text.strip():
        raise _refused(name, given[0], text, "is no text; write one such as '0 3 * * *'")
    return text.strip(), zone


def _every(name: str, value: object) -> str:
    seconds: float = 0
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        try:
            seconds = parse_duration(value)
        except ConfigError as error:
            raise ConfigError(f"schedule {name!r}: every: {error}") from error
    elif payload.is_number(value):
        seconds = value
    if seconds != int(seconds) or not 0 < seconds <= MAX_PERIOD_S:
        wanted = "is no whole number of seconds above 0; write 30, timedelta(minutes=5) or a text such as 30s, 5m, 2h, 1d"
        raise _refused(name, "every", value, wanted)
    return rate_text(int(seconds))


def _at(name: str, value: object, zone: str) -> tuple[str, str]:
    moment = read_moment(value)
    if moment is None or (moment.tzinfo is None and not isinstance(value, str)):
        wanted = "is no aware datetime and no ISO 8601 time; write one such as 2027-01-31T09:00:00"
        raise _refused(name, "at", value, wanted)
    if moment.tzinfo is not None:  # an instant, which in another zone could come twice
        moment, zone = moment.astimezone(UTC), "UTC"
    return f"at({moment:%Y-%m-%dT%H:%M:%S})", zone


def _refused(name: str, option: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"schedule {name!r}: {option}: {shorten(value)} {wanted}")
