"""Limiters on a real server, as jobs and other programs use them."""

import asyncio
import threading

import pytest
from support.engine import EngineProcess, register
from support.waiting import wait_until

from kiqbridge import Client
from kiqbridge.client.current import RUNTIME, Runtime
from kiqbridge.errors import OverLimit
from kiqbridge.flow import limiter
from kiqbridge.store import limits
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

    def test_who_waits_enters_when_another_leaves(self, client):
        erp = limiter.concurrent("erp", 1, wait_timeout_s=60, client=client)
        entered = threading.Event()

        def enter():
            with erp.within_limit():
                entered.set()

        with erp.within_limit():
            waiting = threading.Thread(target=enter)
            waiting.start()
            assert not entered.is_set()
        waiting.join(60)

        assert entered.is_set()

    def test_tasks_of_a_loop_share_it(self, client):
        erp = limiter.concurrent("erp", 2, wait_timeout_s=60, client=client)
        inside, most = set(), []

        async def work(number):
            async with erp.within_limit():
                inside.add(number)
                most.append(len(inside))
                await asyncio.sleep(0)
                inside.discard(number)

        async def run():
            await asyncio.gather(*map(work, range(6)))

        asyncio.run(run())

        assert len(most) == 6
        assert max(most) <= 2
        assert erp.status() is None

    def test_one_that_was_reset_is_free(self, erp):
        with erp.within_limit(), erp.within_limit():
            assert erp.reset()
            with erp.within_limit():
                pass
        assert not erp.reset()


class TestLocksOfWorkers:
    def test_they_are_free_as_soon_as_the_worker_is_not_registered(self, redis_url, in_worker):
        erp = limiter.concurrent("erp", 1, **NEVER_WAITS)
        with EngineProcess(redis_url) as process:
            dead = register(EngineProcess(redis_url, identity="host:2:bbb"))
            in_worker(dead.incarnation, erp.within_limit().__enter__)
            with pytest.raises(OverLimit):
                in_worker(process.incarnation, erp.within_limit().__enter__)

            process.pool.call("SREM", process.keys.inflight, dead.incarnation)

            within = in_worker(process.incarnation, erp.within_limit().__enter__)
            assert in_worker("", erp.status).used == 1
            within.__exit__(None, None, None)
            dead.pool.close_all()

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

    def test_one_waits_for_its_turn(self, client):
        limit = limiter.window("x", 1, per=0.05, wait_timeout_s=60, client=client)

        for _ in range(3):
            with limit.within_limit():
                pass

        wait_until(lambda: limit.status() is None)

    def test_points_are_those_of_the_answer(self, client):
        limit = limiter.points("x", 10, refill_per_s=1e-6, client=client, **NEVER_WAITS)
        with limit.within_limit(estimate=8) as used:
            used.points_used(3)
        assert round(limit.status().used, 2) == 3
        with limit.within_limit(estimate=1) as used:
            used.points_used(12)
        assert round(limit.status().used, 2) == 15

        with pytest.raises(OverLimit), limit.within_limit(estimate=0.5):
            pass

    def test_other_kinds_have_none(self, client):
        limit = limiter.leaky("x", 10, per="day", client=client)

        with limit.within_limit() as used, pytest.raises(TypeError, match="of the kind points"):
            used.points_used(1)


class TestListing:
    def test_each_has_its_kind_name_and_use(self, client):
        names = Keys("")
        with limiter.concurrent("erp", 5, client=client).within_limit():
            for make in (limiter.window, limiter.bucket, limiter.leaky):
                with make("a*b:c", 3, per=10**6, client=client).within_limit():
                    pass
            found = sorted(
                (each.kind, each.name, round(each.used, 2))
                for each in limits.list_limits(client.pool, names)
            )
            some = list(limits.list_limits(client.pool, names, most=2))

        assert found == [
            ("bucket", "a*b:c", 1),
            ("concurrent", "erp", 1),
            ("leaky", "a*b:c", 1),
            ("window", "a*b:c", 1),
        ]
        assert len(some) == 2

    def test_those_of_other_namespaces_are_not_listed(self, redis_url):
        own = Client(redis_url, namespace="app*")
        other = Client(redis_url, namespace="app-two")
        with limiter.concurrent("erp", 5, client=other).within_limit():
            assert list(limits.list_limits(own.pool, own.keys)) == []
