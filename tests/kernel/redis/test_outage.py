"""Writes while a server is away and comes back: once, and without keeping others from the same jobs."""

import json
import socket
import threading
import time

import pytest
from support.jobs import own_declarations
from support.processors import processor_on
from support.proxy import UnsteadyProxy
from support.servers import HOST
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.engine.inflight.claims import give_back
from kiqbridge.engine.inflight.outage import Outage, retry_until_written
from kiqbridge.errors import Shutdown
from kiqbridge.store.redis_pool import RedisPool


class Line:
    """The way of one connection to the server; `away` refuses it, as a server does that is not there."""

    def __init__(self, proxy, port, nobody):
        self.url = proxy.url
        self._proxy = proxy
        self._port = port
        self._nobody = nobody

    def away(self):
        self._proxy.target = self._nobody
        self._proxy.cut()

    def back(self):
        self._proxy.target = self._port


@pytest.fixture
def line(server):
    with socket.socket() as nobody, UnsteadyProxy(server.port) as proxy:
        nobody.bind((HOST, 0))  # and nobody listens there
        yield Line(proxy, server.port, nobody.getsockname()[1])


@pytest.fixture
def connection(line):
    pool = RedisPool(line.url)
    yield pool.connection()
    pool.close_all()


@pytest.fixture
def chunk(process, redis):
    redis.lpush("queue:default", b"old", b"new")
    chunk = process.claimer().claim(["default"], 2)
    with chunk.writing:
        chunk.revoke()
    return chunk


class Retries:
    """A thread that gives a chunk back until that is confirmed."""

    def __init__(self, process, connection, chunk):
        self.give_up = threading.Event()
        self.tries = 0
        self.ended = None
        self._process = process
        self._connection = connection
        self._chunk = chunk
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self):
        self._thread.join(30)
        assert self.ended is not None

    def _run(self):
        try:
            moved = retry_until_written(self._attempt, outage=Outage(), wait=self.give_up.wait)
        except Shutdown as error:
            self.ended = error
        else:
            self.ended = moved

    def _attempt(self):
        self.tries += 1
        with self._chunk.writing:
            return give_back(self._connection, self._process.keys, self._chunk)


def test_a_write_is_carried_out_once_when_the_server_is_back(
    process, connection, chunk, line, redis
):
    line.away()
    retries = Retries(process, connection, chunk)
    wait_until(lambda: retries.tries >= 2, 30)
    assert redis.lrange("queue:default", 0, -1) == []

    line.back()
    retries.join()

    assert retries.ended == 2
    assert redis.lrange("queue:default", 0, -1) == [b"new", b"old"]
    assert chunk.may_be_acknowledged()


def test_meanwhile_another_thread_can_write_what_it_could_not(
    process, connection, chunk, line, redis
):
    line.away()
    retries = Retries(process, connection, chunk)
    wait_until(lambda: retries.tries >= 1, 30)

    assert chunk.writing.acquire(timeout=20)  # free between two tries
    give_back(process.connect(), process.keys, chunk)
    chunk.writing.release()
    retries.join()

    assert retries.ended == 0  # nothing was left to write
    assert redis.lrange("queue:default", 0, -1) == [b"new", b"old"]


def test_a_stop_writes_the_failures_of_a_thread_that_cannot_reach_redis(
    process, connection, line, redis
):
    made, failed = processor_on(process, size=2, connection=connection), []
    with own_declarations():

        @job(name="Fails")
        def fails(number):
            failed.append(number)
            line.away()
            raise ValueError("no luck")

        for number in range(2):
            payload = {"class": "Fails", "args": [number], "jid": f"j{number}", "retry": True}
            redis.lpush("queue:default", json.dumps(payload))
        made.processor.start()
        wait_until(lambda: len(failed) == 2, 30)
        wait_until(lambda: made.outage._since is not None, 30)
        made.manager.stop(time.monotonic())
    made.processor.join(30)

    assert not made.processor.alive
    assert sorted(json.loads(text)["jid"] for text in redis.zrange("retry", 0, -1)) == ["j0", "j1"]
    assert [redis.lrange(name, 0, -1) for name in process.lists()] == [[], []]
    assert redis.lrange("queue:default", 0, -1) == []
