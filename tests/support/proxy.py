"""A TCP proxy before Redis that swallows replies: the server has done it, and nobody hears of it.

A `Rule` picks requests; the request is forwarded, the server's reply is awaited and dropped, and the
client's connection is cut, or stalls until the client gives up.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

import hiredis

from support.servers import HOST

BUFFER = 65536


class Rule:
    """Which requests lose their replies.

    Args:
        name: for messages.
        matches: whether a request (its parts as bytes) is of this kind.
        picks: gets the number of the matching request, from 1; True = its reply is swallowed.
        stalls: as `picks`; True = the connection stays open in silence instead of being cut.

    Attributes:
        seen, swallowed: how many so far.
    """

    def __init__(
        self,
        name: str,
        matches: Callable[[Sequence[bytes]], bool],
        picks: Callable[[int], bool],
        stalls: Callable[[int], bool] = lambda _number: False,
    ) -> None:
        self.name = name
        self.matches = matches
        self.picks = picks
        self.stalls = stalls
        self.seen = 0
        self.swallowed = 0

    def __repr__(self) -> str:
        return f"{self.name} {self.swallowed} of {self.seen}"


def is_command(name: str) -> Callable[[Sequence[bytes]], bool]:
    return lambda request: request[0].upper() == name.encode()


def is_script(sha: str, text: str) -> Callable[[Sequence[bytes]], bool]:
    """Whichever way a client runs it."""
    asked = {(b"EVALSHA", sha.encode()), (b"EVAL", text.encode())}
    return lambda request: (request[0].upper(), request[1] if len(request) > 1 else b"") in asked


class SwallowingProxy:
    """Listens on a free port of the loopback and forwards to a server there."""

    def __init__(self, server_port: int, rules: Sequence[Rule]) -> None:
        self._server_port = server_port
        self._rules = rules
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self._closed = False
        self._spawn(self._accept)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._listener.getsockname()[1]}/0"

    def close(self) -> None:
        """Cut all connections and end all threads."""
        with self._lock:
            self._closed = True
            links, threads = list(self._links), list(self._threads)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        for link in links:
            link.cut()
        for thread in threads:
            thread.join(timeout=5)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spawn(self, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name="proxy", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            try:
                server = socket.create_connection((HOST, self._server_port), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            link = _Link(client, server, self._pick)
            with self._lock:
                if self._closed:
                    link.cut()
                self._links.add(link)
                self._spawn(lambda link=link: self._carry(link))
                self._spawn(link.carry_replies)

    def _carry(self, link: "_Link") -> None:
        link.carry_requests()
        link.replies_done.wait(timeout=5)
        link.close()
        with self._lock:
            self._links.discard(link)

    def _pick(self, request: Sequence[bytes]) -> str:
        """What shall become of the reply: "" = goes through, "cut" or "stall"."""
        for rule in self._rules:
            if rule.matches(request):
                with self._lock:
                    rule.seen += 1
                    if not rule.picks(rule.seen):
                        return ""
                    rule.swallowed += 1
                    return "stall" if rule.stalls(rule.seen) else "cut"
        return ""


class _Link:
    """One client's connection and ours to the server, a thread for each direction."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        pick: Callable[[Sequence[bytes]], str],
    ) -> None:
        self._client = client
        self._server = server
        self._pick = pick
        self._answered = 0
        self._heard = threading.Condition()
        self._deaf = False
        self._ended = False
        self.replies_done = threading.Event()
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def carry_requests(self) -> None:
        reader = hiredis.Reader()
        sent = 0
        try:
            while data := self._client.recv(BUFFER):
                reader.feed(data)
                forward = b""
                while (request := reader.gets()) is not False:
                    sent += 1
                    fate = self._pick(request)
                    forward += hiredis.pack_command(tuple(request))
                    if fate:
                        self._swallow(forward, sent)
                        if fate == "stall":
                            while self._client.recv(BUFFER):
                                pass  # until the client loses patience
                        return
                self._server.sendall(forward)
        except OSError:
            return  # one of the ends is gone
        finally:
            self.cut()

    def _swallow(self, request: bytes, number: int) -> None:
        """Let the server carry it out and hear the reply; nothing reaches the client any more."""
        with self._heard:
            self._deaf = True
        self._server.sendall(request)
        with self._heard:
            self._heard.wait_for(lambda: self._answered >= number or self._ended, timeout=10)

    def carry_replies(self) -> None:
        reader = hiredis.Reader(replyError=str, notEnoughData=Ellipsis)
        try:
            while data := self._server.recv(BUFFER):
                reader.feed(data)
                with self._heard:
                    while (reply := reader.gets()) is not Ellipsis:
                        self._answered += not isinstance(reply, hiredis.PushNotification)
                    self._heard.notify_all()
                    deaf = self._deaf
                if not deaf:
                    self._client.sendall(data)
        except OSError:
            pass  # one of the ends is gone
        finally:
            with self._heard:
                self._ended = True
                self._heard.notify_all()
            self.cut()
            self.replies_done.set()

    def cut(self) -> None:
        """Hang up at both ends, which also wakes both threads."""
        for end in (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._client.close()
        self._server.close()
