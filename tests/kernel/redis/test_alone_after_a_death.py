"""Jobs that were in the hands of a process that died are claimed alone, however late that is."""

import pytest
from support.engine import EngineProcess, put_back

from kiqbridge.wire.keys import Keys

KEYS = Keys()
QUEUE = KEYS.queue("default")


@pytest.fixture
def claimer(redis_url):
    with EngineProcess(redis_url) as process:
        yield process.claimer()


def left(redis):
    return redis.hget(KEYS.alone, QUEUE)


def test_as_many_as_came_back_are_claimed_one_by_one_and_then_several_again(redis, claimer):
    redis.lpush(QUEUE, *(b"%d" % number for number in range(6)))
    redis.hset(KEYS.alone, QUEUE, 2)

    assert list(claimer.claim(["default"], 4).waiting) == [b"0"]
    assert left(redis) == b"1"
    assert list(claimer.claim(["default"], 4).waiting) == [b"1"]
    assert left(redis) is None
    assert claimer.claim(["default"], 4).size == 4


def test_a_claim_of_one_counts_too(redis, claimer):
    redis.lpush(QUEUE, b"0", b"1")
    redis.hset(KEYS.alone, QUEUE, 2)

    claimer.claim(["default"], 1)

    assert left(redis) == b"1"


def test_other_queues_are_not_concerned(redis, claimer):
    redis.lpush(KEYS.queue("mail"), b"0", b"1")
    redis.hset(KEYS.alone, QUEUE, 2)

    assert claimer.claim(["mail"], 4).size == 2
    assert left(redis) == b"2"


def test_what_is_given_back_lies_before_them_and_is_claimed_alone_as_well(redis, claimer):
    redis.lpush(QUEUE, b"new")
    chunk = claimer.claim(["default"], 4)
    redis.lpush(QUEUE, b"came back", b"last")  # by a recovery at this moment
    redis.hset(KEYS.alone, QUEUE, 1)

    assert put_back(claimer.connection, KEYS, chunk) == 1

    assert left(redis) == b"2"
    assert list(claimer.claim(["default"], 4).waiting) == [b"new"]
    assert list(claimer.claim(["default"], 4).waiting) == [b"came back"]
    assert left(redis) is None


def test_giving_back_counts_nothing_where_nobody_died(redis, claimer):
    redis.lpush(QUEUE, b"job")
    chunk = claimer.claim(["default"], 4)

    put_back(claimer.connection, KEYS, chunk)

    assert not redis.exists(KEYS.alone)


def test_who_takes_jobs_without_counting_leaves_no_care_behind(redis, claimer):
    redis.lpush(QUEUE, b"0", b"1")
    redis.hset(KEYS.alone, QUEUE, 50)  # Ruby has taken the other 48

    claimer.claim(["default"], 4)
    assert left(redis) == b"1"
    claimer.claim(["default"], 4)
    assert left(redis) is None


@pytest.mark.parametrize("nonsense", ["a text", "no number"])
def test_a_foreign_type_or_value_keeps_no_job_from_being_claimed(redis, claimer, nonsense):
    redis.lpush(QUEUE, b"0", b"1")
    if nonsense == "a text":
        redis.set(KEYS.alone, nonsense)
    else:
        redis.hset(KEYS.alone, QUEUE, nonsense)

    chunk = claimer.claim(["default"], 4)
    assert chunk.size == 2
    assert put_back(claimer.connection, KEYS, chunk) == 2


def test_suspects_do_not_count(redis, redis_url):
    redis.lpush(KEYS.suspects("default"), b"suspect")
    redis.hset(KEYS.alone, QUEUE, 1)
    with EngineProcess(redis_url) as process:
        process.claimer(source=KEYS.suspects).claim(["default"], 1)

    assert left(redis) == b"1"
