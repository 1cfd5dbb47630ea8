"""One round trip: commands to bytes, the bytes to the server, the replies back.

A silent server counts as lost after the read timeout; a slow link does not, as long as bytes get
through, however few.
"""

import array
import fcntl
import termios
from collections.abc import Callable, Sequence
from typing import Any, Final

import hiredis
import redis
from redis.connection import AbstractConnection

from kiqbridge.runtime import threads
from kiqbridge.store import deadline
from kiqbridge.store.replies import ANSWERS
from kiqbridge.wire.names import bytes_of

Command = Sequence[str | bytes | int | float]

PIECE_BYTES: Final = 65_536
"""More is sent piece by piece, so that a slow link counts as lost only when nothing at all gets through."""
_SENT_BYTES = 4 * PIECE_BYTES

_OUTSTANDING: int | None = getattr(termios, "TIOCOUTQ", None)
"""For ioctl: how much of what was written to a socket has not been acknowledged by the other end."""


def pack(commands: Sequence[Command]) -> list[bytes]:
    """The bytes of commands in one piece, as redis-py packs them, in a fifth of its time."""
    pack_one: Callable[[tuple[Any, ...]], bytes] = hiredis.pack_command
    try:
        if len(commands) == 1:
            return [pack_one(tuple(commands[0]))]
        return [b"".join([pack_one(tuple(command)) for command in commands])]
    except UnicodeEncodeError:  # a name that another process gave, see names.py
        return [b"".join([pack_one(tuple(map(_exact, command))) for command in commands])]


def _exact(part: str | bytes | float) -> str | bytes | float:
    return bytes_of(part) if isinstance(part, str) else part


def round_trip(connection: AbstractConnection, packed: list[bytes], count: int) -> list[Any]:
    """Send what `pack` made of `count` commands; their replies, errors of the server included.

    Raises:
        RedisError, OSError: the connection is out of step and must be closed. A timeout: for that
            long nothing of the call left this host, and no reply came.
    """
    unsent = 0
    if len(packed[0]) > PIECE_BYTES:
        unsent = _send_in_pieces(connection, packed[0])
    else:
        connection.send_packed_command(packed, check_health=False)  # type: ignore[no-untyped-call]
    replies: list[Any] = []
    while len(replies) < count:
        try:
            replies.append(connection.read_response(disconnect_on_error=False))
        except redis.exceptions.TimeoutError:
            before, unsent = unsent, unsent_bytes(connection)
            # Nothing of the call left this host all the while, or there is no more time for it.
            if unsent >= before or deadline.is_over():
                raise
            threads.beat()
        except ANSWERS as error:
            replies.append(error)
    return replies


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
        except TimeoutError:
            before, unsent = unsent, unsent_bytes(connection)
            if unsent >= before or deadline.is_over():
                raise
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
