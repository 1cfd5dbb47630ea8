"""JSON text as Sidekiq reads and writes it (protocol §4), exact for integers of any size.

orjson is fast but reads 18446744073709551616 as a float and refuses 1e400, both of which Ruby
reads; so a text that may hold such a number goes through the standard library, both ways.
"""

import json
import math
import os
import re
from typing import Any, NoReturn

import orjson

_OUT_OF_RANGE = re.compile(rb"\d[eE]\+?\d{3,}\s*[,\]}]")
"""A number that may be out of a double's range: in an object or list, and not within an id."""

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19
"""No integer with fewer digits is beyond 64 bits. A search in a translated text takes a fifth of the
time that a regular expression takes, and this is done for every job."""

_MAX_DEPTH = 100
"""Ruby's parser refuses deeper nesting (§4)."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_REFUSE_FOREIGN_TYPES = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)


class MalformedJSON(ValueError):  # noqa: N818 - names the text, as MalformedJSON reads in a log
    """The bytes are not a JSON text that Sidekiq would read."""


def loads(text: bytes) -> Any:
    """Parse a JSON text; integers stay exact.

    Raises:
        MalformedJSON: not UTF-8, not JSON, NaN/Infinity literals, lone surrogates, too deep.
    """
    if _LONG_NUMBER in text.translate(_DIGITS):
        value = _loads_with_care(text)
    else:
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:  # also for 1e400
            value = _loads_with_care(text)
    may_be_deep = len(text) > 2 * _MAX_DEPTH and text.count(b"[") + text.count(b"{") > _MAX_DEPTH
    if may_be_deep and _is_too_deep(value):
        raise MalformedJSON(f"nested deeper than {_MAX_DEPTH} levels")
    return value


def read_object(text: bytes | None) -> dict[str, Any]:
    """The object that a JSON text is; empty for none, and for what is no object or cannot be read."""
    try:
        value = loads(text) if text else None
    except MalformedJSON:
        return {}
    return value if isinstance(value, dict) else {}


def dumps(value: Any) -> bytes:
    """Compact UTF-8 text of a value whose types were checked before (see `payload`).

    Raises:
        TypeError, ValueError: the value holds something that JSON has no text for.
    """
    try:
        return orjson.dumps(value, option=_REFUSE_FOREIGN_TYPES)
    except TypeError:
        return _dumps_with_care(value)


def dumps_moved(value: Any, original: bytes) -> bytes:
    """Text of a payload that was read from `original` and changed: every value survives.

    A number out of a double's range, such as 1e400, is legal JSON and reads as infinity here and
    in Ruby; it is written as 1e400 again, since orjson would turn it into null.
    """
    if _OUT_OF_RANGE.search(original) or _LONG_NUMBER in original.translate(_DIGITS):
        return _dumps_with_care(value)
    return dumps(value)


def _loads_with_care(text: bytes) -> Any:
    try:
        decoded = text.decode("utf-8")
        value = json.loads(decoded, parse_constant=_refuse_constant)
        if _SURROGATE.search(decoded):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise MalformedJSON("nested too deeply") from error
    except ValueError as error:
        raise MalformedJSON(str(error)) from error
    return value


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
        containers = [item for item in level if isinstance(item, list | dict)]
        if not containers:
            return False
        level = [
            child
            for container in containers
            for child in (container.values() if isinstance(container, dict) else container)
        ]
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedJSON(f"{name} is no JSON number")


def _dumps_with_care(value: Any) -> bytes:
    infinite = f"infinite-{os.urandom(16).hex()}"
    text = json.dumps(
        _name_infinities(value, infinite),
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    )
    return (
        text.replace(f'"+{infinite}"', "1e400").replace(f'"-{infinite}"', "-1e400").encode("utf-8")
    )


def _name_infinities(value: Any, name: str) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return f"{'+' if value > 0 else '-'}{name}"
    if isinstance(value, list):
        return [_name_infinities(item, name) for item in value]
    if isinstance(value, dict):
        return {key: _name_infinities(item, name) for key, item in value.items()}
    return value
