"""Attribute values of DynamoDB (`{"N": "5"}`) as plain values of JSON, none of which loses a digit.

    S text   BOOL boolean   NULL null   L list   M object   SS, NS list   B, BS text in Base64
    N  an integer of any size; a fraction as a number if that is exact, else as its text

boto3 makes Decimal of numbers, bytes of B and set of SS, which have no JSON text.
"""

import math
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from kiqbridge.aws.sources.reading import decoded
from kiqbridge.errors import EventError
from kiqbridge.runtime.redaction import shorten_argument

_DEEPEST: Final = 32
"""DynamoDB nests no deeper."""
_LARGEST_EXPONENT: Final = 130
"""DynamoDB's largest number is below 10^126; a forged exponent must not fill the memory with digits."""


def plain(value: object, where: str, depth: int = 0) -> Any:
    """The plain value of an attribute value.

    Raises:
        EventError: it is none.
    """
    if not isinstance(value, Mapping) or len(value) != 1:
        raise EventError(
            f'{where}: {shorten_argument(value)} is not an attribute value such as {{"S": "text"}}'
        )
    [(kind, content)] = value.items()
    if kind in ("L", "M") and depth >= _DEEPEST:
        raise EventError(f"{where}: nested deeper than the {_DEEPEST} levels of DynamoDB")
    if kind == "L" and isinstance(content, list):
        return [plain(each, f"{where}[{index}]", depth + 1) for index, each in enumerate(content)]
    if kind == "M" and isinstance(content, Mapping):
        return {key: plain(each, f"{where}.{key}", depth + 1) for key, each in content.items()}
    reader = _SCALARS.get(kind)
    if reader is not None:
        return reader(content, where)
    if kind in ("SS", "NS", "BS") and isinstance(content, list):
        return [_SCALARS[kind[0]](each, f"{where}[{index}]") for index, each in enumerate(content)]
    raise EventError(f"{where}: {shorten_argument(value)} is of no type of DynamoDB")


def _text(content: object, where: str) -> str:
    if not isinstance(content, str):
        raise EventError(f"{where}: {shorten_argument(content)} is not a text")
    return content


def _number(content: object, where: str) -> int | float | str:
    text = _text(content, where)
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise EventError(f"{where}: {shorten_argument(text)} is not a number") from error
    if not number.is_finite() or abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise EventError(f"{where}: {shorten_argument(text)} is beyond the numbers of DynamoDB")
    if number == number.to_integral_value():
        return int(number)
    nearest = float(number)
    exact = math.isfinite(nearest) and Decimal(repr(nearest)) == number
    return nearest if exact else text


def _base64(content: object, where: str) -> str:
    text = _text(content, where)
    decoded(text, where)
    return text


def _boolean(content: object, where: str) -> bool:
    if not isinstance(content, bool):
        raise EventError(f"{where}: {shorten_argument(content)} is neither true nor false")
    return content


_SCALARS: Final[Mapping[object, Callable[[object, str], Any]]] = {
    "S": _text,
    "N": _number,
    "B": _base64,
    "BOOL": _boolean,
    "NULL": lambda _content, _where: None,
}
