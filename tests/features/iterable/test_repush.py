"""How an interrupted iterable job comes to the end of its queue, and leaves its worker (§13.2.9)."""

import logging
import threading
import time

import pytest
from support.engine import in_flight
from support.jobs import own_declarations
from support.vectors import FILES, Moment, comparable, given_in, of_kind, profile_of, recorded_state

from kiqbridge import IterableJob
from kiqbridge.config.merge import merge
from kiqbridge.engine.launcher import Launcher
from kiqbridge.engine.settle.settling import repush
from kiqbridge.enumerators import numbers
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.wire.json_text import loads

NEW = b"the job, enqueued anew"


@pytest.fixture
def chunk(process, redis):
    redis.lpush("queue:default", b"job", b"next")
    return process.claimer().claim(["default"], 1)


def push_again(process, chunk, connection=None):
    return repush(
        connection or process.connect(), process.keys, chunk, b"job", queue="default", text=NEW
    )


class TestTheScript:
    def test_it_goes_to_the_end_of_the_queue_and_is_acknowledged_in_one_step(
        self, process, chunk, redis
    ):
        assert push_again(process, chunk)

        assert redis.lrange("queue:default", 0, -1) == [NEW, b"next"]
        assert redis.smembers("queues") == {b"default"}
        assert in_flight(redis) == []

    def test_another_queue_than_it_came_from_is_made_known(self, process, chunk, redis):
        assert repush(process.connect(), process.keys, chunk, b"job", queue="later", text=NEW)

        assert redis.lrange("queue:later", 0, -1) == [NEW]
        assert redis.smembers("queues") == {b"later"}

    def test_repeated_after_a_lost_reply_it_has_no_second_effect(self, process, chunk, redis):
        connection = process.connect()
        connection.lose = {1}
        with pytest.raises(RedisUnavailable):
            push_again(process, chunk, connection)

        assert not push_again(process, chunk, connection)

        assert redis.lrange("queue:default", 0, -1) == [NEW, b"next"]

    def test_a_fenced_process_pushes_nothing(self, process, chunk, redis):
        redis.srem("kb:inflight", chunk.lease.incarnation)

        assert not push_again(process, chunk)

        assert redis.lrange("queue:default", 0, -1) == [b"next"]
        assert in_flight(redis) == [b"job"]

    @pytest.mark.parametrize("key", ["queue:later", "queues"])
    def test_a_key_of_a_foreign_type_costs_no_job_and_leaves_no_copy(
        self, process, chunk, redis, key
    ):
        redis.set(key, "x")

        for _ in range(2):
            with pytest.raises(RedisRefused, match=f"WRONGTYPE {key}"):
                repush(process.connect(), process.keys, chunk, b"job", queue="later", text=NEW)

        assert sorted(redis.keys("queue*")) == sorted([key.encode(), b"queue:default"])
        assert in_flight(redis) == [b"job"]

    def test_memory_that_is_full_does_not_stop_it(self, process, chunk, redis):
        redis.script_flush()
        redis.config_set("maxmemory", 1)
        try:
            assert push_again(process, chunk)
        finally:
            redis.config_set("maxmemory", 0)


class Scene:
    """An endless iterable job, and a worker on it.

    Attributes:
        begun: set when an item is processed.
        items: what was processed.
    """

    def __init__(self, redis_url):
        self.begun = threading.Event()
        self.items = []
        self._url = redis_url
        self._workers = []

        class CountJob(IterableJob):
            def build_enumerator(job, n, pause, *, cursor):  # noqa: N805 - self is the scene
                return numbers(0, n, cursor=cursor)

            def each_iteration(job, item, n, pause):  # noqa: N805
                self.items.append(item)
                self.begun.set()
                threading.Event().wait(pause)

        class CountOnLoop(IterableJob):
            def build_enumerator(job, n, pause, *, cursor):  # noqa: N805
                return numbers(0, n, cursor=cursor)

            async def each_iteration(job, item, n, pause):  # noqa: N805
                import asyncio

                self.items.append(item)
                self.begun.set()
                await asyncio.sleep(pause)

    def start(self, profile="7", **settings):
        flags = {"redis_url": self._url, "concurrency": "2", "profile": profile, "timeout_s": "5"}
        launcher = Launcher(merge(environ={}, flags={**flags, **settings}))
        launcher.start(lambda _signal: None)
        self._workers.append(launcher)
        return launcher

    def close(self):
        for worker in self._workers:
            worker.client.close()


@pytest.fixture
def scene(redis_url):
    with own_declarations():
        scene = Scene(redis_url)
        yield scene
        scene.close()


def text_of(name, **attributes):
    extra = "".join(f',"{key}":{value}' for key, value in attributes.items())
    return (
        f'{{"retry":true,"queue":"default","class":"{name}","args":[100000,0.001],"jid":"a1"'
        f',"created_at":1795170000.25,"enqueued_at":1795170000.25{extra}}}'
    ).encode()


KINDS = pytest.mark.parametrize("name", ["CountJob", "CountOnLoop"])


class TestTheWorker:
    @pytest.mark.parametrize(
        "case",
        [case for case in of_kind("iteration") if case[1] == "iterable_interrupted"],
        ids="-".join,
    )
    def test_it_pushes_the_recorded_text(self, case, scene, redis):
        file, name = case
        pushed = FILES[file]["iterable_run_and_flush"]["pushed"].encode()
        theirs = recorded_state(FILES[file][name]["keys"])
        redis.lpush("queue:default", pushed)
        worker = scene.start(profile_of(file))
        assert scene.begun.wait(10)

        worker.stop()

        [text], [recorded] = redis.lrange("queue:default", 0, -1), theirs["queue:default"][1]
        given = given_in(pushed, without=b"enqueued_at")
        then = FILES[file][name]["wall_clock"]
        assert comparable(text, Moment(at=time.time(), given=given)) == comparable(
            recorded, Moment(at=then, given=given)
        )
        for key in ("queues", "stat:processed", "stat:failed"):
            found = redis.smembers(key) if key == "queues" else redis.get(key)
            assert (sorted(found) if key == "queues" else found) == theirs[key][1]
        assert not redis.exists("retry", "dead", "kb:inflight")

    @KINDS
    def test_all_else_of_the_payload_stays_but_for_the_workers_client_middleware(
        self, name, scene, redis
    ):
        original = text_of(name, big=18446744073709551616, retry_count=2, foreign='{"a":[1.50]}')
        redis.lpush("queue:default", original)
        worker = scene.start()

        @worker.client.middleware.add
        async def stamp(_job, payload, _queue, call_next):
            payload["stamped"] = True
            return await call_next()

        assert scene.begun.wait(10)
        worker.stop()

        [text] = redis.lrange("queue:default", 0, -1)
        before, after = loads(original), loads(text)
        assert after.pop("enqueued_at") != before.pop("enqueued_at")
        assert after.pop("stamped") is True
        assert list(after.items()) == list(before.items())

    @KINDS
    def test_middleware_that_stops_the_push_ends_the_job(self, name, scene, redis, caplog):
        redis.lpush("queue:default", text_of(name))
        worker = scene.start()
        worker.client.middleware.add(lambda *_: None)
        assert scene.begun.wait(10)

        worker.stop()

        assert "client middleware stopped its push: it is dropped" in caplog.text
        assert not redis.exists("queue:default", "retry", "dead")
        assert redis.get("stat:failed") == b"1"

    @KINDS
    def test_middleware_that_fails_sends_the_job_to_its_retry(self, name, scene, redis, caplog):
        caplog.set_level(logging.CRITICAL, "kiqbridge")
        redis.lpush("queue:default", text_of(name))
        worker = scene.start()

        def fail(*_):
            raise LookupError("no luck")

        worker.client.middleware.add(fail)
        assert scene.begun.wait(10)

        worker.stop()

        [text] = redis.zrange("retry", 0, -1)
        assert loads(text)["error_class"] == "LookupError"
        assert not redis.exists("queue:default")

    @KINDS
    def test_with_basic_fetch_too(self, name, scene, redis):
        redis.lpush("queue:default", text_of(name))
        worker = scene.start(fetch="basic")
        assert scene.begun.wait(10)

        worker.stop()

        assert redis.llen("queue:default") == 1
        assert redis.exists("it-a1")
