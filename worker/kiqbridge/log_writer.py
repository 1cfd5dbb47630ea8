"""Where log lines go: many lines in one write, and none is lost that need not be.

A line is written at once when nothing was written for 20 ms, and when it is a warning or worse;
in a burst it waits at most 20 ms for its neighbours. So a job that kills its process has its `start`
line written before it runs, unless the process was in the midst of a burst. An orderly exit, a fork
and `logging.shutdown` write what waits.
"""

import io
import logging
import os
import threading
import time
import weakref
from typing import TextIO

from kiqbridge import redaction
from kiqbridge.interruption import PENDING, checkpoint

DELAY_S = 0.02
MOST_LINES = 1_000
"""With so many waiting, whoever logs writes: memory is bounded, and a slow reader slows us down."""


class LogWriter(logging.Handler):
    """Writes lines to a stream; passwords in addresses are hidden on the way."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        if isinstance(stream, io.TextIOWrapper):  # what UTF-8 cannot carry is still a line
            stream.reconfigure(errors="backslashreplace")
        self._stream = stream
        self._lines: list[str] = []
        self._is_closed = False
        self._is_burst = False
        self._thread: threading.Thread | None = None
        self._writing = threading.RLock()
        self._awake = threading.Event()
        _writers.add(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or let it wait with others."""
        try:
            line = f"{self.format(record)}\n"
        except Exception:  # noqa: BLE001 - as every handler of the standard library does
            self.handleError(record)
            return
        self.write(line, urgent=record.levelno >= logging.WARNING)
        if PENDING:  # a job that does little but log is interrupted here
            checkpoint()

    def write(self, line: str, *, urgent: bool = False) -> None:
        """Write a finished line, its end included, or let it wait with others."""
        lines = self._lines
        lines.append(line)
        if not self._is_burst:
            self._is_burst = True
            self._wake()
            self.flush()
        elif urgent or len(lines) >= MOST_LINES or self._is_closed:
            self.flush()

    def flush(self) -> None:
        """Write all that waits."""
        self._write_waiting()

    def _write_waiting(self) -> int:
        with self._writing:
            count = len(self._lines)
            if count:
                # Lines are appended without the lock, so they are removed only by number, and after
                # the write: an interruption in between repeats some, and loses none.
                text = redaction.addresses("".join(self._lines[:count]))
                try:
                    self._stream.write(text)
                    self._stream.flush()
                except Exception:  # noqa: BLE001 - as every handler of the standard library does
                    told = f"{count} lines could not be written"
                    self.handleError(logging.makeLogRecord({"msg": told}))
                del self._lines[:count]
            return count

    def close(self) -> None:
        """Write all that waits; later lines are written at once."""
        self._is_closed = True
        self._awake.set()
        self.flush()
        super().close()

    def _wake(self) -> None:
        with self._writing:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="kiqbridge-log", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter ends and starts no threads any more
                    self._is_closed = True
                    return
                self._thread = thread
        self._awake.set()

    def _run(self) -> None:
        while not self._is_closed:
            self._awake.wait()
            self._awake.clear()
            time.sleep(DELAY_S)
            while self._write_waiting():
                time.sleep(DELAY_S)
            self._is_burst = False
            # A line that came in between waits for nobody else.
            self._write_waiting()

    def hold(self) -> None:
        """Let no other thread write until `release_hold`."""
        self._writing.acquire()

    def release_hold(self) -> None:
        """Let others write again."""
        self._writing.release()

    def start_anew(self) -> None:
        """After a fork, in the child: threads and locks did not survive; what waits is the parent's."""
        self._lines.clear()
        self._writing = threading.RLock()
        self._awake = threading.Event()
        self._is_burst = False
        self._thread = None


_writers: "weakref.WeakSet[LogWriter]" = weakref.WeakSet()


_forking: list[LogWriter] = []


def _before_fork() -> None:
    """Write, and let nobody write meanwhile: a stream's own lock, held at a fork, stays held."""
    for writer in list(_writers):
        writer.flush()
        writer.hold()
        _forking.append(writer)


def _after_fork_in_parent() -> None:
    while _forking:
        _forking.pop().release_hold()


def _after_fork_in_child() -> None:
    while _forking:
        _forking.pop().start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
