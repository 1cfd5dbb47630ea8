"""TCP proxies before Redis that fail as networks do.

`SwallowingProxy` swallows replies: the server has done it, and nobody hears of it. A `Rule` picks
requests; the request is forwarded, the server's reply is awaited and dropped, and the client's
connection is cut, or stalls until the client gives up. `UnsteadyProxy` spoils the line as a whole.
"""

import socket
import threading
import time
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


class UnsteadyProxy:
    """A line whose quality a test decides: it stalls, cuts, delays, swallows replies, talks nonsense.

    What was sent while the line stalls arrives when it flows again, as a network does it, also from
    a client that has hung up meanwhile.

    Attributes:
        target: port of the server to which new connections lead.
        delay_s: added to each piece of a reply.
        replies_lost: how many pieces of replies were swallowed or replaced so far.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.delay_s = 0.0
        self.replies_lost = 0
        self._to_lose = 0
        self._nonsense: list[bytes] = []
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._links: set[tuple[socket.socket, socket.socket]] = set()
        self._threads: set[threading.Thread] = set()
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://{HOST}:{self.port}/0"
        self._closed = False
        self._spawn(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def stall(self) -> None:
        """Nothing passes in either direction, and all sockets stay open."""
        self._flowing.clear()

    def flow(self) -> None:
        """Let pass what was held, and what comes."""
        self._flowing.set()

    def cut(self) -> int:
        """Hang up all connections at both ends; what was held is lost. Returns how many."""
        with self._lock:
            links = list(self._links)
            self._links.clear()
        for link in links:
            _hang_up(link)
        return len(links)

    def lose_replies(self, count: int) -> None:
        """Swallow the next pieces of replies and hang up after each."""
        with self._lock:
            self._to_lose += count

    def talk_nonsense(self, texts: Sequence[bytes]) -> None:
        """Put these in the place of the next pieces of replies."""
        with self._lock:
            self._nonsense += texts

    @property
    def is_done(self) -> bool:
        """Whether all that was asked for by `lose_replies` and `talk_nonsense` has happened."""
        with self._lock:
            return not self._to_lose and not self._nonsense

    def close(self) -> None:
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.cut()
        self.flow()
        for thread in list(self._threads):
            thread.join(timeout=5)
        self._listener.close()

    def _spawn(self, target: Callable[[], None]) -> None:
        def run() -> None:
            try:
                target()
            finally:
                self._threads.discard(thread)

        thread = threading.Thread(target=run, name="unsteady-proxy", daemon=True)
        self._threads.add(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            self._spawn(lambda client=client: self._carry(client))

    def _carry(self, client: socket.socket) -> None:
        self._flowing.wait()  # a stalled network carries no handshake to the server either
        try:
            server = socket.create_connection((HOST, self.target), timeout=5)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        link = (client, server)
        for end in link:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._links.add(link)
        if self._closed:
            self.cut()
        replies = threading.Thread(
            target=self._pump, args=(link, server, client), name="unsteady-proxy", daemon=True
        )
        replies.start()
        self._pump(link, client, server)
        replies.join()
        with self._lock:
            self._links.discard(link)
        client.close()
        server.close()

    def _pump(
        self, link: tuple[socket.socket, socket.socket], source: socket.socket, sink: socket.socket
    ) -> None:
        is_reply = source is link[1]
        try:
            while data := source.recv(BUFFER):
                self._flowing.wait()
                if is_reply:
                    if self.delay_s:
                        time.sleep(self.delay_s)
                    data, goes_on = self._spoiled(data)
                    sink.sendall(data)
                    if not goes_on:
                        break
                else:
                    sink.sendall(data)
            self._flowing.wait()
        except OSError:
            pass  # one of the ends is gone
        _hang_up(link)

    def _spoiled(self, reply: bytes) -> tuple[bytes, bool]:
        """What goes to the client instead of a reply, and whether the connection goes on."""
        if not self._to_lose and not self._nonsense:
            return reply, True
        with self._lock:
            if self._to_lose:
                self._to_lose -= 1
                self.replies_lost += 1
                return b"", False
            if self._nonsense:
                self.replies_lost += 1
                return self._nonsense.pop(0), True
        return reply, True


def _hang_up(link: tuple[socket.socket, socket.socket]) -> None:
    for end in link:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
