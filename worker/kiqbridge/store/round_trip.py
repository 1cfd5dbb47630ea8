"""One round trip: commands to bytes, the bytes to the server, the replies back.

A silent server counts as lost after the read timeout; a slow link does not, as long as bytes get
through, however few.

redis-py opens a connection and logs in. From then on we send and read on its socket ourselves: redis-py's
own methods take as long as all the rest of a push. They are used where a connection has others than usual.
"""

import array
import fcntl
import select
import socket
import struct
import termios
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import hiredis
from redis.connection import AbstractConnection

from kiqbridge.runtime import threads
from kiqbridge.store import deadline
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.replies import ANSWERS, is_login_refused
from kiqbridge.wire.names import bytes_of

Command = Sequence[str | bytes | int | float]

PIECE_BYTES: Final = 65_536
"""More is sent piece by piece, so that a slow link counts as lost only when nothing at all gets through."""
_SENT_BYTES = 4 * PIECE_BYTES

_OUTSTANDING: int | None = getattr(termios, "TIOCOUTQ", None)
"""For ioctl: how much of what was written to a socket has not been acknowledged by the other end."""


_TIMEOUTS = (TimeoutError, BlockingIOError)
"""A timeout of Python, and one of the kernel."""

_NOTHING = object()
"""What the reader gives while the rest of a reply has not come."""


def pack(commands: Sequence[Command]) -> bytes:
    """The bytes of commands, as redis-py packs them, in a fifth of its time."""
    pack_one: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command
    try:
        if len(commands) == 1:
            return pack_one(tuple(commands[0]))
        return b"".join([pack_one(tuple(command)) for command in commands])
    except UnicodeEncodeError:  # a name that another process gave, see names.py
        return b"".join([pack_one(tuple(map(_exact, command))) for command in commands])


def _exact(part: str | bytes | float) -> str | bytes | float:
    return bytes_of(part) if isinstance(part, str) else part


class Way(Protocol):
    """How one open connection is sent to and read, by one thread at a time."""

    @property
    def is_open(self) -> bool:
        """Whether the connection still has the socket that this was made for."""

    def has_ended(self) -> bool:
        """Whether the other end has closed the connection, or sent what was not asked for; without a round trip."""

    def let_the_kernel_time(self) -> None:
        """Have the kernel end a wait for the other end, in place of Python, where that is possible."""

    def ask(self, packed: bytes, count: int) -> list[Any]:
        """Send what `pack` made of `count` commands; their replies, errors of the server included.

        Raises:
            RedisError, OSError: the connection is out of step and must be closed. A timeout: for that
                long nothing of the call left this host, and no reply came.
        """


def way_of(connection: AbstractConnection) -> Way:
    """The fastest way to use an open connection, on which nothing was asked that is not answered."""
    kind = type(connection)
    is_usual = (
        getattr(kind, "read_response", None) is AbstractConnection.read_response
        and getattr(kind, "send_packed_command", None) is AbstractConnection.send_packed_command
    )
    if is_usual and connection.protocol in (2, "2") and hasattr(select, "poll"):
        return _Straight(connection)
    return _ByRedisPy(connection)


class _Straight:
    """On the connection's socket, with a reader of its own."""

    __slots__ = ("_buffer", "_connection", "_poll", "_reader", "_receive", "_send", "_sock")

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection: Any = connection
        self._sock: Any = getattr(connection, "_sock", None)
        if self._sock is None:
            raise redis.exceptions.ConnectionError("Connection closed by another thread.")
        parser: Any = getattr(connection, "_parser")  # noqa: B009 - redis-py's types do not know it
        # Bound once, as the rest here: a push takes little more time than this saves.
        self._send: Callable[[bytes], object] = self._sock.sendall
        self._receive: Callable[[bytearray], int] = self._sock.recv_into
        # redis-py's own buffer is not used any more; each costs memory.
        spare = getattr(parser, "_buffer", None)
        self._buffer = spare if isinstance(spare, bytearray) else bytearray(PIECE_BYTES)
        self._reader: Any = hiredis.Reader(
            protocolError=redis.exceptions.InvalidResponse,
            replyError=parser.parse_error,
            notEnoughData=_NOTHING,
        )
        self._poll = select.poll()
        self._poll.register(self._sock, select.POLLIN)

    @property
    def is_open(self) -> bool:
        """As of `Way`."""
        return self._connection._sock is self._sock  # noqa: SLF001 - redis-py does not show it

    def has_ended(self) -> bool:
        """As of `Way`."""
        if not self.is_open or self._poll.poll(0) or self._reader.has_data():
            return True
        deciphered = getattr(self._sock, "pending", None)  # with TLS
        return deciphered is not None and bool(deciphered())

    def let_the_kernel_time(self) -> None:
        """As of `Way`.

        With a timeout Python polls before each send and each read: a system call more, and one more moment at which
        another thread gets the interpreter lock.
        """
        sock, seconds = self._sock, self._sock.gettimeout()
        # Not with TLS, which reads in more than one call, nor where another library replaces sockets, such as gevent.
        if seconds and type(sock) is socket.socket and socket.socket.__module__ == "socket":
            limit = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                sock.setsockopt(socket.SOL_SOCKET, option, limit)
            sock.settimeout(None)

    def ask(self, packed: bytes, count: int) -> list[Any]:
        """As of `Way`."""
        unsent = 0
        if len(packed) > PIECE_BYTES:
            unsent = _send_in_pieces(self._connection, packed)
        else:
            try:
                self._send(packed)
            except _TIMEOUTS as error:
                raise redis.exceptions.TimeoutError("Timeout writing to socket") from error
        reader, receive, buffer = self._reader, self._receive, self._buffer
        replies: list[Any] = []
        while True:
            try:
                received = receive(buffer)
            except _TIMEOUTS as error:
                unsent = _still_unsent(self._connection, unsent, error)
                continue
            except ConnectionError as error:
                return _ended(replies, count, error)
            if not received:
                return _ended(replies, count)
            reader.feed(buffer, 0, received)
            while (reply := reader.gets()) is not _NOTHING:
                kind = type(reply)
                replies.append(reply if kind is int or kind is bytes else _answer(reply))
                if len(replies) == count:
                    return replies


def is_connected(connection: AbstractConnection) -> bool:
    """Whether it has a socket; redis-py has a word for that from 8.0 on."""
    return getattr(connection, "_sock", None) is not None


class _ByRedisPy:
    """Round trips by redis-py's own methods: RESP 3, and connections that read or send in another way than usual."""

    __slots__ = ("_connection", "_sock")

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection: Any = connection
        self._sock = getattr(connection, "_sock", None)

    @property
    def is_open(self) -> bool:
        """As of `Way`."""
        return is_connected(self._connection) and self._connection._sock is self._sock  # noqa: SLF001 - as there

    def has_ended(self) -> bool:
        """As of `Way`."""
        try:
            return not self.is_open or bool(self._connection.can_read(0))
        except (redis.exceptions.RedisError, OSError):
            return True

    def let_the_kernel_time(self) -> None:
        """As of `Way`: redis-py knows the timeouts of Python alone."""

    def ask(self, packed: bytes, count: int) -> list[Any]:
        """As of `Way`."""
        unsent = 0
        if len(packed) > PIECE_BYTES:
            unsent = _send_in_pieces(self._connection, packed)
        else:
            self._connection.send_packed_command([packed], check_health=False)
        replies: list[Any] = []
        while len(replies) < count:
            try:
                replies.append(self._connection.read_response(disconnect_on_error=False))
            except redis.exceptions.TimeoutError as error:
                unsent = _still_unsent(self._connection, unsent, error)
            except ANSWERS as error:
                replies.append(error)
        return replies


def _still_unsent(connection: AbstractConnection, before: int, error: Exception) -> int:
    """After a wait as long as the timeout: how much has not left this host; it was `before`.

    Raises:
        TimeoutError: nothing of the call left all the while, or there is no more time for it.
    """
    unsent = unsent_bytes(connection)
    if unsent >= before or deadline.is_over():
        raise redis.exceptions.TimeoutError("Timeout reading from socket") from error
    threads.beat()
    return unsent


def _ended(replies: list[Any], count: int, error: Exception | None = None) -> list[Any]:
    """All replies, if the last one before the server ended the connection refuses the login: it carried out no more.

    Raises:
        RedisError, OSError: the others are lost.
    """
    if replies and is_login_refused(replies[-1]):
        return replies + replies[-1:] * (count - len(replies))
    raise error or redis.exceptions.ConnectionError("Connection closed by server.")


def _answer(reply: Any) -> Any:
    """A reply, or the error of the server that it begins with.

    Raises:
        ConnectionError: the server ends the connection, such as when it has too many.
    """
    first = reply[0] if type(reply) is list and reply else reply
    if isinstance(first, redis.exceptions.ConnectionError):
        if not isinstance(first, ANSWERS):
            raise first
        return first
    return reply


def _send_in_pieces(connection: AbstractConnection, packed: bytes) -> int:
    """Send as long as bytes get through; how many have not left this host when all are handed over.

    Raises:
        OSError: none did within the timeout.
    """
    # redis-py itself gives one timeout to the whole of a command.
    sock: Any = connection._sock  # noqa: SLF001
    rest = memoryview(packed)
    unsent = len(packed)
    while rest:
        try:
            sent = sock.send(rest[:_SENT_BYTES])
        except _TIMEOUTS as error:
            before, unsent = unsent, unsent_bytes(connection)
            if unsent >= before or deadline.is_over():
                raise TimeoutError("Timeout writing to socket") from error
        except ConnectionError:  # the server may have written why; else reading fails, too
            return 0
        else:
            rest = rest[sent:]
            unsent = len(packed)
            if rest and deadline.is_over():
                raise TimeoutError
        threads.beat()  # the call makes progress, however long it takes
    return unsent_bytes(connection)


def unsent_bytes(connection: AbstractConnection) -> int:
    """How many bytes have been handed to the system and not yet arrived; 0 where it cannot be known."""
    sock = connection._sock  # noqa: SLF001 - redis-py does not show it
    if sock is None or _OUTSTANDING is None:
        return 0
    answer = array.array("i", [0])
    try:
        fcntl.ioctl(sock.fileno(), _OUTSTANDING, answer)
    except OSError:
        return 0
    return answer[0]
