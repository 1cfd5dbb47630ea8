"""Debounced and throttled jobs on a real server: what is pushed, what is left out, and what is forgotten."""

import json
import time
from types import SimpleNamespace

import pytest
from support.waiting import wait_until

from kiqbridge import PayloadError, configure, job
from kiqbridge.client.default_client import own_default_client
from kiqbridge.features.debounce.chores import forget_spans
from kiqbridge.flow import Debounce, Throttle


@job(name="DebouncedReindex", debounce=Debounce(by=("key",), wait_s=600, max_wait_s=900))
def reindex(key, version=0):
    """Does nothing."""


@job(name="DebouncedPing", throttle=Throttle(limit=2, per_s=10 * 86_400, over="drop"))
def ping(key):
    """Does nothing."""


@job(name="DebouncedLater", throttle=Throttle(limit=2, per_s=10 * 86_400, over="later"))
def later(key):
    """Does nothing."""


@pytest.fixture(autouse=True)
def client(redis_url):
    with own_default_client():
        yield configure(redis_url)


def queued(redis):
    return [json.loads(text) for text in redis.lrange("queue:default", 0, -1)[::-1]]


class TestDebounce:
    def test_the_last_push_runs_once_no_more_come(self, redis):
        began = time.time()
        jids = [reindex.perform_async("a", version) for version in range(3)]
        other = reindex.perform_async("b")

        waiting = redis.zrange("schedule", 0, -1, withscores=True)
        first, second = [json.loads(text) for text, _ in waiting]
        assert {first["jid"], second["jid"]} == {jids[2], other}
        assert all(began + 600 <= at <= time.time() + 600.01 for _, at in waiting)
        assert "enqueued_at" not in first

    def test_it_runs_at_the_latest_after_its_longest_wait(self, redis):
        reindex.perform_async("a")
        [name] = redis.hkeys("kb:flow:spans")
        first, _, text = redis.hget("kb:flow:spans", name).partition(b" ")
        began = float(first) - 800
        redis.hset("kb:flow:spans", name, b"%.6f " % began + text)

        reindex.perform_async("a")

        [(_, at)] = redis.zrange("schedule", 0, -1, withscores=True)
        assert at == pytest.approx(began + 900, abs=0.01)

    def test_once_the_job_was_taken_a_push_begins_anew(self, redis):
        reindex.perform_async("a")
        redis.delete("schedule")

        again = reindex.perform_async("a")

        [text] = redis.zrange("schedule", 0, -1)
        assert json.loads(text)["jid"] == again

    def test_it_takes_no_time_and_no_consequences_of_its_end(self):
        with pytest.raises(PayloadError, match="without a time"):
            reindex.perform_in(5, "a")
        with pytest.raises(PayloadError, match="batch"):
            reindex.set(attributes={"flow": {"bid": "b"}}).perform_async("a")

    def test_what_is_over_is_forgotten(self, client, redis):
        reindex.perform_async("a")
        redis.zadd("kb:flow:spans:until", {redis.hkeys("kb:flow:spans")[0]: 1})

        forget_spans(SimpleNamespace(client=client))(client.pool.connection())

        assert not redis.exists("kb:flow:spans", "kb:flow:spans:until")
        assert redis.zcard("schedule") == 1


class TestThrottle:
    def test_what_is_too_much_is_left_out(self, redis):
        jids = [ping.perform_async("a") for _ in range(4)]

        assert [jid is None for jid in jids] == [False, False, True, True]
        assert ping.perform_async("b") is not None
        assert len(queued(redis)) == 3

    def test_or_is_scheduled_for_the_next_span_with_room(self, redis):
        jids = later.perform_bulk([["a"]] * 6)

        assert None not in jids
        assert [each["jid"] for each in queued(redis)] == jids[:2]
        assert all("enqueued_at" in each for each in queued(redis))
        waiting = redis.zrange("schedule", 0, -1, withscores=True)
        assert len(waiting) == 4
        assert len({at for _, at in waiting}) == 2
        assert all(at % (10 * 86_400) == 0 and at > time.time() for _, at in waiting)
        assert all("enqueued_at" not in json.loads(text) for text, _ in waiting)

    def test_a_job_for_later_counts_in_the_span_of_its_time(self, redis):
        for _ in range(3):
            ping.perform_in(30 * 86_400, "a")

        assert redis.zcard("schedule") == 2

    def test_a_span_ends(self, redis):
        ping_now = ping.set(throttle=Throttle(per_s=0.05))
        assert ping_now.perform_async("c") is not None

        wait_until(lambda: ping_now.perform_async("c") is not None)

        assert len(queued(redis)) == 2
