"""Sending and reading on a connection's own socket: what comes back is what redis-py's methods give."""

import socket
import threading

import pytest
import redis
from redis.sentinel import SentinelConnectionPool, SentinelManagedConnection
from support.waiting import wait_until

from kiqbridge.store import deadline
from kiqbridge.store.round_trip import pack, way_of

PING = pack([("PING",)])


class Slow(redis.Connection):
    """One that reads in a way of its own."""

    def read_response(self, *args, **kwargs):
        return super().read_response(*args, **kwargs)


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    with ours, theirs:
        yield ours, theirs


def opened(sock, kind=redis.Connection, **options):
    """A connection that has greeted its server, whose place `sock` takes."""
    made = kind(protocol=2, **options)
    made._sock = sock
    made._parser.on_connect(made)
    return made


def both(ends, answers, count):
    """What each way makes of the same bytes of a server: replies, or the error."""
    ours, theirs = ends
    found = []
    ways = [way_of(opened(ours, kind)) for kind in (redis.Connection, Slow)]
    for way in ways:
        theirs.sendall(answers)
        try:
            found.append([seen(reply) for reply in way.ask(PING, count)])
        except redis.RedisError as error:
            found.append(seen(error))
        theirs.recv(65_536)
    return found


def seen(reply):
    if isinstance(reply, Exception):
        return type(reply), str(reply), getattr(reply, "status_code", None)
    return [seen(each) for each in reply] if isinstance(reply, list) else reply


def test_only_the_usual_connections_are_read_straight(ends):
    ours, _ = ends
    pool = SentinelConnectionPool("service", object())
    third = opened(ours)
    third.protocol = 3
    of_sentinels = opened(ours, SentinelManagedConnection, connection_pool=pool)
    others = [third, opened(ours, Slow), of_sentinels]

    ways = [way_of(opened(ours)), way_of(opened(ours, redis.UnixDomainSocketConnection))]
    other_ways = [way_of(other) for other in others]

    assert len(set(map(type, ways))) == len(set(map(type, other_ways))) == 1
    assert type(ways[0]) is not type(other_ways[0])


@pytest.mark.parametrize(
    ("answers", "count"),
    [
        (b"+PONG\r\n", 1),
        (b":1\r\n:-3\r\n$-1\r\n", 3),
        (b"*-1\r\n$0\r\n\r\n", 2),
        (b"*3\r\n:1\r\n$2\r\n\xff\xfe\r\n*1\r\n+a\r\n", 1),
        (b"-ERR no\r\n:1\r\n", 2),
        (b"-WRONGTYPE Operation against a key\r\n", 1),
        (b"-NOSCRIPT No matching script\r\n", 1),
        (b"-READONLY You can't write\r\n", 1),
        (b"-LOADING Redis is loading\r\n:1\r\n", 2),
        (b"-MASTERDOWN Link with MASTER is down\r\n", 1),
        (b"-NOAUTH Authentication required.\r\n", 1),
        (b"-MOVED 12 127.0.0.1:1\r\n", 1),
        (b"*2\r\n-ERR first\r\n:1\r\n", 1),
        (b"*2\r\n-LOADING first\r\n:1\r\n", 1),
        (b"-ERR max number of clients reached\r\n", 1),
        (b"*1\r\n-ERR max number of clients reached\r\n", 1),
        (b"what is this\r\n", 1),
    ],
)
def test_any_answer_is_taken_as_redis_py_takes_it(ends, answers, count):
    straight, by_redis_py = both(ends, answers, count)

    assert straight == by_redis_py


def test_a_reply_that_comes_in_pieces_is_read_whole(ends):
    ours, theirs = ends
    way = way_of(opened(ours))
    replies = []
    asking = threading.Thread(target=lambda: replies.extend(way.ask(PING, 2)))
    asking.start()

    for piece in (b"$", b"3\r", b"\nab", b"c", b"\r\n:", b"12\r", b"\n"):
        theirs.sendall(piece)
    asking.join()

    assert replies == [b"abc", 12]
    assert not way.has_ended()


@pytest.mark.parametrize("kind", [redis.Connection, Slow])
def test_an_end_is_seen_before_anything_is_sent(ends, kind):
    ours, theirs = ends
    way = way_of(opened(ours, kind))
    assert not way.has_ended()

    theirs.close()

    assert way.has_ended()


@pytest.mark.parametrize("kind", [redis.Connection, Slow])
def test_what_nobody_asked_for_ends_it(ends, kind):
    ours, theirs = ends
    way = way_of(opened(ours, kind))

    theirs.sendall(b"+PONG\r\n:1\r\n")

    assert way.ask(PING, 1) == [b"PONG"]
    assert way.has_ended()


@pytest.mark.parametrize("kind", [redis.Connection, Slow])
def test_closing_it_wakes_the_thread_that_reads(ends, kind):
    ours, theirs = ends
    connection = opened(ours, kind)
    way, errors = way_of(connection), []

    def ask():
        try:
            way.ask(PING, 1)
        except (redis.RedisError, OSError) as error:
            errors.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    assert theirs.recv(64) == PING

    connection.disconnect()
    asking.join()

    assert errors
    assert not way.is_open
    assert way.has_ended()


@pytest.mark.parametrize(
    ("kind", "by_kernel"), [(redis.Connection, False), (redis.Connection, True), (Slow, False)]
)
def test_a_server_that_says_or_reads_nothing_is_a_timeout(ends, kind, by_kernel):
    ours, _ = ends
    ours.settimeout(0.05)
    ways = []  # a connection that is not kept closes its socket

    def ask(packed):
        way = way_of(opened(ours, kind))
        ways.append(way)
        if by_kernel:
            way.let_the_kernel_time()
            assert ours.gettimeout() is None
        way.ask(packed, 1)

    with pytest.raises(redis.TimeoutError):
        ask(PING)
    long = pack([("SET", "a", b"x" * 60_000)])

    def send_until_it_is_full():
        while True:
            ours.sendall(long)

    with pytest.raises((TimeoutError, BlockingIOError)):
        send_until_it_is_full()
    with pytest.raises(TimeoutError):
        ask(pack([("SET", "a", b"x" * 200_000)]))
    with pytest.raises(redis.TimeoutError):
        ask(long)  # last: redis-py closes its socket then


def test_a_deadline_is_not_outlived_and_a_closed_connection_has_no_way(ends):
    ours, _ = ends
    ours.settimeout(0.05)
    with deadline.within(0.01), pytest.raises(redis.TimeoutError):
        way_of(opened(ours)).ask(PING, 1)
    with pytest.raises(redis.ConnectionError):
        way_of(redis.Connection(protocol=2))


@pytest.mark.parametrize("by_kernel", [False, True])
def test_a_long_call_goes_out_in_pieces(ends, by_kernel):
    ours, theirs = ends
    long = pack([("SET", "a", b"x" * 1_000_000)])
    got = bytearray()

    def serve():
        while len(got) < len(long):
            got.extend(theirs.recv(65_536))
        theirs.sendall(b"+OK\r\n")

    serving = threading.Thread(target=serve)
    serving.start()

    way = way_of(opened(ours))
    if by_kernel:
        way.let_the_kernel_time()
    assert way.ask(long, 1) == [b"OK"]
    serving.join()
    wait_until(lambda: bytes(got) == long, what="the whole call")
