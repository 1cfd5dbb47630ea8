"""What commands print: tables and lines for people, JSON for programs.

On a terminal a table is drawn by rich and fits its width; elsewhere, and without rich, it is plain aligned
columns. Texts out of Redis pass `printable` on the way, so that no job can send a control sequence to the terminal.
"""

import argparse
import io
import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TextIO

from kiqbridge.wire.amounts import span_text, waited_text
from kiqbridge.wire.names import printable

if TYPE_CHECKING:
    from rich.table import Table

    from kiqbridge.api import JobRecord, QueueRates

BOLD: Final = "\033[1m"
DIM: Final = "\033[2m"
RESET: Final = "\033[0m"
_GAP: Final = "  "
_LEAST: Final = 4
"""Cells that a column keeps where there is hardly any room."""
LONGEST_LINE: Final = 10_000
"""Characters of a line that is for people."""

_MOST_PLAIN: Final = 100
"""Characters of a cell that is printed without a terminal; JSON has all of them."""
_MOST_ARGS: Final = 200
"""Characters of a job's arguments, and of its error, in a table."""


def write(text: str) -> None:
    """Write to standard output, whatever its encoding has signs for."""
    # In the locale C Python sets `surrogateescape`, which has an escape for no sign.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors != "backslashreplace":
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout.write(text)


def write_line(text: str = "") -> None:
    """A line; what does not show itself is escaped, and what is too long to read is cut: a name may be a megabyte."""
    if len(text) > LONGEST_LINE:
        text = f"{text[:LONGEST_LINE]}… ({len(text):,} characters; --json has all of them)"
    write(printable(text) + "\n")


def write_json(value: object) -> None:
    """One JSON document on a line, in ASCII; a number that JSON has no sign for becomes null."""
    write(json.dumps(_finite(value), default=str, allow_nan=False) + "\n")


def answer(options: argparse.Namespace, document: object, lines: Iterable[str]) -> int:
    """The document if `--json` was given, else the lines; the exit code."""
    if options.json:
        write_json(document)
    else:
        for line in lines:
            write_line(line)
    return 0


def answer_table(
    options: argparse.Namespace,
    document: object,
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    none: str,
) -> int:
    """The document if `--json` was given, else the table, or a sentence if there is `none`; the exit code.

    Nothing if `--jsonl` was given: the rows are written.
    """
    if options.json:
        write_json(document)
    elif rows:
        write_table(titles, rows)
    elif not vars(options).get("jsonl"):
        write_line(none)
    return 0


def listed(
    options: argparse.Namespace, rows: Iterable[Any], fields: Callable[[Any], Any], limit: int
) -> list[Any]:
    """The rows that `--limit` asks for; with `--jsonl` they are written as they come, and none is left."""
    found = islice(rows, options.limit or (None if options.jsonl else limit))
    if not options.jsonl:
        return list(found)
    for row in found:
        write_json(fields(row))
    return []


def warn(text: str) -> None:
    """A line on standard error, beside the answer."""
    sys.stderr.write(f"kiqbridge: {printable(text)}\n")


def fields_of(value: object, names: str) -> dict[str, Any]:
    """These attributes of something, as a JSON object; the names have spaces between them."""
    return {name: getattr(value, name) for name in names.split()}


def write_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table: by rich on a terminal, else plain.

    Args:
        titles: a heading for each column. A sign may stand before it: `>` numbers, at the right; `!` names that are to
            be copied, such as jids. Both are cut last where the terminal is narrow.
        rows: a cell for each column.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    if is_terminal() and find_spec("rich"):
        from rich.console import Console  # noqa: PLC0415 - slow to import, and may be missing

        console = Console(file=sys.stdout, highlight=False)
        # One cell less than there are: some terminals wrap a line that is exactly as wide.
        console.print(drawn_table(titles, cells), width=console.width - 1)
    else:
        _write_plain(titles, cells)


def is_terminal() -> bool:
    """Whether somebody reads standard output as it is written."""
    return sys.stdout.isatty()


def has_colours(stream: TextIO) -> bool:
    """Whether what is written to it may have colours: to a terminal, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def painter(stream: TextIO) -> Callable[[str, str], str]:
    """What gives a text a colour: the code, then the text; it stays as it is where there are no colours."""
    colour = has_colours(stream)
    return lambda code, text: f"{code}{text}{RESET}" if colour and code and text else text


def width_of(text: str) -> int:
    """How many cells of a terminal a text takes: two for a wide sign, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(_width(sign) for sign in text)


def _width(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def _write_plain(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    names = [title.lstrip(">!").upper() for title in titles]
    shown = [names, *([_cut(cell) for cell in row] for row in rows)]
    widths = [max(map(width_of, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = []
        for title, cell, width in zip(titles, row, widths, strict=True):
            space = " " * (width - width_of(cell))
            cells.append(f"{space}{cell}" if title.startswith(">") else f"{cell}{space}")
        write(_GAP.join(cells).rstrip() + "\n")


def _cut(cell: str) -> str:
    return cell if len(cell) <= _MOST_PLAIN else f"{cell[: _MOST_PLAIN - 1]}…"


def drawn_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> "Table":
    """A table of rich, a line a row; titles as for `write_table`, texts are `printable`."""
    from rich.table import Table  # noqa: PLC0415 - slow to import, and may be missing
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, header_style="bold", padding=(0, len(_GAP), 0, 0), pad_edge=False)
    for title in titles:
        table.add_column(
            title.lstrip(">!"),
            justify="right" if title.startswith(">") else "left",
            no_wrap=title.startswith((">", "!")),
            overflow="ellipsis",
            min_width=_LEAST,
        )
    for row in rows:
        table.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    return table


def job_fields(job: "JobRecord") -> dict[str, Any]:
    """What JSON output has of a job; times are epoch seconds, and null where the job has none."""
    names = "jid display_class queue tags created_at enqueued_at failed_at retried_at retry_count"
    names += " error_class error_message" + (" at" if hasattr(job, "at") else "")
    more = {"class": job.job_class, "args": job.display_args, "readable": job.is_readable}
    return {**fields_of(job, names), **more}


def class_cell(job: "JobRecord") -> str:
    """The class, or that the text cannot be read."""
    return job.display_class or ("(unreadable)" if not job.is_readable else "(no class)")


def args_cell(args: Sequence[Any], *, most: int = _MOST_ARGS) -> str:
    """Arguments with commas between them, as JSON, cut to what a table has room for."""
    text = ""
    for value in args:
        shown = json.dumps(value, ensure_ascii=False, default=str)
        text = f"{text}, {shown}" if text else shown
        if len(text) > most:
            return text[: most - 1] + "…"
    return text


def error_cell(job: "JobRecord") -> str:
    """`CLASS: message` of the last failure."""
    return error_text(job.error_class, job.error_message)


def error_text(error_class: str, message: str) -> str:
    """The same of its parts."""
    return (f"{error_class}: {message}" if error_class else message)[:_MOST_ARGS]


def since_cell(at: float | None, now: float) -> str:
    """`12 min ago`, `in 3 h`, or a dash."""
    if at is None:
        return "-"
    return f"in {span_text(at - now)}" if at > now else f"{span_text(now - at)} ago"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(child) for key, child in value.items()}
    return [_finite(child) for child in value] if isinstance(value, list | tuple) else value


QUEUE_TITLES: Final = ("queue", ">jobs", ">latency", "paused", "rates")


def queue_row(
    name: str, size: int, latency: float, *, paused: bool, rates: "QueueRates | None" = None
) -> tuple[str, ...]:
    """A queue in a table."""
    waited = waited_text(latency) if size else "-"
    moves = "" if rates is None else rates.text(size)
    return name, f"{size:,}", waited, "paused" if paused else "", moves
