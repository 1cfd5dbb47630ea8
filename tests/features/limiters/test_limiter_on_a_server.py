"""Limiters on a real server, as jobs and other programs use them."""

import threading
from contextlib import ExitStack

import pytest
from support.engine import EngineProcess
from support.waiting import wait_until

from kiqbridge import Client
from kiqbridge.api import open_operator
from kiqbridge.client.current import RUNTIME, Runtime
from kiqbridge.errors import JobTimeout, OverLimit, RedisRefused, RedisUnavailable, Shutdown
from kiqbridge.features.limiters import locks as limiter_locks
from kiqbridge.features.limiters.locks import Held, Keeper
from kiqbridge.features.limiters.overview import list_limiters
from kiqbridge.features.limiters.store import Lock, take_lock
from kiqbridge.flow import limiter
from kiqbridge.runtime.role import OF_PROCESS
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

NEVER_WAITS = {"wait_timeout_s": 0}


@pytest.fixture
def erp(client):
    return limiter.concurrent("erp", 2, client=client, **NEVER_WAITS)


@pytest.fixture
def in_worker(redis_url):
    """Calls within a worker that is registered under the given incarnation, from a thread of it."""
    pool = RedisPool(redis_url)
    client = Client(pool=pool, namespace="")

    def call(incarnation, function):
        runtime = Runtime(
            client=client,
            redis=pool,
            is_stopping=lambda: False,
            timeout_s=25,
            max_iteration_runtime_s=None,
            incarnation=lambda: incarnation,
        )
        token = RUNTIME.set(runtime)
        try:
            return function()
        finally:
            RUNTIME.reset(token)

    yield call
    pool.close_all()


class TestConcurrent:
    def test_so_many_enter_and_the_next_one_when_one_has_left(self, erp, redis):
        first, second = erp.within_limit(), erp.within_limit()
        first.__enter__()
        with second:
            with pytest.raises(OverLimit, match=r"erp \(concurrent\)"), erp.within_limit():
                pass
            assert erp.status().used == 2
        with erp.within_limit():
            assert erp.status().used == 2
        first.__exit__(None, None, None)

        assert erp.status() is None
        assert not redis.keys("*")

    def test_one_that_was_reset_is_free(self, erp):
        with erp.within_limit(), erp.within_limit():
            assert erp.reset()
            with erp.within_limit():
                pass
        assert not erp.reset()


class TestLocksOfWorkers:
    def test_they_need_no_renewal(self, redis_url, in_worker):
        erp = limiter.concurrent("erp", 1, lock_timeout_s=1, **NEVER_WAITS)
        before = {each.name for each in threading.enumerate()}
        with EngineProcess(redis_url) as process:
            within = in_worker(process.incarnation, erp.within_limit().__enter__)
            [lock] = process.pool.call("HVALS", process.keys.limit("concurrent", "erp"))
            within.__exit__(None, None, None)

        assert lock.endswith(b" " + process.incarnation.encode())
        assert {each.name for each in threading.enumerate()} - before <= {"kiqbridge-lease"}


class TestRates:
    @pytest.mark.parametrize(
        "make",
        [
            lambda client: limiter.window("x", 2, per="day", client=client, **NEVER_WAITS),
            lambda client: limiter.bucket("x", 2, per=10**9, client=client, **NEVER_WAITS),
            lambda client: limiter.leaky("x", 2, per="day", client=client, **NEVER_WAITS),
            lambda client: limiter.points("x", 2, refill_per_s=1e-5, client=client, **NEVER_WAITS),
        ],
    )
    def test_so_many_pass_and_leaving_gives_nothing_back(self, make, client):
        limit = make(client)
        for _ in range(2):
            with limit.within_limit():
                pass

        with pytest.raises(OverLimit) as raised, limit.within_limit():
            pass

        assert raised.value.wait_s > 0
        assert round(limit.status().used, 2) == 2
        assert limit.reset()
        with limit.within_limit():
            pass

    def test_other_kinds_have_none(self, client):
        limit = limiter.leaky("x", 10, per="day", client=client)

        with limit.within_limit() as used, pytest.raises(TypeError, match="of the kind points"):
            used.points_used(1)


class TestReading:
    def test_each_kind_says_what_is_taken_and_when_it_is_free(self, client):
        with ExitStack() as held:
            made = [limiter.concurrent("erp", 1, client=client)]
            made += [make("a*b:c", 2, per=10**6, client=client) for make in PERIODIC]
            for each in made:
                held.enter_context(each.within_limit())
            held.enter_context(made[1].within_limit())
            found = {each.kind: each.status() for each in made}

        assert {kind: (round(each.used, 2), each.is_full) for kind, each in found.items()} == {
            "bucket": (1, False),
            "concurrent": (1, True),
            "leaky": (1, False),
            "window": (2, True),
        }
        assert found["concurrent"].room_in_s == 0
        assert 10**6 - 100 < found["window"].room_in_s < found["window"].free_in_s <= 10**6
        assert 0 < found["bucket"].free_in_s <= 10**6
        assert round(found["leaky"].free_in_s, -3) == 500_000

    def test_a_void_lock_is_not_taken(self, client, redis):
        redis.hset(KEYS.limit("concurrent", "erp"), mapping={"a": "1 2 ", "b": "1 2 v2:gone"})

        assert limiter.concurrent("erp", 1, client=client).status() is None

    def test_those_of_other_namespaces_are_not_listed(self, redis_url, redis):
        own = open_operator(redis_url, namespace="app*")
        other = Client(redis_url, namespace="app-two")
        with limiter.concurrent("erp", 5, client=other).within_limit():
            wait_until(lambda: redis.exists("app-two:kb:limiters"))
            assert list_limiters(own).total == 0


PERIODIC = (limiter.window, limiter.bucket, limiter.leaky)
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


def test_while_the_server_refuses_its_renewal_the_worker_is_not_ready(cut, redis, caplog):
    keeper = Keeper()
    keeper.receive(Held(taken(cut), pid=1, renew_at=100.0))

    def refused(*_args):
        raise RedisRefused("NOPERM No permissions to access a key")

    cut.script = refused
    for now in (100.0, 200.0):
        keeper.look(now)
    reason = "locks of limiters are neither renewed nor given back: NOPERM"
    assert [each[: len(reason)] for each in OF_PROCESS] == [reason]
    assert caplog.text.count(reason) == 1

    del cut.script
    keeper.look(300.0)

    assert list(OF_PROCESS) == []


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
