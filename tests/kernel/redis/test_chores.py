"""The chores of the kernel, as the leader does them."""

from types import SimpleNamespace

import pytest

from kiqbridge import seams
from kiqbridge.engine.leader import OF_THE_KERNEL, Leader
from kiqbridge.feature import Feature
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

CHORES = [each for each in OF_THE_KERNEL.chores if each.name.startswith("removing ")]
"""They need no more of a worker than its keys."""


@pytest.fixture
def leading(redis_url):
    pool, features = RedisPool(redis_url), [Feature(package=OF_THE_KERNEL.package, chores=CHORES)]
    yield Leader(
        lambda: seams.chores(["leader"], SimpleNamespace(keys=Keys()), features),
        connection=pool.connection(),
        leads=lambda: True,
    )
    pool.close()


def test_what_is_over_is_removed_and_what_is_not_stays(redis, leading):
    redis.sadd("processes", "gone:1:aaa", "here:2:bbb")
    redis.hset("here:2:bbb", "info", "{}")
    redis.hset("kb:guards", mapping={"key:1:A:old": "1000 j", "key:1:A:new": "9999999999 j"})
    redis.zadd("kb:guards:until", {"key:1:A:old": 1000, "key:1:A:new": 9_999_999_999})
    redis.zadd("kb:ledgers", {"gone": 1000, "lives": 9_999_999_999})
    for name in ("gone", "lives"):
        redis.zadd(f"kb:ticks:{name}", {"{}": 500})

    leading.run_due()

    assert redis.smembers("processes") == {b"here:2:bbb"}
    assert 0 < redis.ttl("process_cleanup") <= 60
    assert redis.zrange("kb:ledgers", 0, -1) == [b"lives"]
    assert redis.hkeys("kb:guards") == [b"key:1:A:new"]
    assert redis.zrange("kb:guards:until", 0, -1) == [b"key:1:A:new"]
    assert redis.exists("kb:ticks:lives") and not redis.exists("kb:ticks:gone")


@pytest.mark.parametrize("key", ["kb:guards:until", "kb:ledgers"])
def test_a_key_of_a_foreign_type_is_reported_and_holds_up_no_other_chore(
    redis, leading, caplog, key
):
    redis.set(key, "not what it should be")
    redis.sadd("processes", "gone:1:aaa")

    leading.run_due()

    assert "chores: removing guards and ledgers that are over fails: " in caplog.text
    assert not redis.exists("processes")
