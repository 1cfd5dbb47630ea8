"""What a worker finds out at its start about its rights: all that is missing, at once, and how to allow it."""

import logging

import pytest
from support.servers import embedded_server, without_command

from kiqbridge.engine.rights import TOLERATED, Rights
from kiqbridge.runtime.role import Troubles
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.rights import needed
from kiqbridge.wire.keys import Keys

KEYS = Keys()


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "kiqbridge.engine.rights")
    return caplog


def rights_of(url, troubles, keys=KEYS):
    return Rights(RedisPool(url), keys, troubles)


def limited(redis, server, *rules):
    """The address of a user with these rules beside all commands."""
    redis.execute_command("ACL", "SETUSER", "limited", "reset", "on", ">pw", "&*", "+@all", *rules)
    return server.url.replace("redis://", "redis://limited:pw@")


@pytest.fixture(autouse=True)
def _no_user_stays(redis):
    yield
    redis.execute_command("ACL", "DELUSER", "limited")


def test_each_command_is_named_with_what_to_run(redis, server, log):
    for name in dict.fromkeys(words[0] for words in needed("worker", KEYS)):
        log.clear()
        troubles = Troubles()
        with without_command(redis, server, name) as url:
            rights_of(url, troubles).look()

        [line] = log.messages
        assert f" refuses this worker {name.upper()}, which it needs; " in line
        assert f"ACL SETUSER poor +{name} " in line
        assert bool(list(troubles)) == (name not in TOLERATED), name
    assert redis.keys() == []


def test_all_that_is_missing_is_one_line_and_one_line_says_that_it_is_over(redis, server, log):
    url = limited(redis, server, "~*", "-zrange", "-lpush", "-multi", "+multi", "-hset")
    troubles = Troubles()
    rights = rights_of(url, troubles)
    rights.look()
    rights.look()
    [line] = log.messages
    assert "refuses this worker HSET, LPUSH, ZRANGE, which it needs" in line
    assert "ACL SETUSER limited +hset +lpush +zrange (docs/reference/security.md)" in line
    assert "pw" not in line

    redis.execute_command("ACL", "SETUSER", "limited", "+lpush", "+hset")
    rights.look()
    assert "refuses this worker ZRANGE, which" in log.messages[-1]
    redis.execute_command("ACL", "SETUSER", "limited", "+zrange")
    rights.look()

    assert log.messages[2:] == ["Redis refuses nothing to this worker any more"]
    assert list(troubles) == []


@pytest.mark.parametrize(
    ("rules", "allow"),
    [
        (("~queue*", "~kb:*", "~processes", "~stat:*", "~paused", "~retry", "~dead", "~process_cleanup", "~cron_job*",
          "~it-*", "~j|*", "~h|*", "~*-*", "~*:work", "~[^s]*"), "~schedule"),
        (("~queue*", "~kb:*"), "~*"),
    ],
)  # fmt: skip
def test_keys_are_named_and_what_is_proposed_is_accepted(redis, server, log, rules, allow):
    troubles = Troubles()
    rights = rights_of(limited(redis, server, *rules), troubles)
    rights.look()
    [line] = log.messages
    assert "schedule" in line.partition(", which it needs")[0]
    command = line.partition("allow it: ")[2].partition(" (docs/reference/security.md)")[0]
    assert allow in command.split()

    redis.execute_command(*command.split())
    rights.look()

    assert list(troubles) == []


def test_a_command_that_was_renamed_is_named():
    troubles = Troubles()
    with embedded_server(rename_command='ZRANGE ""') as server:
        rights_of(server.url, troubles).look()

    [text] = troubles
    assert "refuses this worker ZRANGE" in text
    assert "restore zrange on the server, or in the proxy in front of it (rename-command)" in text


def test_what_is_tried_is_carried_out_by_no_server(redis, server, monkeypatch):
    redis.lpush("queue:default", "job")
    redis.zadd("retry", {"job": 1})
    before = {key: redis.dump(key) for key in redis.scan_iter()}

    rights_of(server.url, Troubles()).look()

    assert {key: redis.dump(key) for key in redis.scan_iter()} == before


def test_a_server_that_is_away_says_nothing_about_rights(log):
    with embedded_server() as server:
        url = server.url
    troubles = Troubles()

    rights_of(url, troubles).look()

    assert (list(troubles), log.messages) == ([], [])


def test_the_namespace_is_part_of_what_is_proposed(redis, server):
    troubles = Troubles()
    rights_of(limited(redis, server, "~shop:queue*"), troubles, Keys("shop")).look()

    [text] = troubles
    assert "ACL SETUSER limited ~shop:* (docs/reference/security.md)" in text
