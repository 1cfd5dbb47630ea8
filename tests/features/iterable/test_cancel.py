"""Cancelling an iterable job, which another process, maybe Ruby's, performs (protocol §13.5)."""

import time

import pytest
from support.proxy import InterceptingRedis
from support.vectors import FILES, of_kind, profile_of

from kiqbridge import Client, PayloadError

JID = "00112233445566778899aabb"

TTL_S = 30 * 86_400


@pytest.mark.parametrize(("file", "operation"), of_kind("cancel"))
def test_a_cancel_sends_the_recorded_commands(file, operation, server, redis):
    recorded = FILES[file][operation]
    before = int(time.time())

    with InterceptingRedis(server.port) as proxy:
        client = Client(proxy.url, profile=profile_of(file))
        requested = client.cancel(JID)
        client.close()

    theirs = str(recorded["result"]["return"]).encode()
    commands = [[part.lower() for part in command] for command in proxy.commands]  # NX as nx
    # An addition: without a cursor a Ruby worker fails on a job that was cancelled before its run.
    commands.remove([b"hsetnx", f"it-{JID}".encode(), b"c", b"null"])
    assert before <= requested <= time.time()
    assert [
        [theirs if part == str(requested).encode() else part for part in command]
        for command in commands
    ] == [[part.encode() for part in command] for command in recorded["commands"]]


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


def test_a_time_to_live_is_kept_in_profile_8_and_renewed_in_7(redis_url, redis):
    redis.hset(f"it-{JID}", "ex", 1)
    redis.expire(f"it-{JID}", 100)

    Client(redis_url, profile="8").cancel(JID)
    assert redis.ttl(f"it-{JID}") <= 100
    Client(redis_url, profile="7").cancel(JID)
    assert redis.ttl(f"it-{JID}") == TTL_S


@pytest.mark.parametrize("jid", ["", None, 5, b"x", "\ud800"])
def test_what_is_no_jid_is_refused(redis_url, redis, jid):
    with pytest.raises(PayloadError, match="jid: "):
        Client(redis_url).cancel(jid)

    assert redis.dbsize() == 0
