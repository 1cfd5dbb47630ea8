"""A TCP proxy before Redis that is slow, or lets only short calls through."""

import socket
import threading
import time
from contextlib import suppress
from typing import Self

from support.servers import HOST

BUFFER = 16_384


class NarrowProxy:
    """Listens on a free port of the loopback; what goes to the server passes through a narrow line.

    Attributes:
        bytes_per_s: of all connections together; None = as fast as it goes.
        most_bytes: a call of more gets stuck for ever, its connection stays open; None = none does.
        stuck: how many did.
    """

    def __init__(
        self, target: int, *, bytes_per_s: float | None = None, most_bytes: int | None = None
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self.most_bytes = most_bytes
        self.stuck = 0
        self._target = target
        self._lock = threading.Lock()
        self._free_at = 0.0
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket()
        # Small buffers, so that it is the sender's own that fill.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * BUFFER)
        self._listener.bind((HOST, 0))
        self._listener.listen(100)
        self.url = f"redis://{HOST}:{self._listener.getsockname()[1]}/0"
        self._spawn(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _spawn(self, target: object, *args: object) -> None:
        threading.Thread(target=target, args=args, name="narrow-proxy", daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
                server = socket.create_connection((HOST, self._target))
            except OSError:
                return
            self._sockets += [client, server]
            link = _Link(client, server)
            self._spawn(self._requests, link)
            self._spawn(self._replies, link)

    def _requests(self, link: "_Link") -> None:
        try:
            while data := link.client.recv(BUFFER):
                link.unanswered += len(data)
                if self.most_bytes is not None and link.unanswered > self.most_bytes:
                    self.stuck += 1
                    return  # nobody reads what follows, and nobody hangs up
                self._wait_for_room(len(data))
                link.server.sendall(data)
        except OSError:
            pass
        link.hang_up()

    def _wait_for_room(self, size: int) -> None:
        if self.bytes_per_s is None:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = at = max(now, self._free_at) + size / self.bytes_per_s
        time.sleep(max(at - now, 0))

    def _replies(self, link: "_Link") -> None:
        try:
            while data := link.server.recv(BUFFER):
                link.unanswered = 0
                link.client.sendall(data)
        except OSError:
            pass
        link.hang_up()


class _Link:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.unanswered = 0
        """Bytes since the last reply."""
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def hang_up(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
