"""Whether Redis is worth asking."""

import pytest

from kiqbridge import PayloadError, RedisUnavailable
from kiqbridge.aws.record import Record, Result
from kiqbridge.features.spill.pusher import OPEN_S, Breaker


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def breaker(now):
    return Breaker(lambda: now[0])


def result(error=None):
    return Result(record=Record(source="sqs", event={}), error=error)


AWAY = result(RedisUnavailable("away"))


def test_a_server_that_is_away_is_not_asked_for_a_while(breaker, now):
    assert breaker.refusal() is None
    breaker.note([result(), AWAY])

    assert "Redis did not answer" in str(breaker.refusal())
    now[0] += OPEN_S
    assert breaker.refusal() is None


def test_a_refusal_of_redis_opens_it_not_and_an_answer_closes_it(breaker):
    breaker.note([result(PayloadError("no job"))])
    assert breaker.refusal() is None
    breaker.note([AWAY])
    breaker.note([result()])
    assert breaker.refusal() is None
