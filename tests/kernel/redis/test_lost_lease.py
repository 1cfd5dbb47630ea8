"""What the proofs under `tests/prove/` found: a lost lease that others went on with, and nonsense.

`test_failover.py`: jobs that a replica had confirmed were lost. After a failover one thread's claims
were unknown; while it registered anew, the others dropped what they had not begun and went on
claiming under the old lease, which acknowledged just that.

`test_network.py`: an answer that was no RESP, or RESP of another shape, ended the threads that read
it, and the worker performed nothing any more.
"""

import threading

import pytest
from support.engine import EngineProcess
from support.proxy import UnsteadyProxy
from support.waiting import wait_until

from kiqbridge.engine.perform.listening import Listening
from kiqbridge.engine.perform.wakeup import IdleGate
from kiqbridge.errors import RedisUnavailable
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

QUEUE = "queue:default"


def test_a_claim_under_a_lost_lease_does_not_acknowledge_what_was_dropped(process, redis):
    redis.lpush(QUEUE, "a", "b", "c")
    claimer = process.claimer()
    chunk = claimer.claim(["default"], 2)
    lists = process.lists()

    chunk.lease.lost = True  # by another thread, which has not registered anew yet
    chunk.drop()
    assert claimer.claim(["default"], 2) is None

    assert [redis.lrange(name, 0, -1) for name in lists] == [[], [b"b", b"a"]]
    assert redis.lrange(QUEUE, 0, -1) == [b"c"]
    assert not process.keeper.current.lost
    assert list(claimer.claim(["default"], 2).waiting) == [b"c"]


def test_nobody_acknowledges_under_a_lost_lease_for_a_thread_that_dropped_its_jobs(process, redis):
    redis.lpush(QUEUE, "a", "b")
    claimer = process.claimer()
    chunk = claimer.claim(["default"], 2)
    lists = process.lists()

    chunk.lease.lost = True
    chunk.drop()
    claimer.acknowledge_for(process.connect())

    assert [redis.lrange(name, 0, -1) for name in lists] == [[], [b"b", b"a"]]


def test_threads_that_find_a_lease_lost_share_one_new_one(process, redis):
    claimers = [process.claimer(f"t{number}") for number in range(3)]
    process.keeper.current.lost = True

    assert [claimer.claim(["default"], 1) for claimer in claimers] == [None] * 3

    assert redis.scard("kb:inflight") == 2
    assert not process.keeper.current.lost


@pytest.fixture
def proxy(server):
    with UnsteadyProxy(server.port) as proxy:
        yield proxy


def test_an_answer_that_is_no_resp_is_a_lost_reply(proxy):
    connection = RedisPool(proxy.url).connection()
    assert connection.call("PING") == b"PONG"

    proxy.talk_nonsense([b"\xde\xad\r\n"])
    assert connection.call("PING") == b"PONG"  # asked again on a new connection

    proxy.talk_nonsense([b"\xde\xad\r\n"] * 2)
    with pytest.raises(RedisUnavailable, match="cannot be reached"):
        connection.call("PING")
    assert connection.call("PING") == b"PONG"
    connection.close()


@pytest.mark.parametrize(
    "nonsense", [b"+OK\r\n", b":7\r\n", b"*-1\r\n", b"*1\r\n:1\r\n", b"*0\r\n"]
)
def test_a_claim_takes_nothing_from_an_answer_of_another_shape_and_is_repeated(
    proxy, redis, nonsense
):
    redis.lpush(QUEUE, "a", "b")
    with EngineProcess(proxy.url) as process:
        claimer = process.claimer()
        assert list(claimer.claim(["default"], 1).waiting) == [b"a"]

        proxy.talk_nonsense([nonsense])
        with pytest.raises(RedisUnavailable, match="an answer that Redis never gives"):
            claimer.claim(["default"], 1)

        assert list(claimer.claim(["default"], 1).waiting) == [b"b"]


def test_a_job_is_not_taken_for_settled_because_of_an_answer_of_another_shape(proxy, redis):
    redis.lpush(QUEUE, "a")
    with EngineProcess(proxy.url) as process:
        claimer = process.claimer()
        chunk = claimer.claim(["default"], 1)
        redis.script_load(scripts.load("settle").text)

        proxy.talk_nonsense([b"+OK\r\n"])
        with pytest.raises(RedisUnavailable, match="an answer that Redis never gives"):
            process.settle(chunk, b"a", "retry", 1.0, b"a again", connection=claimer.connection)

        assert redis.zrange("retry", 0, -1) == [b"a again"]
        assert not process.settle(
            chunk, b"a", "retry", 1.0, b"a again", connection=claimer.connection
        )


def test_the_reader_survives_answers_that_make_no_sense(proxy, redis):
    pool = RedisPool(proxy.url)
    gate = IdleGate(Listening(["default"], Keys(), pool.raw_connection))
    woken, over = [], threading.Event()

    def idle():
        while not over.is_set():
            gate.wait_for_work()
            woken.append(redis.lpop(QUEUE))
            gate.looked(found=bool(woken[-1]))

    thread = threading.Thread(target=idle, daemon=True)
    thread.start()
    redis.lpush(QUEUE, "before")
    wait_until(lambda: b"before" in woken, 10, "a wake by the sound connection")

    proxy.talk_nonsense([b"*2\r\n*2\r\n:1\r\n:2\r\n:1\r\n", b"+OK\r\n", b":1\r\n:1\r\n"])
    for number in range(100):
        redis.lpush(QUEUE, f"during-{number}")
        if proxy.is_done:
            break
        wait_until(lambda: proxy.is_done or not redis.llen(QUEUE), 10, "a look")
    redis.lpush(QUEUE, "after")

    wait_until(lambda: b"after" in woken, 15, "a wake after all that")
    assert gate.alive
    over.set()
    gate.open()
    thread.join(10)
