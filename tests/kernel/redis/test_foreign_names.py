"""Names in Redis that are no UTF-8: anybody can add them, and they are in nobody's way."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine import EngineProcess, Watch, register

from kiqbridge.client.client import Client
from kiqbridge.commands import cli
from kiqbridge.engine.pause_watch import PauseWatch
from kiqbridge.store.pauses import list_pauses
from kiqbridge.wire.keys import LAYOUT, Keys
from kiqbridge.wire.names import bytes_of, shown, text_of

KEYS = Keys()
NAME = b"caf\xe9\xff"


@given(st.binary(), st.binary())
def test_any_bytes_are_a_name_and_come_back_as_they_were(one, other):
    assert bytes_of(text_of(one)) == one
    assert (text_of(one) == text_of(other)) == (one == other)
    shown(text_of(one)).encode()  # can be written anywhere


@given(st.text())
def test_what_is_utf_8_is_shown_as_it_is(name):
    assert text_of(name.encode()) == name
    assert shown(name) == name


def test_a_connection_sends_such_a_name_as_the_bytes_that_it_was(pool, redis):
    pool.call("SADD", "names", text_of(NAME), "plain")

    assert redis.smembers("names") == {NAME, b"plain"}


def test_a_surrogate_that_no_byte_became_is_refused_as_before(pool):
    with pytest.raises(UnicodeEncodeError):
        pool.call("SADD", "names", "\ud800")


def test_a_push_that_looks_for_the_profile_passes_such_a_process_over(redis_url, redis):
    redis.sadd("processes", NAME)
    client = Client(redis_url, profile="auto")

    client.push({"class": "Note", "args": []})

    assert redis.llen("queue:default") == 1
    client.close()


def test_a_guard_that_holds_such_a_jid_answers_it(redis_url, redis):
    client = Client(redis_url)
    [first] = client.push_once([{"class": "Note", "args": []}], ["key"])
    [guard] = redis.hkeys("kb:guards")
    until = redis.hget("kb:guards", guard).partition(b" ")[0]
    redis.hset("kb:guards", guard, until + b" " + NAME)

    [second] = client.push_once([{"class": "Note", "args": []}], ["key"])

    assert second.jid == text_of(NAME)
    assert (first.duplicate, second.duplicate) == (False, True)
    client.close()


def test_such_a_pause_is_listed_and_shown(redis_url, pool, redis, monkeypatch, capsys):
    redis.sadd("paused", NAME)
    redis.sadd("queues", NAME, "default")
    redis.lpush(b"queue:" + NAME, "one", "two")
    redis.hset("kb:paused", b"class:" + NAME, json.dumps({"reason": "why"}))
    monkeypatch.setenv("REDIS_URL", redis_url)

    assert [(each.kind, each.name) for each in list_pauses(pool, KEYS)] == [
        ("queue", text_of(NAME)),
        ("class", text_of(NAME)),
    ]
    assert cli.main(["queue", "list"]) == 0
    assert cli.main(["class", "list"]) == 0
    assert cli.main(["queue", "list", "--json"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        r"caf\xe9\xff  2 jobs  paused",
        "default  0 jobs",
        r"caf\xe9\xff  paused: why",
    ]


def test_the_watch_of_the_pauses_ends_such_a_pause_and_minds_the_others(pool, redis):
    ended = json.dumps({"until": time.time() - 1})
    redis.hset("kb:paused", b"queue:" + NAME, ended)
    redis.sadd("paused", NAME)
    redis.hset("kb:paused", b"class:" + NAME, "{}")
    redis.hset("kb:paused", "class:Mail", "{}")
    watch = PauseWatch(keys=KEYS, connection=pool.connection(), track=pool.raw_connection)

    watch.look()
    watch.stop()

    assert watch.classes == {"Mail", text_of(NAME)}
    assert not redis.exists("paused")
    assert redis.hkeys("kb:paused") == [b"class:" + NAME, b"class:Mail"]


def test_a_dead_process_is_reaped_amid_such_names(redis_url, redis, monkeypatch, capsys):
    dead = register(EngineProcess(redis_url))
    redis.lpush("queue:default", "job")
    dead.claimer().claim(["default"], 1)
    redis.sadd("kb:inflight", NAME, LAYOUT.encode() + b":h\xff:1:2:3")
    redis.hset("kb:claims:" + dead.incarnation, NAME, b"1 " + NAME)
    watch = Watch(dead)

    watch.look_after(0)
    watch.look_for(20)

    assert redis.lrange("queue:default", 0, -1) == [b"job"]
    assert redis.smembers("kb:inflight") == {NAME}  # of a layout that this version does not know
    monkeypatch.setenv("REDIS_URL", redis_url)
    cli.main(["recover", "--dry-run"])
    assert r"caf\xe9\xff  unknown layout" in capsys.readouterr().out
