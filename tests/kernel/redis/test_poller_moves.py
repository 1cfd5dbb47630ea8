"""Two pollers race over random members that others change meanwhile: each moved once or left."""

import json
import random
from functools import partial

import pytest
import redis as redis_py
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.engine import poller_on
from support.proving import sized
from support.strategies import PAYLOADS
from support.waiting import at_once

from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text

NOW = 1_700_000_000.5
SETS = ("retry", "schedule")
DUE = st.one_of(st.just(NOW), st.floats(0, NOW), st.floats(NOW, NOW + 1000))


@pytest.fixture
def pollers(redis_url):
    pools = [RedisPool(redis_url) for _ in range(2)]
    yield [poller_on(pool, identity=f"host:{number}:aaa") for number, pool in enumerate(pools)]
    for pool in pools:
        pool.close_all()


def text_of(payload, number):
    complete = {"queue": "default", **payload, "mark": number}
    if complete["queue"] is None or not isinstance(complete.get("retry"), bool | int | None):
        complete["queue"] = "default"
    return json_text.dumps(complete)


def queued(redis):
    """Queue → payloads, the next to run first."""
    return {
        key.decode().removeprefix("queue:"): [
            json.loads(text) for text in redis.lrange(key, 0, -1)[::-1]
        ]
        for key in redis.keys("queue:*")
    }


@settings(
    max_examples=sized(full=250, sample=10),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large,
    ],
)  # fmt: skip
@given(
    members=st.lists(st.tuples(PAYLOADS, DUE, st.sampled_from(SETS)), max_size=60),
    seed=st.integers(0, 10**6),
)
def test_each_is_moved_exactly_once_or_left(redis, redis_url, pollers, members, seed):
    redis.flushdb()
    texts = {number: text_of(payload, number) for number, (payload, _, _) in enumerate(members)}
    for number, (_, due, source) in enumerate(members):
        redis.zadd(source, {texts[number]: due})
    rng = random.Random(seed)
    changed = rng.sample(range(len(members)), len(members) // 3)
    deleted, put_off = set(), set()

    def change():
        """As the Web UI does: delete some, put some off, whichever is still there."""
        with redis_py.Redis.from_url(redis_url) as other:
            for number in changed:
                source = members[number][2]
                if number % 2:
                    if other.zrem(source, texts[number]):
                        deleted.add(number)
                elif other.zadd(source, {texts[number]: NOW + 5000}, xx=True, ch=True):
                    put_off.add(number)

    def move(poller):
        for source in SETS:
            poller.move_due(source, NOW)

    at_once(change, *(partial(move, poller) for poller in pollers))

    moved = queued(redis)
    numbers = [payload["mark"] for payloads in moved.values() for payload in payloads]
    left = {json.loads(text)["mark"] for source in SETS for text in redis.zrange(source, 0, -1)}
    assert len(numbers) == len(set(numbers)), "moved twice"
    assert set(numbers) | left | deleted == set(range(len(members))), "lost"
    assert not set(numbers) & (left | deleted | put_off)
    for number, (_, due, _) in enumerate(members):
        if number not in deleted | put_off:
            assert (number in numbers) == (due <= NOW)
    for payloads in moved.values():
        for payload in payloads:
            original = json_text.loads(texts[payload["mark"]])
            former = {name: value for name, value in original.items() if name != "enqueued_at"}
            now = {name: payload[name] for name in former}
            assert repr(now) == repr(former)
    assert not redis.exists("dead")


@settings(
    max_examples=sized(full=200, sample=8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.floats(0, NOW), max_size=40, unique=True))
def test_the_earliest_is_the_first_of_its_queue(redis, pollers, times):
    redis.flushdb()
    for number, due in enumerate(times):
        redis.zadd("schedule", {text_of({"class": "A", "args": []}, number): due})

    pollers[0].move_due("schedule", NOW)

    order = [payload["mark"] for payload in queued(redis).get("default", [])]
    assert order == sorted(range(len(times)), key=lambda number: times[number])
