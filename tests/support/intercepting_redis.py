"""A server in front of a real one that notes each command and can answer, lose or refuse it."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import hiredis

from support.servers import HOST

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


@dataclass(slots=True)
class InterceptingRedis:
    """Attributes: `url`; `commands` as they came, without those that set a connection up;
    `connections` so far; `decide`, to be set by the test."""

    url: str
    commands: list[Command] = field(default_factory=list)
    connections: int = 0
    decide: Decide = lambda _command: None


@contextmanager
def intercepting_redis(upstream_port: int) -> Iterator[InterceptingRedis]:
    """Listen on a free port in front of the server at `upstream_port`."""
    with socket.create_server((HOST, 0)) as listener:
        state = InterceptingRedis(url=f"redis://{HOST}:{listener.getsockname()[1]}/0")
        open_sockets: list[socket.socket] = []
        threads: list[threading.Thread] = []

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                state.connections += 1
                upstream = socket.create_connection((HOST, upstream_port))
                open_sockets.extend((client, upstream))
                threads.append(threading.Thread(target=_serve, args=(client, upstream, state)))
                threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield state
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            acceptor.join()
            for each in open_sockets:
                _end(each)
            for thread in threads:
                thread.join()


def _serve(client: socket.socket, upstream: socket.socket, state: InterceptingRedis) -> None:
    reader = hiredis.Reader()
    try:
        while data := client.recv(65_536):
            reader.feed(data)
            while (command := reader.gets()) is not False:
                if not _handle(command, client, upstream, state):
                    return
    except OSError:
        pass  # one of the two is gone: so is this connection
    finally:
        _end(client)
        _end(upstream)


def _handle(
    command: Command, client: socket.socket, upstream: socket.socket, state: InterceptingRedis
) -> bool:
    if command[0].upper() not in SETTING_UP:
        state.commands.append(command)
    decision = state.decide(command)
    if isinstance(decision, Refuse):
        return False
    if isinstance(decision, Answer):
        client.sendall(decision.reply)
        return True
    upstream.sendall(hiredis.pack_command(tuple(command)))
    reply = _read_reply(upstream)
    if isinstance(decision, Lose):
        return False
    client.sendall(reply)
    return True


def _read_reply(upstream: socket.socket) -> bytes:
    reader, raw = hiredis.Reader(), b""
    while True:
        data = upstream.recv(65_536)
        if not data:
            raise ConnectionResetError
        raw += data
        reader.feed(data)
        if reader.gets() is not False:
            return raw


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
