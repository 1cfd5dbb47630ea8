"""What `kiqbridge dev` shows: one readable line an event, coloured on a terminal."""

import contextlib
import io
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, TextIO
from zoneinfo import ZoneInfo

_RESET: Final = "\033[0m"
_DIM: Final = "\033[2m"
_BOLD: Final = "\033[1m"
_COLOURS: Final = {
    "tick": "\033[35m",
    "enqueue": "\033[34m",
    "invoke": "\033[34m",
    "start": "\033[36m",
    "done": "\033[32m",
    "fail": "\033[31m",
    "error": "\033[31;1m",
    "warning": "\033[33m",
    "back": "\033[33m",
    "ledger": "\033[36m",
    "clock": "\033[33;1m",
}
_KIND_WIDTH: Final = 8


class Console:
    """Writes whole lines from any thread.

    Args:
        stream: where to.
        on_closed: called once when the reader is gone.
    """

    def __init__(self, stream: TextIO, on_closed: Callable[[], None]) -> None:
        self._stream = stream
        self._on_closed = on_closed
        if isinstance(stream, io.TextIOWrapper):  # what the terminal cannot show is still a line
            stream.reconfigure(errors="backslashreplace")
        self._colour = stream.isatty() and not os.environ.get("NO_COLOR")
        self._lock = threading.RLock()
        self._width = 0
        self._closed = False
        self._simulated: Callable[[float], datetime] | None = None

    def align(self, names: Sequence[str]) -> None:
        """Give the column of names its width."""
        self._width = max(map(len, names), default=0)

    def show_clock(self, read: Callable[[float], datetime]) -> None:
        """Show what another clock shows at an epoch second, with its date, instead of the wall clock."""
        self._simulated = read

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Keep other threads' lines out: a job may start before its enqueue is shown."""
        with self._lock:
            yield

    def line(self, kind: str, name: str, text: str) -> None:
        """An event: when (UTC), of which kind, of which rule or job class, what."""
        clock = self._clock()
        name = name.ljust(self._width)
        self._write(
            f"{self._paint(_DIM, clock)} {self._paint(_COLOURS.get(kind, ''), kind.ljust(_KIND_WIDTH))} "
            f"{self._paint(_BOLD, name)}  {text}".rstrip()
        )

    def heading(self, text: str) -> None:
        """A line that stands out."""
        self._write(self._paint(_BOLD, text))

    def text(self, text: str, *, dim: bool = False) -> None:
        """Lines as they are."""
        self._write(self._paint(_DIM, text) if dim else text)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows below their first one, the headings; columns as wide as they need."""
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for index, row in enumerate(rows):
            cells = "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.text(f"  {cells.rstrip()}", dim=index == 0)

    def _clock(self) -> str:
        # Not gmtime() alone: it reads a coarse clock, some milliseconds behind that of the ticks.
        wall = time.time()
        if self._simulated is None:
            return time.strftime("%H:%M:%SZ", time.gmtime(wall))
        return f"{self._simulated(wall):%Y-%m-%dT%H:%M:%SZ}"

    def _paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_RESET}" if self._colour and colour else text

    def _write(self, text: str) -> None:
        with self._lock:
            if self._closed:
                return
            try:
                self._stream.write(f"{text}\n")
                self._stream.flush()
            except OSError:  # the terminal or the reader of a pipe has gone
                self._closed = True
                self._on_closed()


def shown_instant(instant: datetime, timezone: str) -> str:
    """In its zone and in UTC: `Sat 2026-11-21 03:00 CET = 02:00 UTC`, with UTC's date if it differs."""
    utc = instant.astimezone(UTC)
    clock = "%H:%M:%S" if instant.second else "%H:%M"
    if timezone == "UTC":
        return f"{utc:%a %Y-%m-%d {clock}} UTC"
    local = instant.astimezone(ZoneInfo(timezone))
    date = "" if local.date() == utc.date() else "%Y-%m-%d "
    return f"{local:%a %Y-%m-%d {clock} %Z} = {utc:{date}{clock}} UTC"


def short(jid: object) -> str:
    """Enough of a jid to distinguish jobs on a screen."""
    return str(jid)[:8]
