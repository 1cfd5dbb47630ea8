"""Writing them: the wrapper and its serialized arguments (protocol §17).

`{"active_job": "NightlyJob", "args": […]}` becomes what Rails' own adapter pushes: a wrapper class
with one argument, the serialized job. Two forms are written: profile 7 writes the wrapper's old
name, which every Sidekiq knows, and the fields of Rails 6.1, which every later Rails reads; profile 8
writes those of Sidekiq 8 with Rails 7.2.

Arguments may be more than JSON's types, as in Rails; see `serialize`. What is serialized already,
such as `{"_aj_globalid": "gid://app/User/1"}`, stays as it is.
"""

import math
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from kiqbridge.errors import PayloadError
from kiqbridge.features.active_job.values import (
    GLOBAL_ID,
    INDIFFERENT,
    KEYWORDS,
    RESERVED,
    SERIALIZED,
    SYMBOL_KEYS,
    GlobalID,
    Range,
    Symbol,
)
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten, shorten_argument
from kiqbridge.wire import payload
from kiqbridge.wire.active_job import KEY, NEW_WRAPPER, OLD_WRAPPER

_OWN_KEYS: Final = (KEY, "args", "kwargs", "job_id", "priority", "locale", "timezone")
_KINDS: Final[Mapping[type, str]] = {str: "a text", int: "a whole number"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveJob:
    """What an item asks for; `rest` are the attributes of the outer job, such as jid or retry."""

    name: str
    arguments: list[Any]
    queue: str
    job_id: str
    priority: int | None
    locale: str | None
    timezone: str | None
    rest: Mapping[str, Any]

    def wrap(self, now: float, profile: payload.Profile, *, bulk: bool = False) -> dict[str, Any]:
        """The item to push, its keys in the order of the adapter that it follows.

        Args:
            now: epoch seconds, the `enqueued_at` inside.
            profile: which adapter it follows, see the module.
            bulk: Sidekiq 8's adapter has another order for many jobs.
        """
        inner: dict[str, Any] = {
            "job_class": self.name,
            "job_id": self.job_id,
            "provider_job_id": None,
            "queue_name": self.queue,
            "priority": self.priority,
            "arguments": self.arguments,
            "executions": 0,
            "exception_executions": {},
            "locale": self.locale,
            "timezone": self.timezone,
        }
        if profile == "7":
            inner["enqueued_at"] = f"{datetime.fromtimestamp(int(now), UTC):%Y-%m-%dT%H:%M:%SZ}"
            return {"class": OLD_WRAPPER, "wrapped": self.name, "args": [inner], **self.rest}
        at = self.rest.get("at")
        inner["enqueued_at"] = _instant(now)
        inner["scheduled_at"] = None if at is None else _instant(at)
        wrapped = {"wrapped": self.name, "args": [inner]}
        if bulk:
            return {"class": NEW_WRAPPER, **wrapped, **self.rest}
        return {**wrapped, "class": NEW_WRAPPER, **self.rest}


def parse(item: Mapping[str, Any]) -> ActiveJob:
    """Read an item with the key `active_job`.

    Besides `args` and the attributes of any job it may hold `kwargs` (keyword arguments of Ruby's
    `perform`), `priority`, `locale` (default `en`), `timezone` (default none) and `job_id`.

    Raises:
        PayloadError: names the field and shows the value.
    """
    for key in ("class", "wrapped"):
        if key in item:
            raise PayloadError(
                f"{key}: {shorten(item[key])} cannot be given together with active_job, which "
                "chooses the wrapper class itself; leave one of them out"
            )
    name = item[KEY]
    if not isinstance(name, str) or not name:
        raise PayloadError(f"active_job: {shorten(name)} is not the name of an Active Job class")
    args = item.get("args")
    if not isinstance(args, list):
        raise PayloadError(
            f"args: {shorten_argument(args)} is not a list; write the arguments as a list"
        )
    queue = item.get("queue", payload.DEFAULT_OPTIONS["queue"])
    payload.check_queue(queue)
    job_id = item.get("job_id") or str(uuid.uuid4())
    for key, value, kind in (
        ("job_id", job_id, str),
        ("priority", item.get("priority"), int),
        ("locale", item.get("locale"), str),
        ("timezone", item.get("timezone"), str),
    ):
        if value is not None and type(value) is not kind:
            raise PayloadError(f"{key}: {shorten(value)} is not {_KINDS[kind]}, as Active Job's is")
    return ActiveJob(
        name=name,
        arguments=serialize(args) + _keywords(item),
        queue=queue,
        job_id=job_id,
        priority=item.get("priority"),
        locale=item.get("locale", "en"),
        timezone=item.get("timezone"),
        rest={key: value for key, value in item.items() if key not in _OWN_KEYS},
    )


def serialize(arguments: list[Any]) -> list[Any]:
    """Arguments as Active Job writes them.

    None, bool, int, float, str and list stay; a dict gets Active Job's note of its `Symbol` keys.
    `Symbol`, date, timedelta and aware datetime become what Rails' serializers make of a Symbol, a
    Date, a Duration, and a TimeWithZone (datetime in UTC or a ZoneInfo) or Time (fixed offset);
    Decimal, range (step 1) and `Range` become BigDecimal and Range, which Rails reads from 7.1 on. A
    `GlobalID` becomes the record.

    Raises:
        PayloadError: names the path of a value that has no such form.
    """
    return [_serialize(value, f"args[{index}]", 2) for index, value in enumerate(arguments)]


def _keywords(item: Mapping[str, Any]) -> list[Any]:
    keywords = item.get("kwargs")
    if keywords is None:
        return []
    if not isinstance(keywords, Mapping) or not all(type(key) is str for key in keywords):
        raise PayloadError(f"kwargs: {shorten_argument(keywords)} is not an object with text keys")
    _refuse_reserved(keywords, "kwargs")
    values = {key: _serialize(value, f"kwargs.{key}", 3) for key, value in keywords.items()}
    return [{**values, KEYWORDS: list(values)}] if values else []


def _serialize(value: Any, field: str, depth: int) -> Any:
    kind = type(value)
    if kind in (str, int, float, bool) or value is None:
        payload.check_json(value, field)
        return value
    if depth > payload.MAX_DEPTH:
        raise PayloadError(
            f"{field}: nested deeper than {payload.MAX_DEPTH} levels, which Ruby refuses to read"
        )
    if kind is list:
        return [
            _serialize(each, f"{field}[{index}]", depth + 1) for index, each in enumerate(value)
        ]
    if kind is dict:
        return _hash(value, field, depth)
    if kind is GlobalID:
        payload.check_json(str(value), field)
        return {GLOBAL_ID: str(value)}
    found = _range(value, field, depth) if kind is Range else _object(value, field)
    if found is None:
        raise PayloadError(
            f"{field}: {shorten_argument(value)} of type {kind.__qualname__} has no form that Active Job "
            "reads; send None, bool, int, float, str, list, dict, Symbol, date, aware datetime, "
            "timedelta, Decimal, range, or a record as {'_aj_globalid': 'gid://…'}"
        )
    name, attributes = found
    return {SERIALIZED: f"ActiveJob::Serializers::{name}Serializer", **attributes}


def _hash(value: dict[Any, Any], field: str, depth: int) -> dict[str, Any]:
    if GLOBAL_ID in value or SERIALIZED in value:
        payload.check_json(value, field, depth)
        return value
    markers = [key for key in value if key in (SYMBOL_KEYS, KEYWORDS, INDIFFERENT)]
    for key in value:
        if type(key) not in (str, Symbol):
            raise PayloadError(
                f"{field}: key {shorten_argument(key)} is not a text; Active Job refuses it"
            )
        payload.check_json(str(key), field)
    result = {
        str(key): _serialize(child, f"{field}.{key}", depth + 1)
        for key, child in value.items()
        if key not in markers
    }
    for key in markers:  # the caller has noted the keys himself, for instance in JSON
        payload.check_json(value[key], f"{field}.{key}", depth + 1)
        result[key] = value[key]
    if not markers:
        result[SYMBOL_KEYS] = [str(key) for key in value if isinstance(key, Symbol)]
    return result


def _refuse_reserved(keys: Mapping[str, Any], field: str) -> None:
    taken = sorted(RESERVED.intersection(keys))
    if taken:
        raise PayloadError(f"{field}: {taken[0]!r} is a key that Active Job keeps for itself")


def _object(  # noqa: PLR0911 - one row for each serializer
    value: Any, field: str
) -> tuple[str, dict[str, Any]] | None:
    """Rails' serializer and what it writes beside its name."""
    if isinstance(value, Symbol):
        payload.check_json(str(value), field)
        return "Symbol", {"value": str(value)}
    if isinstance(value, datetime):
        return _time(value, field)
    if isinstance(value, date):
        return "Date", {"value": value.isoformat()}
    if isinstance(value, timedelta):
        return "Duration", _duration(value)
    if isinstance(value, Decimal):
        return "BigDecimal", {"value": _decimal(value, field)}
    if isinstance(value, range) and value.step == 1:
        return "Range", {"begin": value.start, "end": value.stop, "exclude_end": True}
    return None


def _range(value: Range, field: str, depth: int) -> tuple[str, dict[str, Any]]:
    ends = {
        name: _serialize(end, f"{field}.{name}", depth + 1)
        for name, end in (("begin", value.begin), ("end", value.end))
    }
    return "Range", {**ends, "exclude_end": value.exclude_end}


def _duration(value: timedelta) -> dict[str, Any]:
    seconds = value.total_seconds()
    exact: int | float = int(seconds) if seconds.is_integer() else seconds
    return {"value": exact, "parts": [[_serialize(Symbol("seconds"), "parts", 0), exact]]}


def _time(value: datetime, field: str) -> tuple[str, dict[str, Any]]:
    offset = value.utcoffset()
    if offset is None:
        raise PayloadError(
            f"{field}: {value!r} has no time zone; use datetime.now(UTC) or the like"
        )
    whole = value.replace(tzinfo=None, microsecond=0).isoformat()
    text = f"{whole}.{value.microsecond * 1000:09d}"
    zone = "Etc/UTC" if value.tzinfo is UTC else getattr(value.tzinfo, "key", None)  # a ZoneInfo's
    if zone is None:
        return "Time", {"value": text + _offset(offset)}
    shown = "Z" if zone in ("Etc/UTC", "UTC") else _offset(offset)
    return "TimeWithZone", {"value": text + shown, "time_zone": zone}


def _offset(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    hours, minutes_over = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{minutes_over:02d}"


def _decimal(value: Decimal, field: str) -> str:
    """As Ruby's BigDecimal writes it: `0.125e1`."""
    if not value.is_finite():
        raise PayloadError(f"{field}: {value} is no finite number; send None or a text instead")
    sign, digits, exponent = value.as_tuple()
    shown = "".join(map(str, digits)).rstrip("0")
    minus = "-" if sign else ""
    if not shown:
        return f"{minus}0.0"
    return f"{minus}0.{shown}e{int(exponent) + len(digits)}"


def _instant(moment: float) -> str:
    """Epoch seconds as Rails 7.1+ writes a time: UTC with nanoseconds."""
    payload.epoch_seconds(moment)
    try:
        whole = math.floor(moment)
        nanoseconds = int((moment - whole) * 1_000_000_000)
        return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"
    except (ValueError, OverflowError, OSError) as error:
        raise PayloadError(
            f"at: {shorten(moment)} lies beyond the year 9999, which Active Job cannot write"
        ) from error
