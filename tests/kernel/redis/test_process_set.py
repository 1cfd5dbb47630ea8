"""The set of processes: what is read of them, and how they leave it."""

import pytest

from kiqbridge.store.process_set import read_infos, remove_gone, sign_off
from kiqbridge.wire.keys import Keys

KEYS = Keys()


def show(redis, identity, info="{}"):
    redis.sadd("processes", identity)
    if info is not None:
        redis.hset(identity, mapping={"info": info, "beat": 1.0})
    redis.hset(f"{identity}:work", "tid", "{}")
    redis.hset(f"{identity}:workers", "tid", "{}")


def test_the_infos_of_all_processes_are_read_also_of_those_whose_hash_is_gone(connection, redis):
    show(redis, "alive", '{"a":1}')
    show(redis, "gone", None)

    assert read_infos(connection.run, KEYS) == {"alive": b'{"a":1}', "gone": None}


def test_without_processes_nothing_more_is_asked_for(connection):
    calls = []

    def run(*commands):
        calls.append(commands)
        return connection.run(*commands)

    assert read_infos(run, KEYS) == {}
    assert calls == [(("SMEMBERS", "processes"),)]


@pytest.mark.parametrize(("options", "left"), [({}, [b"one"]), ({"with_hash": True}, [])])
def test_who_signs_off_leaves_the_set_and_its_hash_ends_by_itself_or_at_once(
    connection, redis, options, left
):
    show(redis, "one")
    show(redis, "other")

    sign_off(connection, KEYS, "one", **options)

    assert redis.smembers("processes") == {b"other"}
    assert redis.keys("one*") == left
    assert len(redis.keys("other*")) == 3


def test_processes_without_a_hash_are_removed_once_a_minute_and_the_others_stay(connection, redis):
    show(redis, "alive")
    show(redis, "gone", None)

    remove_gone(connection, KEYS)

    assert redis.smembers("processes") == {b"alive"}
    assert 0 < redis.ttl("process_cleanup") <= 60
    show(redis, "gone later", None)
    remove_gone(connection, KEYS)
    assert redis.smembers("processes") == {b"alive", b"gone later"}


def test_of_a_large_fleet_some_are_read_that_are_drawn_at_random(redis, connection):
    for number in range(20):
        redis.sadd("processes", f"p{number}")
        redis.hset(f"p{number}", "info", "{}")

    drawn = [frozenset(read_infos(connection.run, KEYS, most=5)) for _ in range(20)]

    assert {len(names) for names in drawn} == {5}
    assert len(set(drawn)) > 1
    assert len(read_infos(connection.run, KEYS, most=100)) == 20
