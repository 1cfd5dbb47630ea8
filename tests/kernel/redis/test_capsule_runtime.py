"""Several capsules in one process (protocol §15.4), and Sidekiq's own way of fetching (§6)."""

import json
import threading
from contextlib import contextmanager

import pytest
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.client.middleware import Chain

pytestmark = pytest.mark.any_server


class Jobs:
    """A job that waits until the test lets it go."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = {}
        self.peak = {}
        self.done = []
        self.go = threading.Event()

        @job(name="Held")
        def held(kind, number):
            with self.lock:
                self.running[kind] = self.running.get(kind, 0) + 1
                self.peak[kind] = max(self.peak.get(kind, 0), self.running[kind])
            try:
                while not self.go.wait(0.01):  # not one long wait, which could not be interrupted
                    pass
            finally:
                with self.lock:
                    self.running[kind] -= 1
            self.done.append((kind, number))


@pytest.fixture
def jobs():
    with own_declarations():
        yield Jobs()


@pytest.fixture
def working(jobs, setup, redis_url):
    @contextmanager
    def working(file=None, **settings):
        with launched(redis_url, setup, file=file, **settings) as launcher:
            try:
                yield launcher
            finally:
                jobs.go.set()

    return working


def push(client, queue, count):
    return client.push_bulk(
        {"class": "Held", "queue": queue, "args": [[queue, number] for number in range(count)]}
    )


SINGLE = {"capsules": {"single": {"concurrency": 1, "queues": ["single"]}}}


class TestCapsules:
    def test_each_has_threads_of_its_own(self, working, jobs, client, redis):
        push(client, "single", 5)
        push(client, "default", 5)

        with working(SINGLE):
            wait_until(lambda: jobs.running == {"single": 1, "default": 2})
            jobs.go.set()
            wait_until(lambda: len(jobs.done) == 10)

        assert jobs.peak == {"single": 1, "default": 2}
        order = [number for kind, number in jobs.done if kind == "single"]
        assert order == [0, 1, 2, 3, 4], "one at a time, in order"

    def test_ruby_sees_one_process_with_all_of_them(self, working, client, jobs, redis):
        push(client, "single", 1)

        with working(SINGLE, queues=["high,3", "default"]) as launcher:
            wait_until(lambda: redis.hget(launcher.identity, "busy") == b"1")
            fields = redis.hgetall(launcher.identity)

        info = json.loads(fields[b"info"])
        assert fields[b"concurrency"] == b"3"
        assert info["concurrency"] == 3
        assert info["queues"] == ["high", "default", "single"]
        assert info["weights"] == [{"high": 3, "default": 0}, {"single": 0}]
        assert info["capsules"] == {
            "default": {
                "concurrency": 2,
                "mode": "weighted",
                "weights": {"high": 3, "default": 0},
            },
            "single": {"concurrency": 1, "mode": "strict", "weights": {"single": 0}},
        }

    def test_code_and_file_describe_the_same_one(self, working, jobs, client, setup):
        around = []

        def counting(_job, payload, _queue, call_next):
            around.append(payload["queue"])
            return call_next()

        setup.capsule("single", queues=["ignored"], concurrency=9, middleware=Chain(counting))
        push(client, "single", 2)
        push(client, "default", 1)
        jobs.go.set()

        with working(SINGLE):
            wait_until(lambda: len(jobs.done) == 3)

        assert around == ["single", "single"]
        assert jobs.peak["single"] == 1

    def test_two_on_one_queue_run_nothing_twice_at_a_shutdown(self, working, jobs, client, redis):
        push(client, "default", 30)
        texts = sorted(redis.lrange("queue:default", 0, -1))
        twins = {"capsules": {"twin": {"concurrency": 2, "queues": ["default"]}}}

        with working(twins, timeout_s="0.2") as launcher:
            wait_until(lambda: jobs.running == {"default": 4})
            launcher.stop()

        assert sorted(redis.lrange("queue:default", 0, -1)) == texts
        assert not redis.keys("kb:*inflight*")


class TestBasicFetch:
    def test_it_takes_jobs_as_sidekiq_does(self, working, jobs, client, redis):
        push(client, "default", 5)

        with working(fetch="basic"):
            wait_until(lambda: jobs.running == {"default": 2})
            assert redis.llen("queue:default") == 3
            assert not redis.keys("kb:inflight:*")
            jobs.go.set()
            wait_until(lambda: len(jobs.done) == 5)

        assert redis.get("stat:processed") == b"5"

    def test_a_failure_is_tried_again(self, working, client, redis):
        @job(name="Failing")
        def failing():
            raise ValueError("boom")

        client.push({"class": "Failing", "args": []})
        client.push({"class": "Failing", "args": [], "retry": 0})

        with working(fetch="basic"):
            wait_until(lambda: redis.zcard("retry") == redis.zcard("dead") == 1)

    def test_at_the_deadline_jobs_go_back(self, working, jobs, client, redis):
        push(client, "default", 4)
        texts = sorted(redis.lrange("queue:default", 0, -1))

        with working(fetch="basic", timeout_s="0.2") as launcher:
            wait_until(lambda: jobs.running == {"default": 2})
            launcher.stop()

        assert sorted(redis.lrange("queue:default", 0, -1)) == texts

    def test_a_paused_queue_is_left_alone(self, working, jobs, client, redis):
        redis.sadd("paused", "low")
        push(client, "low", 2)
        push(client, "default", 2)
        jobs.go.set()

        with working(fetch="basic", queues=["low", "default"]):
            wait_until(lambda: len(jobs.done) == 2)

        assert redis.llen("queue:low") == 2

    def test_both_kinds_of_process_share_the_queues(self, working, jobs, client, redis):
        push(client, "default", 40)
        jobs.go.set()

        with working(fetch="basic"), working():
            wait_until(lambda: len(jobs.done) == 40)

        assert len(set(jobs.done)) == 40
        assert redis.get("stat:processed") == b"40"
