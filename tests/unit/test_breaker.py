"""Whether Redis, or one of several shards, is worth asking."""

import pytest

from kiqbridge import PayloadError, RedisUnavailable
from kiqbridge.aws.breaker import OPEN_S, Breaker
from kiqbridge.aws.record import Record, Result

A, B, BOTH = frozenset("a"), frozenset("b"), frozenset("ab")


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def breaker(now):
    return Breaker(lambda: now[0])


def result(error=None):
    return Result(record=Record(source="sqs", event={}), error=error)


AWAY = result(RedisUnavailable("away"))


def test_one_server_is_not_asked_for_a_while(breaker, now):
    none = frozenset()
    breaker.note([result(), AWAY], [none, none])

    assert "Redis did not answer" in str(breaker.refusal())
    now[0] += OPEN_S
    assert breaker.refusal() is None


def test_a_refusal_of_redis_says_nothing_about_its_being_there(breaker):
    breaker.note([result(PayloadError("no job"))], [frozenset()])

    assert breaker.refusal() is None


def test_a_shard_that_is_away_stops_what_asks_for_it(breaker):
    breaker.note([AWAY, result()], [A, B])

    assert "shard a did not answer" in str(breaker.refusal(A))
    assert breaker.refusal(BOTH) is not None
    assert breaker.refusal(B) is None


def test_of_two_shards_of_which_one_is_away_each_is_asked(breaker):
    breaker.note([AWAY], [BOTH])

    assert breaker.refusal(BOTH) is not None
    assert (breaker.refusal(A), breaker.refusal(B)) == (None, None)


def test_an_answer_closes_it(breaker):
    breaker.note([AWAY, AWAY], [A, BOTH])
    breaker.note([result()], [BOTH])

    assert (breaker.refusal(A), breaker.refusal(BOTH)) == (None, None)
