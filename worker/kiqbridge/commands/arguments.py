"""How commands declare their arguments: as they are typed. And what a user gives wrongly.

What a type raises, argparse shows with the usage. It is loaded with each command, a worker's too: so it imports
nothing else.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

from kiqbridge.errors import ConfigError, PayloadError

_DATE_LENGTH: Final = len("2026-03-28")
_HEADING: Final = "example:"
_COLUMNS: Final = 80

Verbs = argparse._SubParsersAction  # noqa: SLF001 - what add_subparsers returns has no public name


class HelpFormatter(argparse.HelpFormatter):
    """As the original, which would join the lines of an example, and loads `shutil` to know how wide they may be."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, **{"width": _columns() - 2, **more})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_HEADING):
            return "\n".join(f"{indent}{line}" for line in text.splitlines())
        return super()._fill_text(text, width, indent)


def _columns() -> int:
    with contextlib.suppress(KeyError, ValueError):
        if (named := int(os.environ["COLUMNS"])) > 0:
            return named
    with contextlib.suppress(AttributeError, ValueError, OSError):  # it is closed, or no terminal
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _COLUMNS  # type: ignore[union-attr]
    return _COLUMNS


def add_verbs(parser: argparse.ArgumentParser, default: str = "", **more: Any) -> "Verbs[Any]":
    """The verbs of a command; `default`: the one that is meant if none is given; more attributes of `Parser`."""
    for name, value in {"default_verb": default, **more}.items():
        setattr(parser, name, value)  # of Parser in cli.py, which imports this
    return parser.add_subparsers(required=True, metavar="VERB")


def add_verb(
    verbs: "Verbs[Any]", name: str, run: object, text: str, *examples: str, **more: Any
) -> argparse.ArgumentParser:
    """A verb.

    Args:
        verbs: gets it.
        name: its word.
        run: performs it; gets the options, and returns the exit code.
        text: its help.
        examples: command lines that work.
        more: defaults of its options; `description`, where neither the help nor the docstring of `run` says it.
    """
    description = more.pop("description", run.__doc__ or f"{text[0].upper()}{text[1:]}.")
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=description)
    parser.set_defaults(command=run, **more)
    add_example(parser, *examples)
    return parser


def add_example(parser: argparse.ArgumentParser, *commands: str) -> None:
    """Command lines that work, for the end of a help text."""
    parser.epilog = "\n  ".join((_HEADING, *commands))


def add(parser: argparse._ActionsContainer, words: str, text: str = "", **more: Any) -> None:
    """An argument, as a usage shows it.

    - `--json`: a switch. `--limit N`, `-r --require FILE`: an option with a value.
    - `--queue NAME...`: it may be repeated, and its value is a list. `--watch [SECONDS]`: the value may be left out.
    - `FILE`, `[FILE]`, `FILE...`, `[FILE...]`: in a place, without dashes: one, perhaps one, at least one, any number.

    The type of a value is that of its word in `TYPES`. The attribute is called as the option is, or the word; with
    an underscore behind it where Python has this keyword: `from_`.
    """
    flags = [word for word in words.split() if word.startswith("-")]
    value = "".join(word for word in words.split() if not word.startswith("-"))
    metavar = value.strip("[.]")
    name = (flags[-1] if flags else metavar).lstrip("-").replace("-", "_").lower()
    given: dict[str, Any] = {"dest": f"{name}_" if iskeyword(name) else name, "help": text}
    if metavar:
        given |= {"metavar": metavar, "type": TYPES.get(metavar)}
    elif "choices" not in more:
        given["action"] = "store_true"
    is_optional, is_list = value.startswith("["), "..." in value
    if is_list and flags:
        given |= {"action": "append", "default": []}
    elif is_list or is_optional:
        given["nargs"] = ("*" if is_optional else "+") if is_list else "?"
    parser.add_argument(*flags, **given | more)


def add_json(parser: argparse._ActionsContainer) -> None:
    """The option `--json`."""
    add(parser, "--json", "answer as JSON")


def add_changing(parser: argparse._ActionsContainer, *, asks: bool = False) -> None:
    """What every command has that changes something; `asks`: it asks before, unless `--yes` is given."""
    add(parser, "--dry-run", "only print, change nothing")
    add_json(parser)
    if asks:
        add(parser, "-y --yes", "do not ask; for scripts")


def add_require(parser: argparse._ActionsContainer, **more: Any) -> None:
    """Code that declares jobs."""
    text = "a module, .py file or folder that declares jobs, as for the worker; may be repeated"
    add(parser, "-r --require TARGET...", text, **more)


def add_listing(parser: argparse.ArgumentParser, limit: int, every: str) -> None:
    """What every command has that lists rows: at most how many, and how; `every`: what `--jsonl` is for."""
    add(parser, "--limit N", f"at most so many (default {limit}; --jsonl: all)")
    form = parser.add_mutually_exclusive_group()
    add(form, "--json", "one JSON document")
    add(form, "--jsonl", f"a JSON document a line, {every}")


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


def read_input(file: str | Path) -> str:
    """The text of a file that a user names; `-` is standard input.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return sys.stdin.read() if str(file) == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error


def duration(text: str) -> float:
    """Seconds out of `90`, `90s`, `15m`, `2h` or `1d`.

    Raises:
        ArgumentTypeError: it is none of these, or 0.
    """
    from kiqbridge.wire.amounts import span_of  # noqa: PLC0415 - as above

    seconds = span_of(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90, 90s, 15m, 2h or 1d")
    return seconds


def moment(text: str) -> datetime:
    """A time in UTC, of ISO 8601 with a zone; a date alone is its midnight in UTC.

    It is in the years in which schedules are due, so that what follows it is, too.

    Raises:
        ArgumentTypeError: it is none.
    """
    # A worker needs neither.
    from kiqbridge.schedule.cron_fields import FIRST_YEAR, LAST_YEAR  # noqa: PLC0415

    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no ISO 8601 time; write a text such as 2026-03-28T00:00:00Z"
        ) from error
    if not FIRST_YEAR < found.year < LAST_YEAR:  # a year less, for offsets and what is around it
        raise argparse.ArgumentTypeError(
            f"{text!r} is not in the years {FIRST_YEAR + 1}-{LAST_YEAR - 1}, those of schedules"
        )
    if found.tzinfo is None and len(text) == _DATE_LENGTH:
        return found.replace(tzinfo=UTC)
    if found.tzinfo is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} has no time zone; append Z, or an offset such as +01:00"
        )
    return found.astimezone(UTC)


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


TYPES: Final = {"N": within(1), "DURATION": duration, "SECONDS": float, "TIME": moment}
"""Word for a value → its type; others are texts."""
