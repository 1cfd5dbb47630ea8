"""Profile `auto`: milliseconds only while all who read them are Sidekiq 8 or later."""

import json
import time

import pytest
from support.proxy import Answer, InterceptingRedis
from support.servers import embedded_server, find_free_port

from kiqbridge import Client, RedisUnavailable
from kiqbridge.store.process_set import FRESH_S, RETRY_S, FleetProfile, profile_for
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

OURS = json.dumps({"version": "kiqbridge-0.1.0", "labels": ["kiqbridge"]}).encode()


def ruby(version, **info):
    return json.dumps({"version": version, "labels": [], **info}).encode()


@pytest.mark.parametrize(
    ("infos", "profile"),
    [
        ([], "7"),
        ([None], "7"),
        ([OURS], "7"),
        ([ruby("8.1.7")], "8"),
        ([ruby("8.0.0"), ruby("8.1.7"), ruby("10.0.0"), OURS], "8"),
        ([ruby("8.1.0.beta1")], "8"),
        ([ruby("8.1.7"), None], "8"),
        ([ruby("8.1.7"), ruby("7.3.10")], "7"),
        ([ruby("7.3.10")], "7"),
        ([ruby("80")], "8"),
        ([ruby("8.1.7"), b'{"labels":[]}'], "7"),  # up to 6 no version is shown
        ([ruby("8.1.7"), b"no json"], "7"),
        ([ruby("8.1.7"), b"[]"], "7"),
        ([ruby("8.1.7"), ruby(None)], "7"),
        ([ruby("8.1.7"), ruby(8)], "7"),
        ([ruby("8.1.7"), ruby("x.1")], "7"),
        ([ruby("7.0.0", labels=["kiqbridge"]), ruby("8.1.7")], "8"),
        ([ruby("kiqbridge-0.2", labels=None), ruby("8.1.7")], "8"),
    ],
)
def test_only_where_all_ruby_processes_are_new_it_is_8(infos, profile):
    assert profile_for(infos) == profile


def beat(redis, identity, info, prefix=""):
    redis.sadd(f"{prefix}processes", identity)
    if info is not None:
        redis.hset(f"{prefix}{identity}", mapping={"info": info, "busy": 0})


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def fleet(redis_url):
    pool = RedisPool(redis_url)
    profile = FleetProfile("auto", pool, Keys(), monotonic=Clock())
    yield profile
    pool.close()


class TestAuto:
    def test_it_follows_the_fleet_within_a_minute(self, fleet, redis):
        assert fleet.current() == "7"

        beat(redis, "ruby:1:a", ruby("8.1.7"))
        beat(redis, "gone:1:a", None)
        beat(redis, "us:1:a", OURS)
        fleet._monotonic.now += FRESH_S - 1
        assert fleet.current() == "7"
        fleet._monotonic.now += 1
        assert fleet.current() == "8"

        beat(redis, "ruby:2:b", ruby("7.3.10"))
        fleet._monotonic.now += FRESH_S
        assert fleet.current() == "7"

    def test_a_client_writes_what_its_fleet_reads(self, redis_url, redis):
        beat(redis, "ruby:1:a", ruby("8.1.7"), prefix="app:")
        client = Client(redis_url, namespace="app", profile="auto")

        client.push({"class": "A", "args": []})
        client.push_once([{"class": "A", "args": []}], ["event"])
        client.push_tick("s", 4_000_000_000, [{"class": "A", "args": []}], by="test")

        payloads = [json.loads(text) for text in redis.lrange("app:queue:default", 0, -1)]
        assert len(payloads) == 3
        assert all(type(payload["created_at"]) is int for payload in payloads)
        assert all(type(payload["enqueued_at"]) is int for payload in payloads)
        assert repr(client) == f"Client({redis_url}, namespace='app:', profile='auto')"
        client.close()

    def test_the_environment_may_ask_for_it(self, redis_url, redis, monkeypatch):
        monkeypatch.setenv("KIQBRIDGE_WIRE_PROFILE", "auto")
        client = Client(redis_url)

        client.push({"class": "A", "args": []})

        assert type(json.loads(redis.lindex("queue:default", 0))["created_at"]) is float
        client.close()

    def test_one_look_up_serves_all_pushes_of_a_minute(self, server, redis):
        beat(redis, "ruby:1:a", ruby("8.1.7"))
        with InterceptingRedis(server.port) as proxy:
            client = Client(proxy.url, profile="auto")

            for _ in range(5):
                client.push_bulk({"class": "A", "args": [[1], [2]]})

            assert sum(command[0] == b"SMEMBERS" for command in proxy.commands) == 1
            client.close()


class TestTrouble:
    def test_a_slow_server_delays_a_push_but_once_and_it_is_7(self, redis):
        with embedded_server() as server:
            pool = RedisPool(server.url)
            profile = FleetProfile("auto", pool, Keys(), monotonic=Clock())
            server.pause()
            try:
                started = time.monotonic()
                assert profile.current() == "7"
                first = time.monotonic() - started
                assert profile.current() == "7"
                both = time.monotonic() - started
            finally:
                server.resume()
        assert first < 30
        assert both - first < first / 2

    def test_it_looks_again_soon_after_a_failure(self, server, redis):
        beat(redis, "ruby:1:a", ruby("8.1.7"))
        with InterceptingRedis(server.port) as proxy:
            proxy.decide = lambda _command: Answer(b"-LOADING it reads its file\r\n")
            profile = FleetProfile("auto", RedisPool(proxy.url), Keys(), monotonic=Clock())
            assert profile.current() == "7"
            proxy.decide = lambda _command: None

            profile._monotonic.now += RETRY_S

            assert profile.current() == "8"

    @pytest.mark.parametrize("reply", [b"-NOPERM no\r\n", b"-WRONGTYPE no\r\n"])
    def test_a_refusal_is_no_error_of_the_push(self, server, redis, reply):
        with InterceptingRedis(server.port) as proxy:
            proxy.decide = lambda command: Answer(reply) if command[0] == b"SMEMBERS" else None
            client = Client(proxy.url, profile="auto")

            assert client.push({"class": "A", "args": []})
            assert client.wire_profile() == "7"
            client.close()

    def test_without_a_server_the_push_tells_what_is_wrong(self):
        client = Client(f"redis://127.0.0.1:{find_free_port()}/0", profile="auto")

        assert client.wire_profile() == "7"
        with pytest.raises(RedisUnavailable, match="cannot be reached"):
            client.push({"class": "A", "args": []})
