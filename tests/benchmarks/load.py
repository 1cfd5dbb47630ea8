"""A load that keeps a server busy: raw connections that push or claim, and do nothing with the jobs.

    python load.py URL push CONNECTIONS COUNT
    python load.py URL bulk CONNECTIONS COUNT
    python load.py URL brpop CONNECTIONS COUNT
    python load.py URL claim CONNECTIONS COUNT MOST

Each connection sends its next call when it has the reply to the last one, as a client or a thread of a
worker does; `brpop` is Sidekiq's own call. Prints the seconds that it took. Claims are those of a worker, numbered and under a lease;
the last one of each connection acknowledges without taking anything.
"""

import os
import selectors
import socket
import sys
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import hiredis

from kiqbridge.store import scripts
from kiqbridge.wire.keys import Keys

INCARNATION = f"v2:bench:{os.getpid()}:load:1"
"""Another one in each run, since claims go on from the number that is stored."""
JOB = (
    b'{"retry":true,"queue":"default","class":"NoOpJob","args":[%d],"jid":"%024x",'
    b'"created_at":1700000000.1234567,"enqueued_at":1700000000.1234567}'
)
TIMEOUT_S = 120
FENCED_OR_STALE = (-1, -2)


def main() -> None:
    address = urlsplit(sys.argv[1])
    mode, connections, count = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with socket.create_connection((address.hostname, address.port)) as first:
        if mode == "claim":
            ask(first, b"SCRIPT", b"LOAD", CLAIM.text.encode())
            ask(first, b"SADD", KEYS.inflight.encode(), INCARNATION.encode())
    each = count // connections
    calls = {
        "push": lambda number: pushes(number, each),
        "bulk": lambda number: bulks(number, each),
        "brpop": lambda _: pops(each),
        "claim": lambda number: claims(number, int(sys.argv[5])),
    }[mode]
    print(
        drive(
            (address.hostname or "", address.port or 0),
            [calls(number) for number in range(connections)],
        )
    )


def pushes(number: int, count: int) -> Iterator[tuple[bytes, int]]:
    """Single pushes as Sidekiq sends them: two commands in one packet."""
    queue = packed(b"SADD", b"queues", b"default")
    for each in range(count):
        job = JOB % (each, number << 40 | each)
        yield queue + packed(b"LPUSH", b"queue:default", job), 2


def bulks(number: int, count: int) -> Iterator[tuple[bytes, int]]:
    """Pushes of a thousand jobs at once."""
    queue = packed(b"SADD", b"queues", b"default")
    for first in range(0, count, 1000):
        jobs = [
            JOB % (each, number << 40 | each) for each in range(first, min(first + 1000, count))
        ]
        yield queue + packed(b"LPUSH", b"queue:default", *jobs), 2


def pops(count: int) -> Iterator[tuple[bytes, int]]:
    """How a thread of Sidekiq takes its jobs."""
    call = packed(b"BRPOP", b"queue:default", b"2")
    for _ in range(count):
        yield call, 1


def claims(number: int, most: int) -> Iterator[tuple[bytes, int]]:
    """The claims of one thread, without an end."""
    tid, sequence = f"t{number}", 0
    while True:
        sequence += 1
        keys = [
            KEYS.inflight,
            KEYS.claims(INCARNATION),
            KEYS.inflight_list(INCARNATION, tid, sequence),
            KEYS.inflight_list(INCARNATION, tid, sequence + 1),
            KEYS.paused,
            KEYS.careful,
            KEYS.alone,
            KEYS.queue("default"),
        ]
        words = [CLAIM.sha, len(keys), *keys, INCARNATION, tid, sequence, most, "default"]
        yield packed(b"EVALSHA", *(str(word).encode() for word in words)), 1


def drive(address: tuple[str, int], calls: list[Iterator[tuple[bytes, int]]]) -> float:
    """Send each connection's calls one after another, until they end or a claim finds nothing; seconds."""
    selector = selectors.DefaultSelector()
    for each in calls:
        connection = socket.create_connection(address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ, [each, hiredis.Reader(), 0])
    began = time.perf_counter()
    for key in list(selector.get_map().values()):
        send_next(selector, key)
    while selector.get_map():
        ready = selector.select(TIMEOUT_S)
        assert ready, "the server does not answer"
        for key, _ in ready:
            state = key.data
            data = key.fileobj.recv(262_144)  # type: ignore[union-attr]
            assert data, "the server has closed a connection"
            state[1].feed(data)
            while (reply := state[1].gets()) is not False:
                assert not isinstance(reply, hiredis.ReplyError), reply
                assert reply not in FENCED_OR_STALE, reply
                state[2] -= 1
                if reply == [b""]:
                    state[0] = iter(())
            if state[2] == 0:
                send_next(selector, key)
    return time.perf_counter() - began


def send_next(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    call = next(key.data[0], None)
    if call is None:
        selector.unregister(key.fileobj)
        key.fileobj.close()  # type: ignore[union-attr]
        return
    key.data[2] = call[1]
    key.fileobj.sendall(call[0])  # type: ignore[union-attr]


def ask(connection: socket.socket, *words: bytes) -> None:
    connection.sendall(packed(*words))
    reader = hiredis.Reader()
    while (reply := reader.gets()) is False:
        reader.feed(connection.recv(65_536))
    assert not isinstance(reply, hiredis.ReplyError), reply


def packed(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(
        b"$%d\r\n%b\r\n" % (len(word), word) for word in words
    )


CLAIM = scripts.load("claim")
KEYS = Keys("")

if __name__ == "__main__":
    main()
