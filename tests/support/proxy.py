"""TCP proxies before Redis that fail as networks do.

`SwallowingProxy` swallows replies: the server has done it, and nobody hears of it. A `Rule` picks
requests; the request is forwarded, the server's reply is awaited and dropped, and the client's
connection is cut, or stalls until the client gives up. `UnsteadyProxy` spoils the line as a whole.
`InterceptingRedis` notes each command, and can answer, lose or refuse it.
"""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import hiredis

from support.servers import HOST

BUFFER = 65536

Link = tuple[socket.socket, socket.socket]
"""A client's connection, and ours to the server."""


class Proxy:
    """Listens on a free port of the loopback and carries each connection to a server there.

    Args:
        target: port of the server.
        buffer: bytes that the system keeps of what a client sends; None = as it likes.

    Attributes:
        target: port of the server to which new connections lead.
        connections: how many there were so far.
    """

    def __init__(self, target: int, *, buffer: int | None = None) -> None:
        self.target = target
        self.connections = 0
        self._lock = threading.Lock()
        self._links: set[Link] = set()
        self._threads: set[threading.Thread] = set()
        self._closed = False
        self._listener = socket.socket()
        if buffer is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._listener.bind((HOST, 0))
        self._listener.listen(128)
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://{HOST}:{self.port}/0"
        self._spawn(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cut all connections and end all threads."""
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self.cut()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout=5)
        self._listener.close()

    def cut(self) -> int:
        """Hang up all connections at both ends; what was held is lost. Returns how many."""
        with self._lock:
            links = list(self._links)
            self._links.clear()
        for link in links:
            _hang_up(link)
        return len(links)

    def _carry(self, link: Link) -> None:
        """Until one of the ends is gone; then both are hung up and closed."""
        raise NotImplementedError

    def _may_connect(self) -> None:
        """Called before a connection to the server is made."""

    def _spawn(self, target: Callable[..., None], *args: Any) -> threading.Thread:
        def run() -> None:
            try:
                target(*args)
            finally:
                self._threads.discard(thread)

        thread = threading.Thread(target=run, name="proxy", daemon=True)
        with self._lock:  # `close` waits only for what has been started
            self._threads.add(thread)
            thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            self._spawn(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        self._may_connect()
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
        # One of the ends is gone, or looks whether the server speaks TLS.
        with suppress(OSError, hiredis.ProtocolError):
            self._carry(link)
        _hang_up(link)
        with self._lock:
            self._links.discard(link)
        for end in link:
            end.close()


def _hang_up(link: Link) -> None:
    """At both ends, which also wakes the threads that read there."""
    for end in link:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


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


def is_script(sha: str, text: str) -> Callable[[Sequence[bytes]], bool]:
    """Whichever way a client runs it."""
    asked = {(b"EVALSHA", sha.encode()), (b"EVAL", text.encode())}
    return lambda request: (request[0].upper(), request[1] if len(request) > 1 else b"") in asked


class SwallowingProxy(Proxy):
    """Swallows the replies that its rules pick."""

    def __init__(self, target: int, rules: Sequence[Rule]) -> None:
        self._rules = rules
        super().__init__(target)

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

    def _carry(self, link: Link) -> None:
        client, server = link
        replies = _Replies(link)
        carrying = self._spawn(replies.carry)
        reader, sent = hiredis.Reader(), 0
        try:
            while data := client.recv(BUFFER):
                reader.feed(data)
                forward = b""
                while (request := reader.gets()) is not False:
                    sent += 1
                    fate = self._pick(request)
                    forward += hiredis.pack_command(tuple(request))
                    if fate:
                        replies.swallow(forward, sent)
                        while fate == "stall" and client.recv(BUFFER):
                            pass  # until the client loses patience
                        return
                server.sendall(forward)
        finally:
            _hang_up(link)
            carrying.join(timeout=5)


class _Replies:
    """What the server answers on one connection."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._answered = 0
        self._heard = threading.Condition()
        self._deaf = False
        self._ended = False

    def swallow(self, request: bytes, number: int) -> None:
        """Let the server carry it out and hear the reply; nothing reaches the client any more."""
        with self._heard:
            self._deaf = True
        self._link[1].sendall(request)
        with self._heard:
            self._heard.wait_for(lambda: self._answered >= number or self._ended, timeout=10)

    def carry(self) -> None:
        client, server = self._link
        reader = hiredis.Reader(replyError=str, notEnoughData=Ellipsis)
        with suppress(OSError):  # one of the ends is gone
            while data := server.recv(BUFFER):
                reader.feed(data)
                with self._heard:
                    while (reply := reader.gets()) is not Ellipsis:
                        self._answered += not isinstance(reply, hiredis.PushNotification)
                    self._heard.notify_all()
                    deaf = self._deaf
                if not deaf:
                    client.sendall(data)
        with self._heard:
            self._ended = True
            self._heard.notify_all()
        _hang_up(self._link)


class UnsteadyProxy(Proxy):
    """A line whose quality a test decides: it stalls, cuts, delays, swallows replies, talks nonsense, is narrow.

    What was sent while the line stalls arrives when it flows again, as a network does it, also from
    a client that has hung up meanwhile.

    Args:
        bytes_per_s: of all requests together; None = as fast as it goes.
        most_bytes: a call of more gets stuck for ever, its connection stays open; None = none does.

    Attributes:
        delay_s: added to each piece of a reply.
        replies_lost: how many pieces of replies were swallowed or replaced so far.
        stuck: how many calls were.
    """

    def __init__(
        self, target: int, *, bytes_per_s: float | None = None, most_bytes: int | None = None
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self.most_bytes = most_bytes
        self.stuck = 0
        self.delay_s = 0.0
        self.replies_lost = 0
        self._unanswered: dict[Link, int] = {}
        self._free_at = 0.0
        self._to_lose = 0
        self._nonsense: list[bytes] = []
        self._flowing = threading.Event()
        self._flowing.set()
        is_narrow = bytes_per_s is not None or most_bytes is not None
        # Small pieces then, so that it is the sender's own buffers that fill.
        self._piece = BUFFER // 4 if is_narrow else BUFFER
        super().__init__(target, buffer=BUFFER // 2 if is_narrow else None)

    def stall(self) -> None:
        """Nothing passes in either direction, and all sockets stay open."""
        self._flowing.clear()

    def flow(self) -> None:
        """Let pass what was held, and what comes."""
        self._flowing.set()

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
        self.cut()
        self.flow()
        super().close()

    def _may_connect(self) -> None:
        self._flowing.wait()  # a stalled network carries no handshake to the server either

    def _carry(self, link: Link) -> None:
        self._unanswered[link] = 0
        replies = self._spawn(self._carry_replies, link)
        self._carry_requests(link)
        replies.join()
        del self._unanswered[link]

    def _carry_requests(self, link: Link) -> None:
        client, server = link
        with suppress(OSError):  # one of the ends is gone
            while data := client.recv(self._piece):
                self._flowing.wait()
                self._unanswered[link] += len(data)
                if self.most_bytes is not None and self._unanswered[link] > self.most_bytes:
                    self.stuck += 1
                    return  # nobody reads what follows, and nobody hangs up
                self._wait_for_room(len(data))
                server.sendall(data)
            self._flowing.wait()
        _hang_up(link)

    def _wait_for_room(self, size: int) -> None:
        if self.bytes_per_s is None:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = at = max(now, self._free_at) + size / self.bytes_per_s
        time.sleep(max(at - now, 0))

    def _carry_replies(self, link: Link) -> None:
        client, server = link
        with suppress(OSError):  # one of the ends is gone
            goes_on = True
            while goes_on and (data := server.recv(self._piece)):
                self._flowing.wait()
                if self.delay_s:
                    time.sleep(self.delay_s)
                self._unanswered[link] = 0
                data, goes_on = self._spoiled(data)
                client.sendall(data)
            self._flowing.wait()
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


Command = list[bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with these bytes; the real server hears nothing."""

    reply: bytes


class Lose:
    """Let the real server carry it out, and end the connection instead of answering."""


class Refuse:
    """End the connection; the real server hears nothing."""


Decide = Callable[[Command], Answer | Lose | Refuse | None]
"""What to do with a command; None passes it on."""

SETTING_UP = {b"HELLO", b"CLIENT", b"AUTH", b"SELECT"}


class InterceptingRedis(Proxy):
    """Notes each command and does with it what the test decides.

    Attributes:
        commands: as they came, without those that set a connection up.
        decide: to be set by the test.
    """

    def __init__(self, target: int) -> None:
        self.commands: list[Command] = []
        self.decide: Decide = lambda _command: None
        super().__init__(target)

    def _carry(self, link: Link) -> None:
        reader = hiredis.Reader()
        while data := link[0].recv(BUFFER):
            reader.feed(data)
            while (command := reader.gets()) is not False:
                if not self._handle(command, *link):
                    return

    def _handle(self, command: Command, client: socket.socket, server: socket.socket) -> bool:
        if command[0].upper() not in SETTING_UP:
            self.commands.append(command)
        decision = self.decide(command)
        if isinstance(decision, Refuse):
            return False
        if isinstance(decision, Answer):
            client.sendall(decision.reply)
            return True
        server.sendall(hiredis.pack_command(tuple(command)))
        reader, reply = hiredis.Reader(), b""
        while not reply or reader.gets() is False:
            data = server.recv(BUFFER)
            if not data:
                return False
            reply += data
            reader.feed(data)
        if isinstance(decision, Lose):
            return False
        client.sendall(reply)
        return True
