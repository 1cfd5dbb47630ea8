"""The connection on which an idle thread waits: for changes of keys, for tokens, for the reply of its claim.

RESP 3, so that replies and reports of changed keys come on one socket. redis-py opens it and logs in;
from then on commands are written to the socket and replies read from it here, since what a thread does
between the news and its job is what a job waits for. Nothing that could be lost travels here: a report
or a token only says that a look is due, and a claim is repeated under its number.

A server that refuses RESP 3 (HELLO), or CLIENT TRACKING, is looked at again and again instead.
"""

import contextlib
import logging
import os
import select
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import hiredis
from redis.connection import AbstractConnection

from kiqbridge.errors import KiqbridgeError, RedisUnavailable
from kiqbridge.runtime import descriptors, frames, threads
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.refusals import FOR_NOW
from kiqbridge.store.replies import ANSWERS, error_text, translate, unavailable
from kiqbridge.store.round_trip import Command, pack

logger = logging.getLogger(__name__)

SAFETY_LOOK_S: Final = 5.0
"""A look after so long, whatever was reported: it makes up for a message that was lost."""
LOOK_WITHOUT_TRACKING_S: Final = 0.1
TRACKING_RETRY_S: Final = 15.0
"""How soon tracking is tried again where it was refused: an ACL or a proxy may have been changed."""
RETRY_S: Final = 1.0
"""Pause after a connection that failed."""

FAILURES: Final = (redis.exceptions.RedisError, OSError)
"""What calls raise when the connection fails; `failure` makes errors with words of it."""

_MOVED: Final = ("MOVED", "ASK ")
"""How answers begin while a slot of a cluster moves: the next connection goes to its new owner."""

REPLY_S: Final = 5.0
"""Until a silent server counts as lost, where the connection does not say."""
SPIN_S: Final = 0.000_1
"""How long a reply is awaited without sleeping: a sleeping thread is woken later than a server answers."""
SPINS_IN_VAIN: Final = 8
"""After so many in a row the server is too far away for that."""
_READ_BYTES = 65_536
_NOTHING = object()

_OPT_IN: Final = ("CLIENT", "CACHING", "YES")


class News(NamedTuple):
    """Keys that were changed; `all` of them when the server was emptied."""

    all: bool
    keys: frozenset[bytes]


class WakeConnection:
    """Used by one thread at a time; only `interrupt` may be called by others.

    Args:
        connect: makes a RESP 3 connection that is not open yet; with `protocol=2` one of RESP 2.
        watched: what is read here, for the log.
        retry_s: seconds between two attempts to turn tracking on where the server refuses it.

    Attributes:
        tracks: whether the server reports changes to this connection, as far as is known.
        news: what was reported beside replies; the thread that waits clears it.
        is_open: whether there is a connection.
    """

    def __init__(
        self,
        connect: Callable[..., AbstractConnection],
        *,
        watched: str = "queues",
        retry_s: float = TRACKING_RETRY_S,
    ) -> None:
        self._connect = connect
        self._watched = watched
        self._spins_in_vain = 0
        self._retry_s, self._retry_at = retry_s, 0.0
        self._is_tracked = False
        self._is_plain = False  # of RESP 2, on which nothing is reported
        self._server: tuple[str, str, bool] = ("its address", "NAME", False)
        self._connection: AbstractConnection | None = None
        self._descriptor: descriptors.Descriptor | None = None
        self._socket: Any = None
        self._nothing_yet: tuple[type[OSError], ...] = (BlockingIOError,)
        self._reader = hiredis.Reader(
            notEnoughData=_NOTHING, replyError=redis.exceptions.ResponseError
        )
        self._timeout_s = REPLY_S
        self._poll = select.poll()
        self.news: list[News] = []
        self._is_interrupted = False
        self._ear, self._bell = os.pipe()
        for end in (self._ear, self._bell):
            os.set_blocking(end, False)
        weakref.finalize(self, _close, self._ear, self._bell).atexit = False
        self._bell_descriptors = (
            [descriptors.Descriptor(end) for end in (self._ear, self._bell)]
            if descriptors.is_watching
            else []
        )
        self._listen()
        self.tracks = True

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._connection is not None

    def interrupt(self) -> None:
        """End the wait of the thread that waits here, now or when it comes to wait."""
        self._is_interrupted = True
        for each in self._bell_descriptors:
            each.check()
        with contextlib.suppress(OSError):  # full: it rings already
            os.write(self._bell, b"!")

    def take_interruption(self) -> bool:
        """Whether `interrupt` was called since the last time."""
        is_interrupted, self._is_interrupted = self._is_interrupted, False
        return is_interrupted

    def ask(self, *commands: Command) -> list[Any]:
        """Send commands and return the replies, errors of the server among them.

        Raises:
            RedisError, OSError: to be closed; the next call opens a new connection.
        """
        self.send(pack(commands))
        return self.replies(len(commands))

    def replies(self, count: int, *, is_urgent: bool = False) -> list[Any]:
        """The replies to so many commands that were sent; `is_urgent`: a job waits for them. Raises as `ask`."""
        replies: list[Any] = []
        spin_until = 0.0
        if is_urgent and self._spins_in_vain < SPINS_IN_VAIN:
            spin_until = time.perf_counter() + SPIN_S
        give_up_at = time.monotonic() + self._timeout_s
        while len(replies) < count:
            message = self._reader.gets()
            if message is not _NOTHING:
                if isinstance(message, hiredis.PushNotification):
                    self.news += _news(message)
                else:
                    replies.append(message)
            elif self._read():
                continue
            elif time.perf_counter() >= spin_until:
                if spin_until:
                    self._spins_in_vain += 1
                    spin_until = 0.0
                left = give_up_at - time.monotonic()
                if left <= 0:
                    raise redis.exceptions.TimeoutError("no reply from Redis")
                self._sleep(left, only_socket=True)
        if spin_until:
            self._spins_in_vain = 0
        return replies

    def send(self, packed: bytes) -> None:
        """Send what `pack` made; raises as `ask`."""
        self.open()
        rest = packed
        while True:
            try:
                sent = self._socket.send(rest)
            except self._nothing_yet:
                sent = 0
            if sent == len(rest):
                return
            rest = rest[sent:]
            waiting = select.poll()
            waiting.register(self._socket, select.POLLOUT)
            if not waiting.poll(self._timeout_s * 1000):
                raise redis.exceptions.TimeoutError("Redis takes nothing")

    def receive(self, timeout_s: float, at_news: Callable[[], bytes] | None = None) -> Any:
        """The next reply or `News`; None when the time is over, or after `interrupt`.

        A reply that is nil is `NIL`. When there is something to read, what `at_news` returns is sent first, and
        `SENT` is returned before anything was read: the server answers while this thread finds out what it was.

        Raises:
            RedisError, OSError: as `ask`.
        """
        if self.news:
            return self.news.pop(0)
        self.open()
        until = time.monotonic() + timeout_s
        while True:
            if (message := self._reader.gets()) is not _NOTHING:
                if not isinstance(message, hiredis.PushNotification):
                    return NIL if message is None else message
                for news in _news(message):
                    return news
            elif at_news is not None or not self._read():
                left = until - time.monotonic()
                if self._is_interrupted or left <= 0:
                    return None
                threads.rest()
                is_readable = self._sleep(left)
                if is_readable and at_news is not None and (packed := at_news()):
                    self.send(packed)
                    threads.beat()
                    return SENT
                at_news = None
                threads.beat()

    def pause(self, seconds: float) -> None:
        """Wait, whatever is reported meanwhile; `interrupt` ends it."""
        until = time.monotonic() + seconds
        waiting = select.poll()
        waiting.register(self._ear, select.POLLIN)
        while not self._is_interrupted and (left := until - time.monotonic()) > 0:
            threads.rest()
            if _wait(waiting, left * 1000):
                self._hear()
            threads.beat()

    def track(self) -> None:
        """Turn tracking on, unless it is, or was refused a short time ago; raises as `ask`."""
        self.open()
        if self._is_tracked or time.monotonic() < self._retry_at:
            return
        if self._is_plain:
            self.close()
            self.open()
        if not self._is_plain:
            self._note_tracking(self.ask(("CLIENT", "TRACKING", "ON", "OPTIN"))[0])

    def ask_tracked(self, *commands: Command) -> list[Any]:
        """Send commands whose keys are tracked, and return the replies: a later change of a key is reported.

        Only these are: what the script of a claim reads on this connection is not.
        """
        self.track()
        if not self._is_tracked:
            return self.ask(*commands)
        opting = [each for command in commands for each in (_OPT_IN, command)]
        replies = self.ask(*opting)
        if isinstance(replies[0], Exception):
            self._note_tracking(replies[0])
        return replies[1::2]

    def failure(self, error: Exception, command: Command = ()) -> KiqbridgeError:
        """The error to raise for one of a call here: what happened, and what to do."""
        if isinstance(error, KiqbridgeError):
            return error
        address, user, uses_tls = self._server
        if not isinstance(error, ANSWERS):
            return unavailable(error, address, uses_tls=uses_tls)
        if (text := error_text(error)).startswith(_MOVED):
            return RedisUnavailable(f"Redis at {address} refused the call: {text}")
        return translate(error, address, command, user)

    def _note_tracking(self, reply: object, what: str = "CLIENT TRACKING") -> None:
        if not isinstance(reply, Exception):
            if not self.tracks:
                logger.info("this Redis allows %s again for %s", what, self._watched)
            self.tracks = self._is_tracked = True
            return
        self._retry_at = time.monotonic() + self._retry_s
        if self.tracks:
            logger.warning(
                "this Redis refuses %s (%s): %s are looked at several times a second instead, until it allows it; "
                "allow HELLO, CLIENT TRACKING and CLIENT CACHING in the ACL of this user, and in a proxy",
                what,
                error_text(reply),
                self._watched,
            )
        self.tracks = self._is_tracked = False

    def open(self) -> None:
        """Connect, if that is not done; raises as `ask`."""
        if self._connection is not None:
            if self._descriptor is not None:
                self._descriptor.check()
            return
        refused: Exception | None = None
        try:
            connection = self._connected(self._connect)
        except redis.exceptions.ResponseError as error:
            if error_text(error).startswith(FOR_NOW):
                raise
            # A proxy, or another server, that knows RESP 2 alone; what else is wrong shows there as well.
            connection, refused = self._connected(partial(self._connect, protocol=2)), error
        self._socket = connection._sock  # noqa: SLF001 - redis-py does not show it
        self._socket.setblocking(False)
        if descriptors.is_watching:
            self._descriptor = descriptors.Descriptor(self._socket)
        self._timeout_s = getattr(connection, "socket_timeout", None) or REPLY_S
        self._reader = hiredis.Reader(
            notEnoughData=_NOTHING, replyError=redis.exceptions.ResponseError
        )
        self.news.clear()
        self._is_tracked = False
        self._retry_at = 0.0
        self._spins_in_vain = 0
        self._connection = connection
        self._is_plain = refused is not None
        if refused is not None:
            self._note_tracking(refused, "HELLO 3")
        self._listen()

    def _connected(self, make: Callable[[], AbstractConnection]) -> AbstractConnection:
        connection: Any = make()
        place = f"{getattr(connection, 'host', '')}:{getattr(connection, 'port', '')}"
        user = getattr(connection, "username", None) or "default"
        uses_tls = isinstance(connection, redis.connection.SSLConnection)
        self._server = getattr(connection, "path", "") or place, user, uses_tls
        try:
            connection.connect()
        except BaseException:
            connection.disconnect()
            raise
        if uses_tls:
            tls = redis.connection.ssl  # type: ignore[attr-defined] # loaded by now
            self._nothing_yet = (BlockingIOError, tls.SSLWantReadError, tls.SSLWantWriteError)
        return connection  # type: ignore[no-any-return]

    def close(self) -> None:
        """Drop the connection; the next call opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._descriptor is not None:
                self._descriptor.check()  # else another connection could be shut down
            with contextlib.suppress(Exception):  # it is being thrown away, whatever it raises
                connection.disconnect()  # type: ignore[no-untyped-call]
        self._socket = None

    def _listen(self) -> None:
        self._poll = select.poll()
        self._poll.register(self._ear, select.POLLIN)
        if self._socket is not None:
            self._poll.register(self._socket, select.POLLIN)

    def _read(self) -> bool:
        """Take from the socket what is there; False: nothing."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except self._nothing_yet:
            return False
        if not data:
            raise redis.exceptions.ConnectionError("Connection closed by server.")
        self._reader.feed(data)
        return True

    def _sleep(self, seconds: float, *, only_socket: bool = False) -> bool:
        """Until there is something to read, or `interrupt`, for so long at most; whether it is the socket alone."""
        if only_socket:
            waiting = select.poll()
            waiting.register(self._socket, select.POLLIN)
            return bool(waiting.poll(seconds * 1000))
        ready = _wait(self._poll, seconds * 1000)
        for descriptor, _ in ready:
            if descriptor == self._ear:
                self._hear()
                return False
        return bool(ready)

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._ear, _READ_BYTES)
        self._is_interrupted = True  # also by an `interrupt` whose flag was seen before its byte


NIL: Final = object()
"""A reply without a value."""
SENT: Final = object()
"""Something is reported, and what was to be sent then is sent."""


def _news(message: Sequence[Any]) -> list[News]:
    if not message or message[0] != b"invalidate":
        return []
    keys = message[1] if len(message) > 1 else None
    return [News(keys is None, frozenset(keys or ()))]


@frames.may_take_long
def _wait(waiting: select.poll, milliseconds: float) -> list[tuple[int, int]]:
    return waiting.poll(milliseconds)


def _close(*opened: int) -> None:
    for descriptor in opened:
        with contextlib.suppress(OSError):
            os.close(descriptor)
