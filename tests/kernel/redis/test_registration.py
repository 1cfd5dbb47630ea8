"""Registering a worker while Redis is away, and the servers for which waiting does not help."""

import logging
import threading

import pytest
from support.servers import find_free_port
from support.waiting import wait_until

from kiqbridge.engine.registration import (
    LONGEST_SPREAD_S,
    SMALL_FLEET,
    register_patiently,
    spread_start,
)
from kiqbridge.errors import ConfigError, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys


@pytest.fixture
def stopping():
    return threading.Event()


def test_a_lease_that_redis_did_not_confirm_is_asked_for_again(pool, stopping, caplog):
    answers = [RedisUnavailable("the connection was lost"), None]

    def register():
        if (error := answers.pop(0)) is not None:
            raise error

    assert register_patiently(pool, Keys(), register, stopping)

    assert answers == []
    assert "the connection was lost; trying again in 0.5 s" in caplog.text


def test_a_stop_ends_the_attempts_while_redis_is_away(stopping, caplog):
    pool = RedisPool(f"redis://127.0.0.1:{find_free_port()}/0")
    registered = []
    outcome = []
    caplog.set_level(logging.ERROR, "kiqbridge.engine.registration")

    waiting = threading.Thread(
        target=lambda: outcome.append(
            register_patiently(pool, Keys(), lambda: registered.append(1), stopping)
        )
    )
    waiting.start()
    wait_until(lambda: "trying again in" in caplog.text)
    stopping.set()
    waiting.join(20)

    assert outcome == [False]
    assert registered == []


def test_a_password_that_is_refused_ends_the_start(redis_url, stopping):
    pool = RedisPool(redis_url.replace("redis://", "redis://nobody:wrong@"))

    with pytest.raises(ConfigError, match="Redis at "):
        register_patiently(pool, Keys(), lambda: None, stopping)


class TestSpreadingTheStart:
    """When hundreds of processes start at once."""

    @pytest.mark.parametrize(
        ("processes", "drawn", "wait_s"),
        [
            (SMALL_FLEET, 1.0, 0),
            *((200, 0.0, 0.0), (200, 0.5, 1.0), (200, 1.0, 2.0)),
            (3000, 1.0, LONGEST_SPREAD_S),
        ],
    )
    def test_as_many_go_on_in_each_second_up_to_some_seconds(
        self, redis, pool, processes, drawn, wait_s
    ):
        redis.sadd("kb:inflight", *(f"v2:host:{number}:a:1" for number in range(processes)))
        stopping = threading.Event()
        stopping.set()  # nobody waits for real
        assert spread_start(pool, Keys(), stopping, drawn=drawn) == wait_s

    def test_what_is_drawn_differs(self, redis, pool, stopping):
        redis.sadd("kb:inflight", *(f"v2:host:{number}:a:1" for number in range(200)))
        stopping.set()
        assert len({spread_start(pool, Keys(), stopping) for _ in range(5)}) > 1

    def test_a_key_of_a_foreign_type_does_not_hold_up_the_start(self, redis, pool):
        redis.set("kb:inflight", "no set")

        assert spread_start(pool, Keys(), threading.Event(), drawn=1.0) == 0
