"""A real cluster whose slot moves and whose primary changes: nothing is half done, and tracking follows.

Jobs under such faults: test_cluster_rights.py, and with more load and more faults tests/prove/test_cluster.py.
"""

import time
from contextlib import suppress

import pytest
import redis as redis_py
from support.clusters import Cluster
from support.waiting import wait_until

from kiqbridge import Client, KiqbridgeError, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.scripts import from_text
from kiqbridge.store.tracking_connection import TrackingConnection
from kiqbridge.store.wake_connection import SAFETY_LOOK_S
from kiqbridge.wire.keys import Keys

pytestmark = [pytest.mark.slow, pytest.mark.any_server, pytest.mark.redis_server]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def empty(cluster):
    for server in cluster.living():
        with suppress(redis_py.ReadOnlyError), server.client() as raw:
            raw.flushall()
    return cluster


def test_nothing_is_half_done_while_a_slot_moves(empty):
    client = Client(empty.url, namespace="{a}", profile="8")
    pool = RedisPool(empty.url, namespace="{a}", read_timeout_s=0.5)
    client.push_bulk({"class": "X", "args": [[1], [2]]})
    pool.call("LPUSH", "{a}:processing", "p")
    target = empty.other_primary("a")
    source = empty.begin_move("a", target)
    # All its keys are there, until it needs one that it has emptied: there an unguarded script stops.
    script = from_text(
        "#!lua\n"
        "while redis.call('EXISTS', KEYS[1]) == 1 do redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'LEFT') end\n"
        "return redis.call('LLEN', KEYS[2])\n"
    )
    names = ["{a}:queue:default", "{a}:processing"]

    with pytest.raises(RedisUnavailable, match="TRYAGAIN"):
        pool.script(script, names, [], repeatable=False)
    with source.client() as raw:
        assert raw.llen(names[0]) == 2
        assert raw.lrange(names[1], 0, -1) == [b"p"]
    # One command needs one key: it is carried out wherever that is.
    client.push({"class": "X", "args": [3]})
    client.push({"class": "X", "args": [4], "queue": "new"})

    assert empty.move_keys("a", source, target) > 0
    assert pool.call("LLEN", names[0]) == 3
    assert client.push({"class": "X", "args": [5]})
    with pytest.raises(RedisUnavailable, match="TRYAGAIN"):
        pool.script(script, names, [], repeatable=False)

    empty.end_move("a", target)
    assert pool.script(script, names, [], repeatable=False) == 5
    with target.client() as raw:
        assert raw.llen("{a}:queue:new") == 1
    client.close()
    pool.close()


def test_tracking_follows_a_slot_that_moves(empty):
    pool = RedisPool(empty.url, namespace="{a}")
    tracking = TrackingConnection(pool.raw_connection)
    key = Keys("{a}").queue("default")
    assert tracking.read(("EXISTS", key)) == [0]

    for change in (empty.move, empty.fail_over):
        owner = change("a")
        began = time.monotonic()

        def tracks(owner=owner):
            with suppress(KiqbridgeError):
                tracking.read(("EXISTS", key))
                return tracking._connection.port == owner.port and tracking.tracks
            return False

        wait_until(tracks, 60, "tracking at the new owner", interval_s=0.1)
        with owner.client() as raw:
            raw.lpush(key, "x")
        assert tracking.wait(SAFETY_LOOK_S)
        with owner.client() as raw:
            raw.delete(key)
        assert time.monotonic() > began
    tracking.close()
    pool.close()
