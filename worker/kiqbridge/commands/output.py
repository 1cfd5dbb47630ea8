"""What commands print: tables and lines for people, JSON for programs.

On a terminal a table is drawn by rich and fits its width; elsewhere, and without rich, it is plain aligned
columns. Texts out of Redis pass `printable` on the way, so that no job can send a control sequence to the terminal.
"""

import io
import json
import math
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from kiqbridge.wire.names import printable

if TYPE_CHECKING:
    from rich.table import Table

BOLD: Final = "\033[1m"
DIM: Final = "\033[2m"
RESET: Final = "\033[0m"
_GAP: Final = "  "
_LEAST: Final = 12
_LEAST_OF_ALL: Final = 4
"""Cells that a column keeps where there is too little room, and where there is hardly any."""
_MOST_PLAIN: Final = 100
"""Characters of a cell that is printed without a terminal; JSON has all of them."""


class _Column(NamedTuple):
    title: str
    right: bool
    gives_way: bool
    kept: bool


def _column(title: str) -> _Column:
    sign = title[:1]
    return _Column(title.lstrip(">~!"), sign == ">", sign == "~", sign == "!")


def write(text: str) -> None:
    """Write to standard output, whatever its encoding has signs for."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout.write(text)


def write_line(text: str = "") -> None:
    """A line; what does not show itself is escaped."""
    write(printable(text) + "\n")


def write_json(value: object) -> None:
    """One JSON document on a line, in ASCII; a number that JSON has no sign for becomes null."""
    write(json.dumps(_finite(value), default=str, allow_nan=False) + "\n")


def fields_of(value: object, names: str) -> dict[str, Any]:
    """These attributes of something, as a JSON object; the names have spaces between them."""
    return {name: getattr(value, name) for name in names.split()}


def write_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table: by rich on a terminal, else plain.

    Args:
        titles: a heading for each column. A sign may stand before it: `>` numbers, at the right; `~` long texts, which
            are cut first where the terminal is narrow; `!` names that are to be copied, such as jids.
        rows: a cell for each column.
    """
    columns = list(map(_column, titles))
    cells = [[printable(cell) for cell in row] for row in rows]
    if not (is_terminal() and _write_rich(titles, cells)):
        _write_plain(columns, cells)


def is_terminal() -> bool:
    """Whether somebody reads standard output as it is written."""
    return sys.stdout.isatty()


def has_colours(stream: TextIO) -> bool:
    """Whether what is written to it may have colours: to a terminal, unless NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def width_of(text: str) -> int:
    """How many cells of a terminal a text takes: two for a wide sign, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(_width(sign) for sign in text)


def _width(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def _write_plain(columns: Sequence[_Column], rows: Sequence[Sequence[str]]) -> None:
    titles = [column.title.upper() for column in columns]
    shown = [titles, *([_cut(cell) for cell in row] for row in rows)]
    widths = [max(width_of(row[place]) for row in shown) for place in range(len(columns))]
    for row in shown:
        line = _GAP.join(
            f"{' ' * (width - width_of(cell))}{cell}"
            if column.right
            else f"{cell}{' ' * (width - width_of(cell))}"
            for cell, column, width in zip(row, columns, widths, strict=True)
        )
        write(line.rstrip() + "\n")


def _cut(cell: str) -> str:
    return cell if len(cell) <= _MOST_PLAIN else f"{cell[: _MOST_PLAIN - 1]}…"


def _write_rich(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    try:
        from rich.console import Console  # noqa: PLC0415 - slow to import, and may be missing
    except ImportError:
        return False
    console = Console(file=sys.stdout, highlight=False)
    console.print(drawn_table(titles, rows, console.width))
    return True


def drawn_table(titles: Sequence[str], rows: Sequence[Sequence[str]], available: int) -> "Table":
    """A table of rich that fits a terminal of so many cells; titles as for `write_table`, texts are `printable`."""
    from rich.table import Table  # noqa: PLC0415 - slow to import, and may be missing
    from rich.text import Text  # noqa: PLC0415

    columns = list(map(_column, titles))
    # One column less than there are: some terminals wrap a line that is exactly as wide.
    widths = _fitted(columns, rows, available - 1 - len(_GAP) * (len(columns) - 1))
    table = Table(box=None, header_style="bold", padding=(0, len(_GAP), 0, 0), pad_edge=False)
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=width,
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _fitted(
    columns: Sequence[_Column], rows: Sequence[Sequence[str]], available: int
) -> Sequence[int]:
    """As wide as their cells; where there is too little room, the widest is cut, of those that give way first."""
    widths = [
        max(width_of(column.title), *(width_of(row[place]) for row in rows))
        for place, column in enumerate(columns)
    ]
    steps = (
        (_LEAST, [column.gives_way for column in columns]),
        (_LEAST, [not column.kept for column in columns]),
        (_LEAST_OF_ALL, [not column.kept for column in columns]),
        (_LEAST_OF_ALL, [True for _ in columns]),
    )
    for least, may_be_cut in steps:
        places = [place for place, may in enumerate(may_be_cut) if may]
        while places and sum(widths) > available:
            widest = max(places, key=lambda place: widths[place])
            if widths[widest] <= least:
                break
            widths[widest] -= 1
    return widths


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(child) for key, child in value.items()}
    return [_finite(child) for child in value] if isinstance(value, list | tuple) else value
