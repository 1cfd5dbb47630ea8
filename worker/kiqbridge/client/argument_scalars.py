"""Single values as arguments: those that are JSON already, those that have a text or number for it, and choices of these.

A form in JSON is one that Ruby can read without us: ISO 8601, the digits of a number, the canonical text of a
UUID. Texts that Ruby writes for the same values are read, too: `2026-01-01 00:00:00 +0100` and `… UTC` of
`Time#to_s`, `0.125e2` of `BigDecimal#to_s`.
"""

import base64
import enum
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import call
from typing import Any, Final

ANY: Final = "any"
"""What a contract says of a value of any type."""

_CHOICES: Final = 8
"""How many values of an enum a message names."""
_RUBY_ZONE = re.compile(r" (UTC|[+-]\d{2}:?\d{2})$")


class Mismatch(Exception):  # noqa: N818 - it never leaves the package
    """A value is not what an annotation says.

    Attributes:
        expected: what would be right, for a message.
        value: what was found there.
        path: where, within the argument: `[2].price`.
        names: of the keys and fields on the way, which may be those of a secret.
    """

    def __init__(self, expected: str, value: object) -> None:
        super().__init__(expected)
        self.expected = expected
        self.value = value
        self.path = ""
        self.names: list[str] = []

    def within(self, place: int | str) -> "Mismatch":
        """The same mismatch, seen from the value around it; `place` is an index, or the name of a key or field."""
        if isinstance(place, int):
            self.path = f"[{place}]{self.path}"
        else:
            self.path = f".{place}{self.path}"
            self.names.append(place)
        return self


@dataclass(slots=True, eq=False)
class Converter:
    """Both ways for one annotation.

    Attributes:
        expected: what fits, for messages.
        json: the type that it has in JSON, in the words of a contract (features/contract/document.py).
        kinds: classes of the values that `encode` takes.
        encode: a value of those classes → JSON; raises Mismatch.
        from_wire: JSON → a value, as the job gets it; raises Mismatch.
        exact: a value of exactly this class is the same in JSON.
        accept: for what is no instance of `kinds` when a job is enqueued; default: `from_wire` must take it, and it is
            written as it is.
    """

    expected: str
    json: str
    kinds: tuple[type, ...]
    encode: Callable[[Any], Any]
    from_wire: Callable[[Any], Any]
    exact: type | None = None
    accept: Callable[[Any], Any] | None = None

    def to_wire(self, value: Any) -> Any:
        """As it is written; raises Mismatch."""
        if isinstance(value, self.kinds):
            return self.encode(value)
        if self.accept is not None:
            return self.accept(value)
        self.from_wire(value)
        return value


def scalar_of(kind: type) -> Converter | None:
    """The converter for a class of single values, by its name, so that nothing is loaded for it."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name in _PLAIN:
        return _plain(kind, *_PLAIN[name])
    return _written(kind, *_WRITTEN[name]) if name in _WRITTEN else None


def either(types: Iterable[str]) -> str:
    """The type in JSON of what is of one of these."""
    found = list(dict.fromkeys(part for each in types for part in each.split("|")))
    return ANY if ANY in found or not found else "|".join(found)


def _json_of(values: Iterable[Any]) -> str:
    scalars = (scalar_of(type(each)) for each in values)
    return either(each.json if each else ANY for each in scalars)


def literal(values: tuple[Any, ...]) -> Converter:
    """The converter for one of these values, by `Literal`."""
    written = [each.value if isinstance(each, enum.Enum) else each for each in values]
    expected = f"one of {', '.join(map(repr, written))}"

    def found(value: Any, among: Any, given: Any) -> Any:
        for each, answer in zip(among, given, strict=True):
            if type(each) is type(value) and each == value:
                return answer
        raise Mismatch(expected, value)

    def encode(value: Any) -> Any:
        own = isinstance(value, enum.Enum)
        return found(value, values if own else written, written)

    return Converter(
        expected, _json_of(written), (object,), encode, lambda value: found(value, written, values)
    )


def enum_of(kind: Any) -> Converter:
    """The converter for the members of an enum, which are their values in JSON."""
    choices = [repr(each.value) for each in kind]
    shown = ", ".join(choices[:_CHOICES]) + (", …" if len(choices) > _CHOICES else "")
    expected = f"{kind.__name__}: {shown}"

    def decode(value: Any) -> Any:
        try:
            return kind(value)
        except Exception:  # noqa: BLE001 - `_missing_` is the user's
            raise Mismatch(expected, value) from None

    json = _json_of(each.value for each in kind)
    return Converter(expected, json, (kind,), lambda value: value.value, decode)


def _plain(kind: type, json: str, *accepted: type) -> Converter:
    """The kind of a class whose values are JSON itself; values of `others` are accepted too."""
    name, kinds = kind.__name__.removesuffix("Type"), (kind, *accepted)  # of None
    refused = (bool,) if kind is float else ()

    def same(value: Any) -> Any:
        if not isinstance(value, kinds) or isinstance(value, refused):
            raise Mismatch(name, value)
        return value

    return Converter(name, json, kinds, same, same, exact=kind)


def _written(
    kind: type,
    expected: str,
    json: str,
    encode: Callable[[Any], Any],
    parse: Callable[[Any, Any], Any],
    *others: type,
) -> Converter:
    """The kind of a class whose values have another form in JSON: a text, or a value of another class."""
    read = others or (str,)

    def tried(convert: Callable[..., Any], value: Any, *args: Any) -> Any:
        try:
            return convert(*args, value)
        except (ValueError, ArithmeticError):
            raise Mismatch(expected, value) from None

    def decode(value: Any) -> Any:
        if not isinstance(value, read) or isinstance(value, bool):
            raise Mismatch(expected, value)
        return tried(parse, value, kind)

    return Converter(expected, json, (kind,), lambda value: tried(encode, value), decode)


def _isoformat_with_zone(value: Any) -> Any:
    if value.utcoffset() is None:
        raise ValueError("no time zone")
    return value.isoformat()


def _isoformat_of_date(value: Any) -> Any:
    if hasattr(value, "utcoffset"):
        raise ValueError("a datetime, whose time would be lost")
    return value.isoformat()


def _parse_datetime(kind: Any, text: str) -> Any:
    # Ruby's Time#to_s has a blank before the zone, and UTC for +00:00.
    found = kind.fromisoformat(
        _RUBY_ZONE.sub(lambda zone: "+00:00" if zone[1] == "UTC" else zone[1], text)
    )
    if found.tzinfo is None:
        raise ValueError("no time zone")
    return found


def _seconds_of(value: Any) -> float:
    seconds: float = value.total_seconds()
    return int(seconds) if seconds == int(seconds) else seconds


_PLAIN: Final[dict[str, tuple[Any, ...]]] = {
    "builtins.str": ("string",),
    "builtins.bool": ("boolean",),
    "builtins.int": ("integer",),
    "builtins.float": ("number", int),
    "builtins.NoneType": ("null",),
    "builtins.range": ("any",),
    "kiqbridge.features.active_job.values.Range": ("any",),
}
_WRITTEN: Final[dict[str, tuple[Any, ...]]] = {
    "builtins.bytes": (
        *("bytes, or their base64 text", "string:base64"),
        lambda value: base64.b64encode(value).decode(),
        lambda kind, text: kind(base64.b64decode(text, validate=True)),
    ),
    "uuid.UUID": ("UUID, or its text", "string:uuid", str, call),
    "decimal.Decimal": (
        *("Decimal, or its digits as text", "string:decimal", str),
        lambda kind, value: kind(repr(value) if isinstance(value, float) else value),
        *(str, int, float),
    ),
    "datetime.datetime": (
        "datetime with time zone, or its ISO 8601 text such as 2026-01-01T08:30:00+00:00",
        *("string:date-time", _isoformat_with_zone, _parse_datetime),
    ),
    "datetime.date": (
        *("date, or its text such as 2026-01-01", "string:date"),
        *(_isoformat_of_date, lambda kind, text: kind.fromisoformat(text)),
    ),
    "datetime.time": (
        *("time, or its text such as 08:30:00", "string:time"),
        *(lambda value: value.isoformat(), lambda kind, text: kind.fromisoformat(text)),
    ),
    "datetime.timedelta": (
        *("timedelta, or a number of seconds", "number", _seconds_of),
        *(lambda kind, seconds: kind(seconds=seconds), int, float),
    ),
    "kiqbridge.features.active_job.values.Symbol": ("Symbol, or its text", "any", str, call),
    "kiqbridge.features.active_job.values.GlobalID": ("GlobalID, or its text", "any", str, call),
}
