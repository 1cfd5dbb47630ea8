"""What commands declare of their arguments: types, options that several have, examples; and what a user gives wrongly.

What a type raises, argparse shows with the usage. It is loaded with each command, a worker's too: so it imports
nothing else.
"""

import argparse
import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from kiqbridge.errors import ConfigError, PayloadError

_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)
_HEADING: Final = "example:"


class HelpFormatter(argparse.HelpFormatter):
    """As the original, which would join the lines of an example."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_HEADING):
            return "\n".join(f"{indent}{line}" for line in text.splitlines())
        return super()._fill_text(text, width, indent)


def add_example(parser: argparse.ArgumentParser, *commands: str) -> None:
    """Command lines that work, for the end of a help text."""
    parser.epilog = "\n  ".join((_HEADING, *commands))


def add_option(
    parser: argparse._ActionsContainer, name: str, metavar: str, text: str, **more: Any
) -> None:
    """An argument with a value: `--name METAVAR`, or in a place without dashes.

    Args:
        parser: gets it.
        name: the option, or the attribute of one in a place.
        metavar: what stands for the value in help texts.
        text: its help.
        more: as for `add_argument`.
    """
    parser.add_argument(name, metavar=metavar, help=text, **more)


def add_list(
    parser: argparse._ActionsContainer, name: str, metavar: str, text: str, **more: Any
) -> None:
    """As `add_option`, for one that may be repeated; its value is a list."""
    parser.add_argument(name, metavar=metavar, help=text, action="append", default=[], **more)


def add_switch(parser: argparse._ActionsContainer, name: str, text: str, **more: Any) -> None:
    """An option without a value, False unless it is given."""
    parser.add_argument(name, action="store_true", help=text, **more)


def add_json(parser: argparse._ActionsContainer) -> None:
    """The option `--json`."""
    add_switch(parser, "--json", "answer as JSON")


def add_changing(parser: argparse._ActionsContainer, *, asks: bool = False) -> None:
    """What every command has that changes something; `asks`: it asks before, unless `--yes` is given."""
    add_switch(parser, "--dry-run", "only print, change nothing")
    add_json(parser)
    if asks:
        parser.add_argument("-y", "--yes", action="store_true", help="do not ask; for scripts")


def add_pause(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Why something is paused, by whom and for how long; returns the group of what ends it."""
    add_option(parser, "--reason", "TEXT", "why; shown by list", default="")
    add_option(parser, "--by", "WHO", "who paused it (default: you, on this machine)")
    end = parser.add_mutually_exclusive_group()
    text = "ends by itself after 90, 90s, 15m, 2h or 1d"
    add_option(end, "--for", "DURATION", text, dest="for_s", type=duration)
    return end


@contextlib.contextmanager
def user_input() -> Iterator[None]:
    """Within it a ConfigError is about the user's input (exit code 2), not about the settings (1).

    Raises:
        PayloadError: in its place, with its text.
    """
    try:
        yield
    except ConfigError as error:
        raise PayloadError(str(error)) from error


def duration(text: str) -> float:
    """Seconds out of `90`, `90s`, `15m`, `2h` or `1d`.

    Raises:
        ArgumentTypeError: it is none of these, or 0.
    """
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90, 90s, 15m, 2h or 1d")
    return seconds


def within(least: int, most: int | None = None, suffix: str = "") -> Callable[[str], int]:
    """The type of a whole number within bounds; `suffix`: a letter that may stand behind it, such as `d`.

    Raises:
        ArgumentTypeError: what it is called with is none, or beyond the bounds.
    """

    def parse(text: str) -> int:
        digits = text.removesuffix(suffix)
        is_number = digits.isascii() and digits.isdigit() and int(digits) >= least
        if not is_number or (most is not None and int(digits) > most):
            to = "" if most is None else f" to {most:,}"
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least}{to}")
        return int(digits)

    return parse


count: Final = within(1)
"""The type of a whole number above 0."""
