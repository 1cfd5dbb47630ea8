"""Parsers of values: each gets a raw value, its source and the name of its setting, and raises ConfigError with them.

Those with arguments of their own build a parser.
"""

from collections.abc import Callable
from typing import Any

from kiqbridge import seams
from kiqbridge.errors import ConfigError
from kiqbridge.wire.payload import ProfileSetting, parse_profile

Parser = Callable[[Any, str, str], Any]


def of_feature(name: str, place: str) -> Parser:
    """That of a feature, `module:function` in its folder; without the feature the value stays, and is refused."""

    def parse(value: Any, source: str, setting: str) -> Any:
        owner = seams.named(name) if value else None
        return owner.load(place)(value, source, setting) if owner else value or None

    return parse


def whole_number(
    least: int, largest: int | None = None, *, hint: str = ""
) -> Callable[[Any, str, str], int]:
    """A whole number from `least` to `largest`; `hint` ends the message, in the imperative."""
    allowed = f"from {least}" if largest is None else f"from {least} to {largest:,}"

    def parse(value: Any, source: str, name: str) -> int:
        try:
            number = int(str(value))
        except ValueError:
            number = least - 1
        if isinstance(value, bool) or number < least or (largest is not None and number > largest):
            raise ConfigError(
                f"{name}: {value!r} is not a whole number {allowed} (from {source}){f'; {hint}' if hint else ''}"
            )
        return number

    return parse


def seconds(least: float = 0.0, *, zero_is_off: bool = False) -> Callable[[Any, str, str], float]:
    """A number of seconds above 0, or from `least`."""
    allowed = f"from {least:g}" if least else "above 0"

    def parse(value: Any, source: str, name: str) -> float:
        try:
            number = float(str(value))
        except ValueError:
            number = 0.0
        if zero_is_off and str(value) in ("0", "0.0"):
            return 0.0
        if isinstance(value, bool) or not (number > 0 and least <= number < float("inf")):
            off = "; 0 = off" if zero_is_off else ""
            raise ConfigError(
                f"{name}: {value!r} is not a number of seconds {allowed} (from {source}){off}"
            )
        return number

    return parse


def seconds_or_none(value: Any, source: str, name: str) -> float | None:
    """A number of seconds above 0; an empty text = None."""
    return None if value == "" else seconds()(value, source, name)


def text(value: Any, source: str, name: str) -> str:
    """A text; a number is taken as its text."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        # Not the value: it may hold a password.
        raise ConfigError(f"{name}: a {type(value).__name__} is not a text (from {source})")
    return str(value)


def texts(value: Any, source: str, name: str) -> tuple[str, ...]:
    """A list of texts, or one text."""
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(text(item, source, name) for item in items)


def words(value: Any, source: str, name: str) -> tuple[str, ...]:
    """A list of texts, or one text with commas between them."""
    if isinstance(value, str):
        value = value.split(",")
    return tuple(text.strip() for text in texts(value, source, name) if text.strip())


def switch(value: Any, source: str, name: str) -> bool:
    """True or false, in the usual words."""
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    chosen = known.get(str(value).lower())
    if chosen is None:
        raise ConfigError(f"{name}: {value!r} is neither true nor false (from {source})")
    return chosen


def choice(*allowed: str) -> Callable[[Any, str, str], str]:
    """One of some words, in whatever case."""

    def parse(value: Any, source: str, name: str) -> str:
        if str(value).lower() not in allowed:
            raise ConfigError(
                f"{name}: {value!r} is not one of {', '.join(allowed)} (from {source})"
            )
        return str(value).lower()

    return parse


def wire_profile(value: Any, source: str, _name: str) -> ProfileSetting:
    """`7`, `8` or `auto`."""
    return parse_profile(str(value), source=source)
