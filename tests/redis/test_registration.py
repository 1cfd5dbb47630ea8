"""Registering a worker while Redis is away, and the servers for which waiting does not help."""

import logging
import threading

import pytest
from support.servers import find_free_port
from support.waiting import wait_until

from kiqbridge.engine.registration import register_patiently
from kiqbridge.errors import ConfigError, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys


@pytest.fixture
def stopping():
    return threading.Event()


@pytest.fixture
def pool(redis_url):
    pool = RedisPool(redis_url)
    yield pool
    pool.close()


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
