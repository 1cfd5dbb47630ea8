"""A link that is slow, or that long calls do not get through: nothing stops, and the log says so."""

import json
import logging

import pytest
from support.engine import poller_on
from support.proxy import UnsteadyProxy
from support.waiting import wait_until

from kiqbridge.errors import RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import ReplyLost
from kiqbridge.wire.batches import BATCH_BYTES

pytestmark = pytest.mark.any_server

SILENCE_S = 0.5


def connect(proxy, timeout_s=SILENCE_S):
    return RedisPool(proxy.url, read_timeout_s=timeout_s).connection()


class TestASlowLink:
    @pytest.mark.slow
    def test_a_long_call_takes_longer_than_the_timeout_and_gets_through(self, server, redis):
        text = b"x" * 1_200_000
        with UnsteadyProxy(server.port, bytes_per_s=200_000) as proxy:  # 6 s
            connection = connect(proxy, timeout_s=1.5)

            assert connection.call("RPUSH", "list", text) == 1

            assert connection.batch_bytes == BATCH_BYTES
            connection.close()
        assert redis.lrange("list", 0, -1) == [text]


class TestALinkThatLongCallsDoNotGetThrough:
    def test_a_long_call_is_not_repeated_as_it_is_and_a_warning_says_what_follows(
        self, server, caplog
    ):
        with UnsteadyProxy(server.port, most_bytes=300_000) as proxy:
            connection = connect(proxy)

            with pytest.raises(RedisUnavailable):
                connection.call("RPUSH", "list", b"x" * 800_000)

            assert proxy.stuck == 1
            assert 200_000 <= connection.batch_bytes < 200_100
            [record] = caplog.records
            assert record.levelno == logging.WARNING
            assert "a call of 800,0" in record.getMessage()
            assert f"have {connection.batch_bytes:,} bytes at most now" in record.getMessage()

    def test_what_must_not_be_repeated_is_in_doubt(self, server):
        with UnsteadyProxy(server.port, most_bytes=300_000) as proxy:
            with pytest.raises(ReplyLost):
                connect(proxy).run(("RPUSH", "list", b"x" * 800_000), repeatable=False)

            assert proxy.stuck == 1

    def test_batches_grow_again_with_each_that_gets_through(self, server):
        with UnsteadyProxy(server.port, most_bytes=300_000) as proxy:
            connection = connect(proxy)
            with pytest.raises(RedisUnavailable):
                connection.call("RPUSH", "list", b"x" * 800_000)
            proxy.most_bytes = None
            sizes = []

            while connection.batch_bytes < BATCH_BYTES:
                connection.call("RPUSH", "list", b"x" * connection.batch_bytes)
                sizes.append(connection.batch_bytes)

            assert sizes == sorted(set(sizes))
            assert sizes[-1] == BATCH_BYTES

    @pytest.mark.slow
    def test_the_poller_moves_all_that_is_due(self, server, redis):
        members = [text_of(number, "x" * 9_900) for number in range(150)]  # 1.5 MB
        redis.zadd("schedule", dict.fromkeys(members, 1.0))
        with UnsteadyProxy(server.port, most_bytes=300_000) as proxy:
            pool = RedisPool(proxy.url, read_timeout_s=SILENCE_S)
            poller = poller_on(pool)
            poller.start()
            try:
                wait_until(lambda: redis.llen("queue:default") == len(members), 60)
            finally:
                poller.stop()
                pool.close_all()
        numbers = [json.loads(text)["args"][0] for text in redis.lrange("queue:default", 0, -1)]
        assert sorted(numbers) == list(range(150))
        assert not redis.exists("schedule")


def text_of(number, data):
    return json.dumps(
        {"class": "Nop", "args": [number, data], "jid": f"jid-{number}", "queue": "default",
         "retry": True, "created_at": 1.5}
    )  # fmt: skip
