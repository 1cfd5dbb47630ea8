"""Calls end before a deadline, whatever the server does; a call that was not sent wrote nothing."""

import socket
import struct
import threading
import time
from contextlib import contextmanager

import pytest
from support.proxy import InterceptingRedis
from support.servers import HOST

from kiqbridge import Client
from kiqbridge.errors import PushOutcomeUnknown, RedisUnavailable
from kiqbridge.store import deadline, redis_connection
from kiqbridge.store.redis_pool import RedisPool

JOB = {"class": "EchoJob", "args": [1]}
LONG_S = 60.0
"""Of the pool; no test waits for so long, so whatever ends was ended by its deadline."""


@contextmanager
def ends_early():
    """Long before the pool's own time; how long a machine needs is its business."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < LONG_S / 2


@pytest.fixture
def silent():
    """The address of a server that takes connections and never answers."""
    with socket.create_server((HOST, 0)) as listener:
        yield f"redis://{HOST}:{listener.getsockname()[1]}/0"


@pytest.fixture
def paused(server):
    server.pause()
    yield server
    server.resume()


def patience_s(connection):
    """For how long a read waits, and whether Python ends it: else the kernel does."""
    sock = connection._connection._sock
    limit = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.calcsize("@ll"))
    seconds, micros = struct.unpack("@ll", limit)
    by_python = sock.gettimeout()
    return by_python or seconds + micros / 1e6, by_python is not None


class TestDeadline:
    def test_a_server_that_never_answers(self, silent):
        pool = RedisPool(silent, read_timeout_s=LONG_S)

        with ends_early(), deadline.within(0.2), pytest.raises(RedisUnavailable):
            pool.call("PING")

    def test_a_reply_that_does_not_come_over_a_connection_that_is_open(self, redis_url, redis):
        pool = RedisPool(redis_url, read_timeout_s=LONG_S)
        client = Client(pool=pool)
        client.push(JOB)
        redis.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
        try:
            with (
                ends_early(),
                deadline.within(0.2),
                pytest.raises((PushOutcomeUnknown, RedisUnavailable)),
            ):
                client.push(JOB)
        finally:
            redis.execute_command("CLIENT", "UNPAUSE")

    def test_after_it_nothing_is_sent(self, server):
        with InterceptingRedis(server.port) as proxy:
            pool = RedisPool(proxy.url)
            pool.call("PING")
            with deadline.within(0.0), pytest.raises(RedisUnavailable, match="no time is left"):
                pool.call("INCR", "counter")

            assert [command[0] for command in proxy.commands] == [b"PING"]
            assert pool.call("INCR", "counter") == 1

    def test_the_times_of_the_pool_hold_again_after_it(self, redis_url):
        connection = RedisPool(redis_url, read_timeout_s=LONG_S).connection()
        with deadline.within(5):
            connection.call("PING")
            limit_s, by_python = patience_s(connection)
            assert 0 < limit_s <= 5
            assert by_python

        connection.call("PING")

        assert patience_s(connection) == (LONG_S, False)
        assert connection._connection.socket_timeout == LONG_S

    def test_the_earlier_of_two_holds(self):
        with deadline.within(100):
            with deadline.within(1):
                assert deadline.left() <= 1
            with deadline.within(1000):
                assert 1 < deadline.left() <= 100
        assert deadline.left() is None
        assert not deadline.is_over()

    def test_other_threads_have_none(self):
        found = []
        with deadline.within(1):
            thread = threading.Thread(target=lambda: found.append(deadline.left()))
            thread.start()
            thread.join()

        assert found == [None]

    def test_a_long_call_that_gets_through_slowly_ends_too(self, silent):
        connection = RedisPool(silent, read_timeout_s=LONG_S).connection()

        with ends_early(), deadline.within(0.3), pytest.raises(RedisUnavailable):
            connection.call("SET", "key", b"x" * 50_000_000)


class TestAfterAFreeze:
    """What a frozen environment finds: a connection that is dead and does not show it."""

    def freeze(self, monkeypatch, *, monotonic_s, time_s):
        clocks = redis_connection.time
        monotonic, of_day = clocks.monotonic, clocks.time

        class Later:
            monotonic = staticmethod(lambda: monotonic() + monotonic_s)
            time = staticmethod(lambda: of_day() + time_s)

        monkeypatch.setattr(redis_connection, "time", Later)

    @pytest.mark.parametrize(
        ("monotonic_s", "time_s"), [(60, 60), (0, 60)], ids=["awake clock", "frozen clock"]
    )
    @pytest.mark.parametrize("repeatable", [True, False])
    def test_a_silent_connection_is_left_after_the_probes_time(
        self, server, monkeypatch, monotonic_s, time_s, repeatable
    ):
        monkeypatch.setattr(redis_connection, "PROBE_WITHIN_S", 0.05)
        with InterceptingRedis(server.port) as proxy:
            pool = RedisPool(proxy.url, read_timeout_s=LONG_S)
            pool.call("PING")
            dead = threading.Event()
            probes = []

            def decide(command):
                if command[0] == b"PING" and not probes:
                    probes.append(command)
                    dead.wait(LONG_S)

            proxy.decide = decide
            self.freeze(monkeypatch, monotonic_s=monotonic_s, time_s=time_s)
            try:
                assert pool.run(("INCR", "counter"), repeatable=repeatable) == [1]
            finally:
                dead.set()

            assert len(probes) == 1
            assert proxy.connections == 2

    def test_one_in_use_is_not_probed(self, server):
        with InterceptingRedis(server.port) as proxy:
            pool = RedisPool(proxy.url)
            for _ in range(5):
                pool.call("INCR", "counter")

            assert [command[0] for command in proxy.commands] == [b"INCR"] * 5
            assert proxy.connections == 1

    def test_a_probe_has_no_more_time_than_the_deadline(self, paused, monkeypatch):
        pool = RedisPool(paused.url, read_timeout_s=LONG_S)
        monkeypatch.setattr(redis_connection, "PROBE_WITHIN_S", LONG_S)
        with ends_early(), deadline.within(0.2), pytest.raises(RedisUnavailable):
            pool.call("PING")
