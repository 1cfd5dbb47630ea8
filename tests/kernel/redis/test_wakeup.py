"""Idle threads: the gate at which they wait, and the one of them that waits for the news of a push."""

import logging
import threading
from contextlib import ExitStack

import pytest
from support.servers import without_command
from support.waiting import wait_until

from kiqbridge.engine.perform import wakeup
from kiqbridge.engine.perform.listening import Listening
from kiqbridge.engine.perform.wakeup import IdleGate
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

KEYS = Keys()


def connector(url):
    pool = RedisPool(url)
    return pool.raw_connection


@pytest.fixture
def gate():
    gate = IdleGate()
    yield gate
    gate.open()


class IdleThreads:
    """Threads that wait at a gate; a woken one takes a job, unless `hands_tied`, and waits again."""

    def __init__(self, gate, redis, count):
        self.wakes = 0
        self.taken = []
        self.hands_tied = False
        self.gate = self._gate = gate
        self.takers = []
        self._redis = redis
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()
        wait_until(lambda: gate.idle == count, what="everybody idle")

    def _run(self):
        while True:
            self._gate.wait_for_work()
            if self._gate._open:
                return
            with self._lock:
                self.wakes += 1
                job = None if self.hands_tied else self._redis.rpop("queue:default")
                if job:
                    self.taken.append(job)
                    self.takers.append(threading.current_thread())
            self._gate.looked(found=job is not None)

    def join(self):
        self._gate.open()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()


@pytest.fixture
def idle(redis, redis_url):
    """Starts so many idle threads, of which one waits for the news of queues."""
    with ExitStack() as stack:

        def idle(count, *queues, url=redis_url):
            gate = IdleGate(Listening(queues or ("default",), KEYS, connector(url)))
            threads = IdleThreads(gate, redis, count)
            stack.callback(threads.join)
            return threads

        yield idle


def looks(redis):
    """How often the reader has looked at its queues."""
    return redis.info("commandstats").get("cmdstat_exists", {"calls": 0})["calls"]


def settled(redis, at_least=1):
    """Wait until the reader has looked and waits; returns the number of its looks."""
    wait_until(lambda: looks(redis) >= at_least, what="the reader's look")
    return looks(redis)


class TestGate:
    def test_one_wake_lets_one_thread_through(self, gate):
        through = []
        threads = [
            threading.Thread(target=lambda: through.append(gate.wait_for_work()), daemon=True)
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: gate.idle == 3)

        gate.wake_one()
        wait_until(lambda: len(through) == 1)
        assert gate.idle == 2

        gate.open()
        for thread in threads:
            thread.join(10)
        assert len(through) == 3

    def test_a_wake_without_an_idle_thread_is_not_kept_for_later(self, gate):
        gate.wake_one()
        thread = threading.Thread(target=gate.wait_for_work, daemon=True)
        thread.start()
        wait_until(lambda: gate.idle == 1, what="it waits")

        assert gate.idle == 1
        gate.open()
        thread.join(10)

    def test_an_open_gate_holds_nobody(self, gate):
        gate.open()

        assert gate.wait_for_work() is None


class TestReader:
    def test_a_push_from_a_foreign_client_wakes_one_thread(self, redis, idle, caplog):
        caplog.set_level(logging.DEBUG, "kiqbridge.engine.perform")
        redis.config_resetstat()
        threads = idle(3)
        before = settled(redis)

        redis.lpush("queue:default", "one")
        wait_until(lambda: threads.taken == [b"one"])
        settled(redis, before + 2)  # it has looked again and found nothing more
        assert threads.wakes == 1

        redis.lpush("queue:default", "two")
        wait_until(lambda: threads.taken == [b"one", b"two"])
        assert threads.wakes == 2

    def test_nothing_happens_while_nothing_is_pushed(self, redis, idle):
        redis.config_resetstat()
        threads = idle(2)
        before = settled(redis)

        redis.lpush("queue:foreign", "job")
        redis.set("anything", 1)
        redis.lpush("queue:default", "job")
        wait_until(lambda: threads.taken)

        assert looks(redis) - before <= 2
        assert threads.wakes == 1

    def test_the_report_of_a_claim_that_a_look_has_led_to_wakes_nobody(self, redis, idle):
        """The look has read the queue, so the claim is reported as any change; it may arrive with the next look."""
        redis.lpush("queue:default", *(f"job {number}" for number in range(50)))
        redis.config_resetstat()

        threads = idle(2, "low", "default")

        wait_until(lambda: len(threads.taken) == 50)
        settled(redis, looks(redis) + 1)
        assert threads.wakes == 50

    def test_a_paused_queue_wakes_nobody_until_it_is_resumed(self, redis, idle):
        redis.sadd("paused", "default")
        redis.config_resetstat()
        threads = idle(2)
        before = settled(redis)

        for number in range(50):
            redis.lpush("queue:default", f"job {number}")
        redis.lpush("queue:default", "last")
        assert threads.wakes == 0
        redis.srem("paused", "default")

        wait_until(lambda: len(threads.taken) == 51)
        assert before < looks(redis)

    def test_a_paused_queue_with_jobs_is_not_looked_at_over_and_over(self, redis, idle):
        redis.sadd("paused", "default")
        redis.lpush("queue:default", *(f"job {number}" for number in range(50)))
        redis.config_resetstat()
        threads = idle(2, "default", "mail")
        settled(redis)

        waited = threading.Event()
        assert not waited.wait(0.3)  # a busy loop would look thousands of times

        assert looks(redis) <= 6
        assert threads.wakes == 0

    def test_a_key_that_can_never_be_claimed_does_not_make_it_race(self, redis, idle):
        threads = idle(2)
        threads.hands_tied = True
        redis.lpush("queue:default", "job")  # not before: a thread could have it already
        wait_until(lambda: threads.wakes >= 8)

        waited = threading.Event()
        assert not waited.wait(0.3)

        assert threads.wakes < 20
        threads.hands_tied = False
        wait_until(lambda: threads.taken == [b"job"])

    def test_a_cut_connection_is_opened_anew(self, redis, idle):
        redis.config_resetstat()
        threads = idle(1)
        settled(redis)
        redis.client_kill_filter(_type="normal", skipme=True)
        redis.lpush("queue:default", "job")

        wait_until(lambda: threads.taken == [b"job"])

    def test_it_claims_for_itself_and_another_thread_reads_on(self, redis, idle):
        threads = idle(2)
        redis.lpush("queue:default", "one")
        wait_until(lambda: threads.taken == [b"one"])
        first = threads.takers[-1]
        redis.lpush("queue:default", "two")
        wait_until(lambda: threads.taken == [b"one", b"two"])

        assert threads.takers[-1] is not first

    def test_the_only_idle_thread_is_woken_in_the_midst_of_its_wait(self, redis, idle):
        threads = idle(1)
        threads.gate.wake_one()

        wait_until(lambda: threads.wakes >= 1)
        wait_until(lambda: threads.gate.idle == 1)
        redis.lpush("queue:default", "one")
        wait_until(lambda: threads.taken == [b"one"])

    def test_where_the_reader_has_ended_another_thread_takes_its_place(self, redis, idle):
        threads = idle(2)
        ended = threading.Thread(target=int)
        ended.start()
        ended.join()
        with (
            threads.gate._lock
        ):  # as after an error between its wait and its claim that ended the thread
            threads.gate._reader = ended
        threads.gate._listening.interrupt()
        # `idle` counts the reader too, which may not have left the connection yet.
        wait_until(lambda: len(threads.gate._idle) == 2)
        assert not threads.gate.alive

        threads.gate.restart()

        assert threads.gate.alive
        redis.lpush("queue:default", "one")
        wait_until(lambda: threads.taken == [b"one"])


def test_jobs_are_still_found_and_a_warning_says_why_it_costs_more(redis, server, idle, caplog):
    caplog.set_level(logging.WARNING, "kiqbridge.store.wake_connection")
    with without_command(redis, server, "client|tracking") as url:
        threads = idle(2, url=url)
        wait_until(lambda: caplog.messages)
        redis.lpush("queue:default", "one")
        wait_until(lambda: threads.taken == [b"one"])
        redis.lpush("queue:default", "two")
        wait_until(lambda: threads.taken == [b"one", b"two"])

        (message,) = caplog.messages
        assert message.startswith("this Redis refuses CLIENT TRACKING")
        assert "queues are looked at several times a second instead" in message


def test_a_thread_that_is_interrupted_while_idle_is_not_woken_in_place_of_another(monkeypatch):
    gate = IdleGate()

    def interrupted(_turn):
        raise SystemExit

    monkeypatch.setattr(wakeup, "_wait_for", interrupted)
    with pytest.raises(SystemExit):
        gate.wait_for_work()

    assert gate.idle == 0
