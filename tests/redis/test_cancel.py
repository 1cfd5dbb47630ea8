"""Cancelling an iterable job, which another process, maybe Ruby's, performs (protocol §13.5)."""

import json
import time
from pathlib import Path

import pytest
from support.proxy import Answer, InterceptingRedis

from kiqbridge import Client, PayloadError

JID = "00112233445566778899aabb"
VECTORS = Path(__file__).parents[1] / "vectors"
TTL_S = 30 * 86_400
NEVER_RUN = ["hsetnx", f"it-{JID}", "c", "null"]
"""What we send besides: without it Ruby's worker fails on a job that never ran."""


@pytest.mark.parametrize(("profile", "version"), [("7", "7.3.10"), ("8", "8.1.7")])
def test_it_sends_what_sidekiq_sends_and_a_cursor(server, redis, profile, version):
    recorded = json.loads((VECTORS / f"api-{version}.json").read_text(encoding="utf-8"))
    [cancel] = [each for each in recorded["operations"] if each["operation"] == "cancel"]

    with InterceptingRedis(server.port) as proxy:
        returned = Client(proxy.url, profile=profile).cancel(JID)

    sent = [[part.decode().lower() for part in command] for command in proxy.commands]
    assert sent.pop(1) == NEVER_RUN
    assert sent[0].pop() == str(returned)
    first, *others = [[part.lower() for part in command] for command in cancel["commands"]]
    assert sent == [first[:-1], *others]
    assert returned == pytest.approx(time.time(), abs=3)
    assert type(returned) is int


def test_the_first_request_stays_and_is_answered_again(redis_url, redis):
    redis.hset(f"it-{JID}", "cancelled", 1_700_000_000)

    assert Client(redis_url).cancel(JID) == 1_700_000_000


def test_a_running_jobs_progress_is_left_alone(redis_url, redis):
    redis.hset(f"it-{JID}", mapping={"ex": 3, "c": "[7]", "rt": "1.5"})

    cancelled = Client(redis_url).cancel(JID)

    assert redis.hgetall(f"it-{JID}") == {
        b"ex": b"3",
        b"c": b"[7]",
        b"rt": b"1.5",
        b"cancelled": str(cancelled).encode(),
    }
    assert redis.ttl(f"it-{JID}") == TTL_S


def test_one_that_never_ran_has_a_cursor_that_ruby_can_read(redis_url, redis):
    Client(redis_url).cancel(JID)

    assert json.loads(redis.hget(f"it-{JID}", "c")) is None


def test_a_time_to_live_is_kept_in_profile_8_and_renewed_in_7(redis_url, redis):
    redis.hset(f"it-{JID}", "ex", 1)
    redis.expire(f"it-{JID}", 100)

    Client(redis_url, profile="8").cancel(JID)
    assert redis.ttl(f"it-{JID}") <= 100
    Client(redis_url, profile="7").cancel(JID)
    assert redis.ttl(f"it-{JID}") == TTL_S


def test_it_is_under_the_namespace(redis_url, redis):
    Client(redis_url, namespace="app").cancel(JID)

    assert redis.keys() == [f"app:it-{JID}".encode()]


def test_a_refusal_by_a_replica_is_repeated_on_a_new_connection(server, redis):
    left = [Answer(b"-READONLY You can't write against a read only replica.\r\n")]
    with InterceptingRedis(server.port) as proxy:
        proxy.decide = lambda command: left.pop() if left and command[0] == b"HSETNX" else None

        assert Client(proxy.url).cancel(JID)

        assert proxy.connections == 2


@pytest.mark.parametrize("jid", ["", None, 5, b"x", "\ud800"])
def test_what_is_no_jid_is_refused(redis_url, redis, jid):
    with pytest.raises(PayloadError, match="jid: "):
        Client(redis_url).cancel(jid)

    assert redis.dbsize() == 0
