"""Jobs with identical bytes: in a sorted set they would be one member, and all but one were lost."""

import json
from contextlib import suppress

import pytest

from kiqbridge.engine.settle.settling import acknowledge, settle_all
from kiqbridge.errors import RedisUnavailable
from kiqbridge.store.due_jobs import Buried, bury
from kiqbridge.wire import json_text

TWIN = b'{"class":"A","args":[],"jid":"the same"}'


def settle_twins(redis, process, count, target="retry", text=TWIN):
    redis.lpush("queue:default", *[text] * count)
    claimer = process.claimer(f"t{count}")
    left = count
    while left:
        chunk = claimer.claim(["default"], 100)
        jobs = [(text, 1.5, text, ())] * chunk.size
        assert all(settle_all(process.connect(), process.keys, chunk, jobs, target=target))
        left -= chunk.size


def test_each_twin_is_kept_with_its_score_and_reads_the_same(redis, process):
    settle_twins(redis, process, 500)

    members = redis.zrange("retry", 0, -1, withscores=True)
    assert len(members) == 500
    assert TWIN in dict(members)  # the first one keeps its bytes
    assert {score for _, score in members} == {1.5}
    assert {member.rstrip(b" \t\n") for member, _ in members} == {TWIN}
    assert [json_text.loads(member) for member, _ in members] == [json.loads(TWIN)] * 500
    assert max(len(member) for member, _ in members) <= len(TWIN) + 6  # 3 + 9 + 27 + … > 500


def test_places_that_became_free_are_taken_again(redis, process):
    settle_twins(redis, process, 40)
    redis.zrem("retry", TWIN, TWIN + b"\t", TWIN + b"  ")

    settle_twins(redis, process, 10)

    assert redis.zcard("retry") == 47


def test_a_few_steps_find_a_free_place_among_many(redis, process):
    settle_twins(redis, process, 1000)
    redis.config_resetstat()

    settle_twins(redis, process, 1)

    assert redis.info("commandstats")["cmdstat_zscore"]["calls"] < 30


def test_texts_that_are_no_jobs_are_kept_each_as_well(redis, process):
    settle_twins(redis, process, 30, target="dead", text=b"{nonsense")

    assert redis.zcard("dead") == 30


def test_a_settlement_that_is_repeated_adds_nothing(redis, process):
    redis.lpush("queue:default", TWIN)
    chunk = process.claimer().claim(["default"], 1)
    connection = process.connect()

    for expected in (True, False, False):
        [is_ours] = settle_all(
            connection, process.keys, chunk, [(TWIN, 1.0, TWIN, ())], target="retry"
        )
        assert is_ours is expected

    assert redis.zrange("retry", 0, -1) == [TWIN]


def test_the_poller_buries_none_on_top_of_another(redis, process):
    redis.zadd("dead", {"{nonsense": 1.0})
    redis.zadd("schedule", {"{nonsense": 1.0})

    moved = bury(
        process.connect(),
        process.keys,
        "schedule",
        [Buried(b"{nonsense", b"{nonsense")],
        now=2.0,
    )

    assert moved == 1
    assert redis.zrange("dead", 0, -1, withscores=True) == [
        (b"{nonsense", 1.0),
        (b"{nonsense ", 2.0),
    ]
    assert not redis.exists("schedule")


@pytest.mark.parametrize("lost", [{1}, {1, 2}, {2}])
def test_a_repeated_acknowledgement_leaves_a_twin_that_is_not_finished(redis, process, lost):
    redis.lpush("queue:default", TWIN, TWIN, b"another", TWIN)
    chunk = process.claimer().claim(["default"], 4)
    chunk.share(lambda: None)
    connection = process.connect()
    connection.lose = lost

    for _ in range(3):
        with suppress(RedisUnavailable):
            acknowledge(connection, process.keys, [(chunk, TWIN)])
    chunk.gone(TWIN)

    assert sorted(redis.lrange(chunk.list_key, 0, -1)) == [b"another", TWIN, TWIN]
    acknowledge(connection, process.keys, [(chunk, TWIN), (chunk, b"another"), (chunk, TWIN)])
    assert not redis.exists(chunk.list_key)
