"""Single values as arguments: plain ones that are JSON already, and those that have a text or number for it.

A form in JSON is one that Ruby can read without us: ISO 8601, the digits of a number, the canonical text of a
UUID. Texts that Ruby writes for the same values are read, too: `2026-01-01 00:00:00 +0100` and `… UTC` of
`Time#to_s`, `0.125e2` of `BigDecimal#to_s`.
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final

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
        """The same, seen from around: the place is an index, or the name of a key or field."""
        if isinstance(place, int):
            self.path = f"[{place}]{self.path}"
        else:
            self.path = f".{place}{self.path}"
            self.names.append(place)
        return self


class Converter:
    """Both ways for one annotation.

    Args:
        expected: what fits, for messages.
        kinds: classes of the values that `encode` takes.
        encode: a value of those classes → JSON; raises Mismatch.
        decode: JSON → a value; raises Mismatch.
        exact: a value of exactly this class is the same in JSON.
        accept: for what is no instance of `kinds` when a job is enqueued; default: it must be decodable, and is
            written as it is.
    """

    __slots__ = ("_accept", "decode", "encode", "exact", "expected", "kinds")

    def __init__(
        self,
        expected: str,
        kinds: tuple[type, ...],
        encode: Callable[[Any], Any],
        decode: Callable[[Any], Any],
        *,
        exact: type | None = None,
        accept: Callable[[Any], Any] | None = None,
    ) -> None:
        self.expected = expected
        self.kinds = kinds
        self.encode = encode
        self.decode = decode
        self.exact = exact
        self._accept = accept

    def to_wire(self, value: Any) -> Any:
        """As it is written; raises Mismatch."""
        if isinstance(value, self.kinds):
            return self.encode(value)
        if self._accept is not None:
            return self._accept(value)
        self.decode(value)
        return value

    def from_wire(self, value: Any) -> Any:
        """As the job gets it; raises Mismatch."""
        return self.decode(value)


def scalar_of(kind: type) -> Converter | None:
    """The converter for a class of single values, by its name, so that nothing is loaded for it."""
    make = _SCALARS.get(f"{kind.__module__}.{kind.__qualname__}")
    return make(kind) if make is not None else None


def _plain(*accepted: type) -> Callable[[type], Converter]:
    """A kind of value that is JSON itself; values of the other classes are taken for it."""

    def make(kind: type) -> Converter:
        name = kind.__name__.removesuffix("Type")  # of None
        kinds = (kind, *accepted)
        refused = (bool,) if kind is float else ()

        def same(value: Any) -> Any:
            if not isinstance(value, kinds) or isinstance(value, refused):
                raise Mismatch(name, value)
            return value

        return Converter(name, kinds, same, same, exact=kind)

    return make


def _textual(
    expected: str, encode: Callable[[Any], str], parse: Callable[[type, Any], Any], *numbers: type
) -> Callable[[type], Converter]:
    """A kind of value with a text for it; `numbers` are understood in its place."""

    def make(kind: type) -> Converter:
        def decode(value: Any) -> Any:
            if not isinstance(value, (str, *numbers)) or isinstance(value, bool):
                raise Mismatch(expected, value)
            try:
                return parse(kind, value)
            except (ValueError, ArithmeticError):
                raise Mismatch(expected, value) from None

        def checked(value: Any) -> str:
            try:
                return encode(value)
            except ValueError:
                raise Mismatch(expected, value) from None

        return Converter(expected, (kind,), checked, decode)

    return make


def _isoformat(value: Any) -> str:
    return str(value.isoformat())


def _isoformat_with_zone(value: Any) -> str:
    if value.utcoffset() is None:
        raise ValueError("no time zone")
    return _isoformat(value)


def _isoformat_of_date(value: Any) -> str:
    if hasattr(value, "utcoffset"):
        raise ValueError("a datetime, whose time would be lost")
    return _isoformat(value)


def _parse_text(kind: type, text: str) -> Any:
    return kind(text)


def _parse_datetime(kind: Any, text: str) -> Any:
    # Ruby's Time#to_s has a blank before the zone, and UTC for +00:00.
    found = kind.fromisoformat(
        _RUBY_ZONE.sub(lambda zone: "+00:00" if zone[1] == "UTC" else zone[1], text)
    )
    if found.tzinfo is None:
        raise ValueError("no time zone")
    return found


def _parse_iso(kind: Any, text: str) -> Any:
    return kind.fromisoformat(text)


def _parse_decimal(kind: Any, value: Any) -> Any:
    return kind(repr(value) if isinstance(value, float) else value)


def _timedelta(kind: Any) -> Converter:
    expected = "timedelta, or a number of seconds"

    def encode(value: Any) -> Any:
        seconds = value.total_seconds()
        return int(seconds) if seconds == int(seconds) else seconds

    def decode(value: Any) -> Any:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise Mismatch(expected, value)
        try:
            return kind(seconds=value)
        except (OverflowError, ValueError):
            raise Mismatch(expected, value) from None

    return Converter(expected, (kind,), encode, decode)


def _bytes(kind: Any) -> Converter:
    expected = "bytes, or their base64 text"

    def encode(value: Any) -> str:
        return base64.b64encode(value).decode()

    def decode(value: Any) -> Any:
        if not isinstance(value, str):
            raise Mismatch(expected, value)
        try:
            return kind(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError):
            raise Mismatch(expected, value) from None

    return Converter(expected, (kind,), encode, decode)


_SCALARS: Final[dict[str, Callable[[type], Converter]]] = {
    "builtins.str": _plain(),
    "builtins.bool": _plain(),
    "builtins.int": _plain(),
    "builtins.float": _plain(int),
    "builtins.NoneType": _plain(),
    "builtins.bytes": _bytes,
    "uuid.UUID": _textual("UUID, or its text", str, _parse_text),
    "decimal.Decimal": _textual("Decimal, or its digits as text", str, _parse_decimal, int, float),
    "datetime.datetime": _textual(
        "datetime with time zone, or its ISO 8601 text such as 2026-01-01T08:30:00+00:00",
        _isoformat_with_zone,
        _parse_datetime,
    ),
    "datetime.date": _textual(
        "date, or its text such as 2026-01-01", _isoformat_of_date, _parse_iso
    ),
    "datetime.time": _textual("time, or its text such as 08:30:00", _isoformat, _parse_iso),
    "datetime.timedelta": _timedelta,
    "kiqbridge.wire.active_job_values.Symbol": _textual("Symbol, or its text", str, _parse_text),
    "kiqbridge.wire.active_job_values.GlobalID": _textual(
        "GlobalID, or its text", str, _parse_text
    ),
    "kiqbridge.wire.active_job_values.Range": _plain(),
    "builtins.range": _plain(),
}
