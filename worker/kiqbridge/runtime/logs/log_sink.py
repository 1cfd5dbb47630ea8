"""Where log lines leave the process: a write here never waits for the reader.

Standard output is shared: with the other processes of the worker, with what jobs start, often with the
shell. So O_NONBLOCK is never set on its file description. Instead:

1. A regular file (and a device such as /dev/null) takes what it is given.
2. A pipe or a terminal is opened once more, non-blocking, under `/proc/self/fd`: a file description of
   our own for the same pipe.
3. Where that is not allowed (a container's user may not open a pipe of root's), each write carries a
   flag that it must not wait (RWF_NOWAIT, as MSG_DONTWAIT for sockets).
4. Where even that is unknown, `poll` is asked first, and pieces of at most PIPE_BUF bytes are written.

The descriptor is one of our own: a job that closes standard output, or points it elsewhere, does not
silence the log.
"""

import errno
import os
import select
import socket
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

_PIECE = getattr(select, "PIPE_BUF", 512)
_LONG = 65536
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ESPIPE, errno.ENOSYS)
_DONT_WAIT = getattr(socket, "MSG_DONTWAIT", 0) | getattr(socket, "MSG_NOSIGNAL", 0)


class Sink(Protocol):
    """Takes bytes, as many as it can at the moment."""

    encoding: str

    def write(self, data: memoryview) -> int:
        """Write some; how many bytes, 0 = none can be taken now.

        Raises:
            OSError: they cannot be written, now or later.
        """

    def wait(self, timeout_s: float) -> None:
        """Wait until some can be taken, at most so long."""


def sink_of(stream: TextIO) -> Sink:
    """The sink for a stream: its descriptor, if it has one, without the stream's own buffer."""
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return StreamSink(stream)
    return DescriptorSink(number, encoding=getattr(stream, "encoding", None) or "utf-8")


class StreamSink:
    """A stream without a descriptor, such as one in memory."""

    def __init__(self, stream: TextIO) -> None:
        self.encoding = "utf-8"
        self._stream = stream

    def write(self, data: memoryview) -> int:
        """Write all of it."""
        self._stream.write(str(data, self.encoding))
        self._stream.flush()
        return len(data)

    def wait(self, timeout_s: float) -> None:
        """Nothing to wait for."""


class DescriptorSink:
    """A file, pipe, terminal or socket by the number of its descriptor."""

    def __init__(self, number: int, *, encoding: str = "utf-8") -> None:
        self.encoding = encoding
        self._number = number
        self._handle = -1
        self._put: Callable[[memoryview], int] = self._put_file
        self._identity = _identity(number)
        self._open()

    def __del__(self) -> None:
        with suppress(Exception):  # a module may be gone already
            self._check()
            os.close(self._handle)

    def write(self, data: memoryview) -> int:
        """Write some; how many bytes, 0 = none can be taken now.

        Raises:
            OSError: such as no space, no reader any more, or a descriptor that a job has closed
                together with the original one.
        """
        try:
            self._check()
        except OSError:
            self._open()
        try:
            return self._put(data)
        except BlockingIOError:
            return 0

    def wait(self, timeout_s: float) -> None:
        """Wait until some can be taken, at most so long."""
        poll = select.poll()
        poll.register(self._handle, select.POLLOUT)
        poll.poll(timeout_s * 1000)

    def _check(self) -> None:
        """Make sure that our descriptor is still what it was.

        A job may have closed it, and a connection to Redis may have its number now.
        """
        if _identity(self._handle) != self._identity:
            raise OSError(errno.EBADF, "the descriptor of the log is not open any more")

    def _open(self) -> None:
        self._handle = -1
        if _identity(self._number) != self._identity:
            raise OSError(errno.EBADF, "standard output is not open any more")
        mode = os.fstat(self._number).st_mode
        if stat.S_ISSOCK(mode):
            self._put = self._put_socket
        elif stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and os.isatty(self._number)):
            self._put = self._put_without_waiting
            with suppress(OSError):
                flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
                self._handle = os.open(f"/proc/self/fd/{self._number}", flags)
                self._put = self._put_lines
        if self._handle < 0:
            self._handle = os.dup(self._number)

    def _put_file(self, data: memoryview) -> int:
        return os.write(self._handle, data)

    def _put_lines(self, data: memoryview) -> int:
        return os.write(self._handle, _piece(data))

    def _put_socket(self, data: memoryview) -> int:
        borrowed = socket.socket(fileno=self._handle)
        try:
            return borrowed.send(data, _DONT_WAIT)
        finally:
            borrowed.detach()

    def _put_without_waiting(self, data: memoryview) -> int:
        try:
            return os.pwritev(self._handle, [_piece(data)], -1, os.RWF_NOWAIT)
        except AttributeError:  # no such call on this system
            pass
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
        self._put = self._put_pieces
        return self._put_pieces(data)

    def _put_pieces(self, data: memoryview) -> int:
        poll = select.poll()
        poll.register(self._handle, select.POLLOUT)
        if not poll.poll(0):
            return 0
        return os.write(self._handle, _piece(data)[:_PIECE])


def _piece(data: memoryview) -> memoryview:
    """Whole lines that a pipe takes in one piece, so that other processes' come before or after them.

    A single line that is too long for that is a piece as well.
    """
    if len(data) <= _PIECE:
        return data
    start = bytes(data[:_PIECE])
    end = start.rfind(b"\n") + 1
    # The rest of the line, as far as it fits into the pipe; what follows it is a piece of its own.
    return data[:end] if end else data[: bytes(data[:_LONG]).find(b"\n") + 1 or len(data)]


def _identity(number: int) -> tuple[int, int]:
    status = os.fstat(number)
    return status.st_dev, status.st_ino
