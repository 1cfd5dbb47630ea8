"""Locks of this process: renewed while it lives, and given back even where Redis is away."""

import pytest
from support.waiting import wait_until

from kiqbridge.errors import JobTimeout, RedisUnavailable, Shutdown
from kiqbridge.flow import limiter_locks
from kiqbridge.flow.limiter_locks import Held, Keeper
from kiqbridge.store.limits import Lock, take_lock
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

KEYS = Keys("")
KEY = KEYS.limit("concurrent", "erp")


class Cut:
    """Connections that a test cuts."""

    def __init__(self, pool):
        self.pool = pool
        self.is_down = False

    def call(self, *command):
        return self._real().call(*command)

    def script(self, *args, **options):
        return self._real().script(*args, **options)

    def _real(self):
        if self.is_down:
            raise RedisUnavailable("cut, by the test's will")
        return self.pool


@pytest.fixture
def cut(redis_url):
    pool = RedisPool(redis_url)
    yield Cut(pool)
    pool.close_all()


def taken(pool, token="t1", owner=""):
    lock = Lock(pool=pool, key=KEY, token=token, valid_s=30, owner=owner)
    assert take_lock(lock, KEYS, 5).taken
    return lock


def valid_until(redis, token="t1"):
    return int(redis.hget(KEY, token).split()[1])


def test_a_lock_is_renewed_when_a_third_of_its_time_is_over(cut, redis):
    held = Held(taken(cut), pid=1, renew_at=100.0)
    keeper = Keeper()
    keeper.receive(held)
    before = valid_until(redis)

    keeper.look(99.0)
    assert valid_until(redis) == before
    assert keeper.next_s(99.0) == 1
    keeper.look(100.0)

    assert valid_until(redis) > before
    assert keeper.next_s(100.0) == 10


def test_while_redis_is_away_it_is_tried_each_second(cut, redis):
    held = Held(taken(cut), pid=1, renew_at=100.0)
    keeper = Keeper()
    keeper.receive(held)
    cut.is_down = True

    keeper.look(100.0)

    assert keeper.next_s(100.0) == limiter_locks.RETRY_S


def test_one_that_was_lost_is_named_once_and_not_renewed_any_more(cut, redis, caplog):
    keeper = Keeper()
    keeper.receive(Held(taken(cut), pid=1, renew_at=100.0))
    redis.delete(KEY)

    keeper.look(100.0)
    keeper.look(200.0)

    assert [each.getMessage()[:36] for each in caplog.records] == [f"a lock of {KEY} was lost"[:36]]
    assert keeper.next_s(200.0) is None
    assert not redis.exists(KEY)


def test_one_that_is_over_is_not_renewed(cut, redis):
    held = Held(taken(cut), pid=1, renew_at=100.0)
    keeper = Keeper()
    keeper.receive(held)
    held.is_over = True
    redis.delete(KEY)

    keeper.look(100.0)

    assert keeper.next_s(100.0) is None


def test_what_could_not_be_given_back_is_given_back_later(cut, redis, caplog):
    held = limiter_locks.hold(taken(cut, owner="v2:host:1:aaa:1"))
    cut.is_down = True

    limiter_locks.give_back(held)
    assert redis.hlen(KEY) == 1
    cut.is_down = False

    wait_until(lambda: not redis.exists(KEY), 30, what="the lock given back")
    assert "is given back later" in caplog.text


def test_it_is_given_back_once(cut, redis):
    held = limiter_locks.hold(taken(cut))
    limiter_locks.give_back(held)
    taken(cut)

    limiter_locks.give_back(held)

    assert redis.hlen(KEY) == 1


def test_what_was_forked_since_does_not_give_back_its_parents_lock(cut, redis):
    held = limiter_locks.hold(taken(cut))
    held.pid += 1

    limiter_locks.give_back(held)

    assert redis.hlen(KEY) == 1
    held.pid -= 1
    limiter_locks.give_back(held)


@pytest.mark.parametrize("interruption", [JobTimeout, Shutdown])
def test_one_whose_job_is_interrupted_while_it_gives_it_back_is_given_back_later(
    cut, redis, interruption
):
    held = limiter_locks.hold(taken(cut, interruption.__name__, owner="host:1:aaa:1"))
    call = cut.call
    answers = iter([interruption])  # raised at the end of a call that Redis has not answered

    def interrupted_once(*command):
        error = next(answers, None)
        if error is not None:
            raise error
        return call(*command)

    cut.call = interrupted_once
    with pytest.raises(interruption):
        limiter_locks.give_back(held)

    wait_until(lambda: not redis.exists(KEY))
