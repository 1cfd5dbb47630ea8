"""A connection to which the server reports changes of keys (client-side caching, RESP3).

Nothing that could be lost travels here: a report only says that a look is due.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import redis
from redis.connection import AbstractConnection

from kiqbridge.runtime import descriptors
from kiqbridge.store.round_trip import Command

logger = logging.getLogger(__name__)

SAFETY_LOOK_S: Final = 5.0
"""A look after so long, whatever was reported: it makes up for a message that was lost."""
LOOK_WITHOUT_TRACKING_S: Final = 0.1
TRACKING_RETRY_S: Final = 15.0
"""How soon tracking is tried again where it was refused: an ACL or a proxy may have been changed."""
RETRY_S: Final = 1.0
"""Pause after a connection that failed."""

FAILURES: Final = (redis.exceptions.RedisError, OSError)
"""What `read` and `wait` raise when the connection fails."""


class TrackingConnection:
    """A RESP3 connection to which the server reports when keys that it has read are changed.

    Where the server refuses that, it is tried again now and then, and by each new connection.

    Args:
        connect: makes a connection that is not open yet.
        watched: what is read here, for the log.
        retry_s: seconds between two attempts to turn tracking on where the server refuses it.

    Attributes:
        tracks: whether the server notifies this connection of changes.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        *,
        watched: str = "queues",
        retry_s: float = TRACKING_RETRY_S,
    ) -> None:
        self._connect = connect
        self._watched = watched
        self._retry_s = retry_s
        self._retry_at = 0.0
        self._connection: AbstractConnection | None = None
        self._descriptor: descriptors.Descriptor | None = None
        self.tracks = True

    def read(self, *commands: Command) -> list[Any]:
        """Send reading commands, which arms their keys, and return the replies.

        Raises:
            RedisError, OSError: closed; the next call opens a new connection.
        """
        try:
            connection = self._open()
            packed = connection.pack_commands(commands)  # type: ignore[no-untyped-call]
            connection.send_packed_command(packed, check_health=False)  # type: ignore[no-untyped-call]
            return [connection.read_response(disconnect_on_error=False) for _ in commands]
        except BaseException:
            self.close()
            raise

    def wait(self, timeout_s: float) -> bool:
        """Wait until a key that was read has changed; False when the time is over.

        Raises:
            RedisError, OSError: closed; the next call opens a new connection.
        """
        if not self.tracks:
            time.sleep(min(timeout_s, LOOK_WITHOUT_TRACKING_S))
            return False
        try:
            connection = self._open()
            if not connection.can_read(timeout=timeout_s):
                return False
            connection.read_response(disconnect_on_error=False, push_request=True)
        except BaseException:
            self.close()
            raise
        return True

    def close(self) -> None:
        """Drop the connection; also wakes a thread that waits on it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._check_descriptor()  # else another connection could be shut down
            with contextlib.suppress(*FAILURES):  # it is being thrown away, whatever it raises
                connection.disconnect()  # type: ignore[no-untyped-call]

    def _open(self) -> AbstractConnection:
        if self._connection is None:
            connection = self._connect()
            connection.connect()  # type: ignore[no-untyped-call]
            if descriptors.is_watching:
                self._descriptor = descriptors.Descriptor(getattr(connection, "_sock"))  # noqa: B009 - redis-py's types do not know it
            self._ask_for_tracking(connection)
            self._connection = connection
            return connection
        self._check_descriptor()
        if not self.tracks and time.monotonic() >= self._retry_at:
            self._ask_for_tracking(self._connection)
        return self._connection

    def _check_descriptor(self) -> None:
        if self._descriptor is not None:
            self._descriptor.check()

    def _ask_for_tracking(self, connection: AbstractConnection) -> None:
        try:
            connection.send_command("CLIENT", "TRACKING", "ON")  # type: ignore[no-untyped-call]
            connection.read_response(disconnect_on_error=False)
        except redis.exceptions.ResponseError as error:
            self._retry_at = time.monotonic() + self._retry_s
            if self.tracks:
                logger.warning(
                    "this Redis refuses CLIENT TRACKING (%s): %s are looked at several times a second "
                    "instead, until it allows it; allow it in the ACL of this user",
                    error,
                    self._watched,
                )
            self.tracks = False
        else:
            if not self.tracks:
                logger.info("this Redis allows CLIENT TRACKING again for %s", self._watched)
            self.tracks = True
