"""Values in the arguments of Rails' Active Job: what has no type of Python's, and reading all of them.

`active_job.serialize` writes them. There are two ways to read: `deserialize_arguments` for the arguments of
a job that runs here, which refuses what it does not know, and `deserialize`, which leaves it as it is.
"""

import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, cast
from urllib.parse import unquote

from kiqbridge.errors import PayloadError
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten

GLOBAL_ID: Final = "_aj_globalid"
SERIALIZED: Final = "_aj_serialized"
SYMBOL_KEYS: Final = "_aj_symbol_keys"
KEYWORDS: Final = "_aj_ruby2_keywords"
INDIFFERENT: Final = "_aj_hash_with_indifferent_access"
RESERVED: Final = frozenset({GLOBAL_ID, SERIALIZED, SYMBOL_KEYS, KEYWORDS, INDIFFERENT})
"""Keys that Active Job keeps for itself."""

_OF_RAILS: Final = "ActiveJob::Serializers::"


class Symbol(str):
    """A Ruby symbol: as an argument, inside one, or as a key of a dict. It equals its text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Symbol({str.__repr__(self)})"


class GlobalID(str):
    """The address of a record in Rails, such as `gid://shop/Order/7`; it equals its text.

    Only Rails can load the record: Python gets its class and id.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"GlobalID({str.__repr__(self)})"

    @property
    def app(self) -> str:
        """The Rails application."""
        return self._part(0)

    @property
    def model_name(self) -> str:
        """The record's class, such as `Billing::Invoice`."""
        return self._part(1)

    @property
    def model_id(self) -> str:
        """The record's id as a text; of several columns, parted by `/`."""
        return unquote(self._part(2))

    def _part(self, index: int) -> str:
        parts = self.removeprefix("gid://").partition("?")[0].split("/", 2)
        return parts[index] if index < len(parts) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A Ruby range whose ends are not whole numbers; an end of None is open."""

    begin: Any
    end: Any
    exclude_end: bool


def deserialize(value: Any) -> Any:
    """A value as Active Job wrote it, the counterpart of `active_job.serialize`.

    A Symbol, Date, Time, DateTime, TimeWithZone, Duration or BigDecimal becomes Python's; a hash loses the
    notes about its keys, and its symbol keys are `Symbol`. A record (`{"_aj_globalid": …}`) and whatever
    else has no counterpart here stay as they are.
    """
    if isinstance(value, list):
        return [deserialize(each) for each in value]
    if not isinstance(value, dict) or GLOBAL_ID in value:
        return value
    if SERIALIZED in value:
        read = _READERS.get(_serializer(value))
        try:
            return value if read is None else read(value)
        except (TypeError, ValueError, ArithmeticError):  # of a Rails that writes it in another way
            return value
    return {key: deserialize(child) for key, child in _members(value)}


def as_json(value: Any) -> Any:
    """A deserialized value in the form of JSON that Sidekiq's own arguments have; the same object if it has it.

    A range stays as it is: JSON has none.
    """
    if isinstance(value, list):
        items = [as_json(each) for each in value]
        return value if all(map(operator.is_, items, value)) else items
    if isinstance(value, dict):
        pairs = {as_json(key): as_json(each) for key, each in value.items()}
        same = all(map(operator.is_, pairs, value)) and all(
            map(operator.is_, pairs.values(), value.values())
        )
        return value if same else pairs
    write = _JSON.get(type(value))
    return value if write is None else write(value)


def deserialize_arguments(arguments: object) -> list[Any]:
    """The arguments of an Active Job for the Python function that performs it.

    As `deserialize`; a record becomes a `GlobalID`, a range of whole numbers a range, any other range a
    `Range`, a Ruby class its name.

    Raises:
        PayloadError: names the place of what cannot be read: a serializer of the application's own, or a
            value in another form than Rails writes.
    """
    if not isinstance(arguments, list):
        raise PayloadError(
            f"arguments: {shorten(arguments)} is not a list, as Active Job writes it"
        )
    return [_argument(value, f"arguments[{index}]") for index, value in enumerate(arguments)]


def _argument(value: Any, path: str) -> Any:
    if isinstance(value, list):
        return [_argument(each, f"{path}[{index}]") for index, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if GLOBAL_ID in value:
        text = value[GLOBAL_ID]
        if not isinstance(text, str):
            raise PayloadError(f"{path}: {shorten(value)} is no GlobalID, as Active Job writes it")
        return GlobalID(text)
    if SERIALIZED in value:
        return _object(value, path)
    return {key: _argument(child, f"{path}.{key}") for key, child in _members(value)}


def _object(value: Mapping[str, Any], path: str) -> Any:
    name = _serializer(value)
    if name == "Range":
        begin = _argument(value.get("begin"), f"{path}.begin")
        end = _argument(value.get("end"), f"{path}.end")
        exclude_end = bool(value.get("exclude_end"))
        if type(begin) is type(end) is int:
            return range(begin, end if exclude_end else end + 1)
        return Range(begin=begin, end=end, exclude_end=exclude_end)
    read = _READERS.get(name, _text_of if name == "Module" else None)
    if read is None:
        raise PayloadError(
            f"{path}: {shorten(value[SERIALIZED])} is a serializer that is not known here; let Rails enqueue "
            "what JSON has, or what Active Job serializes by itself (docs/reference/job_options.md)"
        )
    try:
        return read(value)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise PayloadError(
            f"{path}: {shorten(value)} is not in the form in which {name}Serializer of Active Job 5.2 to 8 "
            f"writes it ({error})"
        ) from error


def _serializer(value: Mapping[str, Any]) -> str:
    """The name of Rails' serializer without what all have in common; "" if it is none of Rails'."""
    name = value[SERIALIZED]
    if not isinstance(name, str) or not name.startswith(_OF_RAILS):
        return ""
    return name.removeprefix(_OF_RAILS).removesuffix("Serializer")


def _members(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The members of a hash without Active Job's notes about its keys, which say what is a symbol."""
    noted = value.get(SYMBOL_KEYS) or value.get(KEYWORDS) or ()
    symbols = {key for key in noted if isinstance(key, str)} if isinstance(noted, list) else set()
    return [
        (Symbol(key) if key in symbols else key, child)
        for key, child in value.items()
        if key not in RESERVED
    ]


def _text_of(value: Mapping[str, Any]) -> str:
    text = value.get("value")
    if not isinstance(text, str):
        raise TypeError(f"value: {shorten(text)} is not a text")
    return text


def _number(value: Mapping[str, Any]) -> int | float:
    number = value.get("value")
    if type(number) not in (int, float):
        raise TypeError(f"value: {shorten(number)} is not a number")
    return cast("float", number)


def _moment(value: Mapping[str, Any]) -> datetime:
    """With the zone that Rails 7.1 and later name, else with the offset that the text has."""
    moment = datetime.fromisoformat(_text_of(value))
    zone = value.get("time_zone")
    if not isinstance(zone, str):
        return moment
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - most who only enqueue never need it

    try:
        return moment.astimezone(ZoneInfo(zone))
    except (KeyError, ValueError, OSError):  # a name of Rails' own, or no tzdata here
        return moment


def _whole(number: float) -> int | float:
    return int(number) if number.is_integer() else number


_JSON: Final[Mapping[type, Callable[[Any], Any]]] = {
    Symbol: str,
    GlobalID: str,
    date: date.isoformat,
    datetime: datetime.isoformat,
    timedelta: lambda value: _whole(value.total_seconds()),
    Decimal: str,
}

_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "Symbol": lambda value: Symbol(_text_of(value)),
    "Date": lambda value: date.fromisoformat(_text_of(value)),
    "Time": _moment,
    "DateTime": _moment,
    "TimeWithZone": _moment,
    "Duration": lambda value: timedelta(seconds=_number(value)),
    "BigDecimal": lambda value: Decimal(_text_of(value)),
}
"""Serializer → what reads what it wrote."""
