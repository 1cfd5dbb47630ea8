"""A table of rows whose texts are shown as they are, with a cursor that stays on its row from frame to frame."""

from collections.abc import Collection, Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import DataTable

from kiqbridge.top.model import Column, Listing, Row, Tone

_STYLES: Final[dict[Tone, str]] = {
    "": "",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "dim": "dim",
}
_PADDING: Final = 2
"""A blank on each side of a cell."""
_LEAST_WIDTH: Final = 6
MARK: Final = "●"


class Table(DataTable[Text]):
    """The rows of a listing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "cursor_down", "Down", show=False),
        Binding("up,k", "cursor_up", "Up", show=False),
        Binding("pagedown,ctrl+f", "page_down", "Page down", show=False),
        Binding("pageup,ctrl+b", "page_up", "Page up", show=False),
        Binding("home,g", "scroll_top", "Top", show=False),
        Binding("end,G", "scroll_bottom", "Bottom", show=False),
        Binding("enter", "open", "Details", show=False),
    ]

    class Opened(Message):
        """Enter was pressed, or a row was clicked twice."""

    def __init__(self, name: str) -> None:
        super().__init__(
            id=name,
            cursor_type="row",
            zebra_stripes=False,
            cell_padding=_PADDING // 2,
            header_height=1,
        )
        self.rows_shown: Sequence[Row] = ()
        self.listing: Listing | None = None
        self._widths: Sequence[int] = ()
        self._marked: Collection[str] = ()

    def action_open(self) -> None:
        """Ask for the details of the row under the cursor."""
        if self.row_at_cursor is not None:
            self.post_message(self.Opened())

    @property
    def row_at_cursor(self) -> Row | None:
        """None if there are no rows."""
        place = self.cursor_row
        return self.rows_shown[place] if 0 <= place < len(self.rows_shown) else None

    def show(self, listing: Listing, marked: Collection[str]) -> None:
        """Show a listing; the cursor stays on its row, or at its place where that row is gone."""
        former = self.row_at_cursor
        is_other = self.listing is None or self.listing.kind != listing.kind
        place = 0 if is_other else self.cursor_row
        scrolled = 0.0 if is_other else self.scroll_y
        self._fit(listing)
        self.listing, self.rows_shown, self._marked = listing, listing.rows, marked
        self.clear()
        for row in listing.rows:
            self.add_row(*self._cells(row))
        if former is not None and not is_other:
            keys = [row.key for row in listing.rows]
            place = keys.index(former.key) if former.key in keys else place
        if listing.rows:
            self.move_cursor(row=min(place, len(listing.rows) - 1), animate=False, scroll=False)
        self.scroll_to(y=scrolled, animate=False, force=True, immediate=True)

    def refit(self) -> None:
        """Give the columns the room that there is now."""
        if self.listing is not None:
            self.show(self.listing, self._marked)

    def _fit(self, listing: Listing) -> None:
        columns = listing.columns
        widths = widths_of(columns, (self.size.width or self.app.size.width) - 2)
        if self.listing is not None and self.listing.columns is columns and widths == self._widths:
            return
        self._widths = widths
        self.clear(columns=True)
        self.add_column("", width=1)
        for column, width in zip(columns, widths, strict=True):
            self.add_column(_text(column.title, column, "bold"), width=width)

    def _cells(self, row: Row) -> Sequence[Text]:
        style = _STYLES[row.tone]
        columns = self.listing.columns if self.listing else ()
        mark = Text(MARK if row.key in self._marked else " ", style="bold yellow")
        return [
            mark,
            *(_text(cell, each, style) for cell, each in zip(row.cells, columns, strict=True)),
        ]


def widths_of(columns: Sequence[Column], room: int) -> Sequence[int]:
    """The width of each column in so many characters, its mark and padding not counted."""
    left = room - (len(columns) + 1) * _PADDING - 1 - sum(each.width for each in columns)
    shares = sum(each.share for each in columns if not each.width) or 1
    return [each.width or max(_LEAST_WIDTH, left * each.share // shares) for each in columns]


def _text(cell: str, column: Column, style: str) -> Text:
    """Not read as markup: a `str` would be."""
    justify = "right" if column.is_number else "left"
    return Text(cell, style=style, no_wrap=True, overflow="ellipsis", justify=justify)  # type: ignore[arg-type]
