"""Where log lines wait and are written: many in one write; a thread that logs never waits for the reader.

A line is written at once when nothing was written for 20 ms, when it is an error, and when it is a warning
and the last one is more than a millisecond ago; in a burst it waits at most 20 ms for its neighbours. So a job that kills its process has its `start`
line written before it runs, unless the process was in a burst. An orderly exit, a fork
and `logging.shutdown` write what waits.

When the reader is too slow the lines wait, at most 10,000 of them and 8 million characters. Those that come
then are dropped and counted, and as soon as there is room a line says how many. No thread ever waits
for a lock of the log: while another thread writes, a line is left to that one or to the writer's own
thread.
"""

import io
import logging
import os
import threading
import time
import weakref
from contextlib import suppress
from typing import TextIO

from kiqbridge.errors import JobTimeout
from kiqbridge.runtime import redaction
from kiqbridge.runtime.interruption import PENDING, checkpoint
from kiqbridge.runtime.logs.log_sink import sink_of

DELAY_S = 0.02
DENSE_S = 0.001
"""Warnings that follow each other so soon are a burst: a write for each takes longer than a short job."""

MAX_LINES = 1_000
"""With so many waiting, the thread that logs writes them, unless another one does."""

MAX_WAITING = 10_000
SHORT = 400
MAX_CHARACTERS = 4_000_000
"""What comes while so many lines wait is dropped. Of lines longer than SHORT the characters are
counted as well, so all that wait have at most 10,000 * 400 + 4,000,000 characters."""

ROOM_S = 0.25
"""How long a thread helps to make room in a full queue, while the reader keeps up."""

BLOCKED_S = 0.05
"""A reader that takes nothing for so long does not keep up."""

FLUSH_S = 1.0
CLOSE_S = 2.0
HOLD_S = 0.25
"""How long a fork waits for a thread that is writing."""


class LogWriter(logging.Handler):
    """Writes lines to a stream's descriptor; passwords in addresses are hidden on the way.

    Attributes:
        missing: how many lines were not written so far: dropped, or refused by the descriptor.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        if isinstance(stream, io.TextIOWrapper):
            # What UTF-8 cannot carry is still a line. Buffered by lines, for what jobs print to it.
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
        self._sink = sink_of(stream)
        self.missing = 0
        self._is_closed = False
        self.start_anew()
        _writers.add(self)

    def start_anew(self) -> None:
        """At the start, and after a fork in the child: threads and locks did not survive; what waits is the parent's."""
        self._lines: list[str] = []
        self._characters = 0  # of the long ones
        self._most = MAX_WAITING  # 0 while lines are dropped
        self._dropped = 0  # after the lines that wait
        self._lost: dict[str, int] = {}  # before them: why, and how many
        self._reported: dict[str, int] = {}  # of those, what the text below says
        self._rest: memoryview | None = None  # of the text of the first `_rest_lines` lines
        self._rest_lines = 0
        self._blocked_since: float | None = None
        self._is_burst = False
        self._warned_at = 0.0
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._writing = threading.Lock()
        self._bell = _bell()

    def createLock(self) -> None:  # noqa: N802 - the standard library's name
        """None: a thread that is stuck, or interrupted, within a handler must not hold up all others."""
        self.lock = None

    @property
    def blocked_for_s(self) -> float:
        """For how long the reader has not taken anything that waits for it; 0.0 = it keeps up."""
        since = self._blocked_since
        return 0.0 if since is None else time.monotonic() - since

    def handle(self, record: logging.LogRecord) -> bool:
        """Filter and emit a record, under no lock."""
        verdict: object = self.filter(record)
        if isinstance(verdict, logging.LogRecord):  # Python 3.12: a filter may replace it
            record = verdict
        if verdict:
            self.emit(record)
        return bool(verdict)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or let it wait with others."""
        try:
            line = f"{self.format(record)}\n"
        except JobTimeout:
            raise  # the job's, not the record's
        except Exception as error:  # noqa: BLE001 - as every handler of the standard library does
            # What is written for a record whose message and arguments do not fit.
            line = self._line(
                f"a log record of {record.pathname}:{record.lineno} cannot be formatted "
                f"({type(error).__name__}): {record.msg if isinstance(record.msg, str) else ''!r}"
            )
        urgent = record.levelno >= logging.WARNING
        if urgent and record.levelno < logging.ERROR:
            before, self._warned_at = self._warned_at, time.monotonic()
            urgent = self._warned_at - before > DENSE_S
        self.write(line, urgent=urgent)
        if PENDING:  # a job that does little but log is interrupted here
            checkpoint()

    def write(self, line: str, *, urgent: bool = False) -> None:
        """Write a finished line, its end included, or let it wait with others."""
        lines = self._lines
        if (len(lines) >= self._most or len(line) > SHORT) and not self._has_room(line):
            self._dropped += 1
            self.missing += 1
            return
        lines.append(line)
        if not self._is_burst:
            self._is_burst = True
            self._wake()
            self._write_now()
        elif urgent or len(lines) >= MAX_LINES or self._is_closed:
            if not self._has_thread():
                self._wake()
            self._write_now()

    def flush(self) -> None:
        """Write what waits; a second for a reader that keeps up, else only what it takes now."""
        self._write_all(0.0 if self.blocked_for_s > BLOCKED_S else FLUSH_S)

    def close(self) -> None:
        """Write what waits, within two seconds; later lines are written at once."""
        self._is_closed = True
        self._ring()
        self._write_all(CLOSE_S)
        super().close()

    def _has_room(self, line: str) -> bool:
        """Whether a line may wait: many do, or it is a long one."""
        size = len(line) if len(line) > SHORT else 0
        if not self._most and not self._resume():
            return False
        if self._is_full(size) and self.blocked_for_s <= BLOCKED_S:
            # Many threads that log at once are no reason to lose lines.
            self._write_all(ROOM_S)
        if self._is_full(size) and self._lines:  # one that alone is longer than that is written
            self._most = 0
            return False
        self._characters += size
        return True

    def _is_full(self, size: int) -> bool:
        return len(self._lines) >= MAX_WAITING or self._characters + size > MAX_CHARACTERS

    def _resume(self) -> bool:
        """Once half of the queue is free: say how many lines were dropped here, and take new ones."""
        if len(self._lines) > MAX_WAITING // 2 or self._characters > MAX_CHARACTERS // 2:
            return False
        dropped, self._dropped = self._dropped, 0
        self._most = MAX_WAITING
        if dropped:
            why = "the reader of standard output was too slow"
            self._lines.append(self._line(f"{dropped} log lines were dropped here: {why}"))
        return True

    def _write_now(self) -> None:
        """Write what waits, unless another thread does, as far as the reader takes it now."""
        if self._writing.acquire(blocking=False):
            try:
                self._write_some()
            finally:
                self._writing.release()

    def _write_all(self, within_s: float) -> bool:
        """Whether all could be written within the time."""
        until = time.monotonic() + within_s
        while True:
            left_s = max(until - time.monotonic(), 0.0)
            if not self._writing.acquire(timeout=left_s):
                return False
            try:
                # Until nothing is left, but not for ever: other threads may log all the time.
                while self._write_some() and self._lines and time.monotonic() < until:
                    pass
                is_blocked = self._blocked_since is not None
            finally:
                self._writing.release()
            if not self._lines:
                return True
            if time.monotonic() >= until:
                return False
            if is_blocked:
                self._wait(min(left_s, 0.1))

    def _write_some(self) -> bool:
        """Write the lines that wait; False: the reader does not take all of them now."""
        while self._rest is not None or self._gather():
            rest = self._rest
            assert rest is not None  # noqa: S101 - for the type checker
            try:
                written = self._sink.write(rest)
            except JobTimeout:
                raise
            except Exception as error:  # noqa: BLE001 - a job that logs must not fail by it
                self._lose(f"{type(error).__name__}: {error}")
                return True
            if not written:
                if self._blocked_since is None:
                    self._blocked_since = time.monotonic()
                return False
            self._blocked_since = None
            if written < len(rest):
                self._rest = rest[written:]
            else:
                self._written()
                return True
        return True

    def _gather(self) -> bool:
        """Make one text of the lines that wait; they are removed only when it is written."""
        lines = self._lines
        count = min(len(lines), MAX_LINES)
        if not count:
            return False
        text = "".join(lines[:count])
        self._rest_lines = count
        while self._lost:
            reason, lost = self._lost.popitem()
            self._reported[reason] = self._reported.get(reason, 0) + lost
        for reason, lost in self._reported.items():
            text = self._line(f"{lost} log lines are missing here: {reason}") + text
        text = redaction.addresses(text)
        self._rest = memoryview(text.encode(self._sink.encoding, "backslashreplace"))
        return True

    def _written(self) -> None:
        # Lines are appended without the lock, so they are removed only by number, and after the
        # write: an interruption in between repeats some, and loses none.
        lines, count = self._lines, self._rest_lines
        self._rest = None
        if self._characters:
            size = sum(len(line) for line in lines[:count] if len(line) > SHORT)
            self._characters -= size
        del lines[:count]
        self._reported = {}
        if not self._most:
            self._resume()

    def _lose(self, reason: str) -> None:
        """Give up what could not be written."""
        count = self._rest_lines
        self.missing += count
        self._lost = self._reported
        self._lost[reason] = self._lost.get(reason, 0) + count
        self._blocked_since = None
        self._written()

    def _line(self, message: str) -> str:
        record = logging.LogRecord(__name__, logging.ERROR, __file__, 0, message, None, None)
        try:
            return f"{self.format(record)}\n"
        except Exception:  # noqa: BLE001 - a formatter of the user's own
            return f"{message}\n"

    def _wake(self) -> None:
        if (
            not self._has_thread()
            and not self._is_closed
            and self._starting.acquire(blocking=False)
        ):
            try:
                if not self._has_thread():
                    self._thread = threading.Thread(
                        target=self._run, name="kiqbridge-log", daemon=True
                    )
                    self._thread.start()
            except (RuntimeError, MemoryError):
                # None can be started, at the interpreter's end never: the next line tries.
                self._thread = None
                self._is_burst = False
            finally:
                self._starting.release()
        self._ring()

    def _ring(self) -> None:
        # Not an Event, which holds a lock for an instant: its thread may be killed at that instant.
        with suppress(RuntimeError):  # it rings already
            self._bell.release()

    def _has_thread(self) -> bool:
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._is_closed:
                self._bell.acquire()  # not released here: the next ring does so
                time.sleep(DELAY_S)
                while self._lines and not self._is_closed:
                    with self._writing:
                        self._write_some()
                    if self._blocked_since is not None:
                        self._wait(0.5)
                    elif len(self._lines) < MAX_LINES:
                        time.sleep(DELAY_S)
                self._is_burst = False
                if self._lines:  # a line that came in between must not wait
                    self._is_burst = True
                    self._ring()
        finally:
            # However it ends, perhaps by a job that kills threads: the next line starts another.
            self._thread = None
            self._is_burst = False

    def _wait(self, timeout_s: float) -> None:
        """Wait for the reader, without the lock."""
        began = time.monotonic()
        try:
            self._sink.wait(timeout_s)
        except Exception:  # noqa: BLE001 - the next write says what is wrong
            time.sleep(min(timeout_s, DELAY_S))
        if time.monotonic() - began < DELAY_S / 10:  # `poll` reports room that there is not
            time.sleep(min(timeout_s, DELAY_S))

    def hold(self) -> bool:
        """Let no other thread write until `release_hold`; False: one has been writing for too long."""
        return self._writing.acquire(timeout=HOLD_S)

    def release_hold(self) -> None:
        """Let others write again."""
        self._writing.release()


def _bell() -> threading.Lock:
    """A lock that is held until `_ring` releases it."""
    bell = threading.Lock()
    bell.acquire()
    return bell


_writers: "weakref.WeakSet[LogWriter]" = weakref.WeakSet()
_forking: list[tuple[LogWriter, bool]] = []


def _before_fork() -> None:
    """Write, and let no thread write meanwhile: a stream's own lock, held at a fork, stays held."""
    for writer in list(_writers):
        writer.flush()
        _forking.append((writer, writer.hold()))


def _after_fork_in_parent() -> None:
    while _forking:
        writer, is_held = _forking.pop()
        if is_held:
            writer.release_hold()


def _after_fork_in_child() -> None:
    while _forking:
        _forking.pop()[0].start_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
