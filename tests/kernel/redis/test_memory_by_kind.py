"""What takes the memory of a server, by kind of key."""

import inspect
from inspect import signature

import pytest

from kiqbridge.api import fetch_memory_by_kind, open_operator
from kiqbridge.api import memory as memory_module
from kiqbridge.api.memory import OTHER, kind_of
from kiqbridge.wire.keys import TYPES, Keys

SAMPLES = {"day": "20260214", "minute": "14-08:3", "sequence": 1}
"""Parameter of a key → an argument, where not any text will do."""


def kinds(found):
    return {each.kind: each for each in found.kinds}


def test_each_key_that_has_a_name_here_is_ours_and_in_its_namespace_only():
    keys = Keys("shop")
    names = [getattr(keys, name) for name in TYPES]
    for name, method in inspect.getmembers(keys, inspect.ismethod):
        if not name.startswith("_"):
            given = [
                SAMPLES.get(each, "host:7:0a1b2c3d4e5f") for each in signature(method).parameters
            ]
            made = method(*given)
            names += [made] if isinstance(made, str) else made

    assert len(names) > len(TYPES) + 20
    for name in names:
        assert kind_of(name, "shop:")[1], name
        assert kind_of(name.removeprefix("shop:"), "shop:")[1] is False


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("queue:mail", "queues"),
        ("retry", "retries"),
        ("j|20260214|8:3", "metrics and counters"),
        ("Mail::Job-14-08:3", "metrics and counters"),
        ("host.example:4711:0f3a52c19d7e:work", "processes"),
        ("kb:later", OTHER),
        ("session:1:2", "foreign session:*"),
        ("queues_of_others", "foreign"),
        ("retry:count", "foreign retry:*"),
    ],
)
def test_a_key_is_of_one_kind(name, kind):
    assert kind_of(name, "") == (kind, not kind.startswith("foreign"))


def test_bytes_are_those_of_all_keys_also_where_only_some_were_measured(
    redis, operator, monkeypatch, trips
):
    monkeypatch.setattr(memory_module, "STEP", 100)
    monkeypatch.setattr(memory_module, "MOST_STEPS", 10)
    redis.mset({f"session:{number}": b"x" * 1000 for number in range(10_000)})
    redis.sadd("queues", "mail")
    redis.lpush("queue:mail", *(b"y" * 1000 for _ in range(1000)))

    found = fetch_memory_by_kind(operator)

    assert len([each for each in trips if each > 1]) <= 25  # `call` runs `run`
    assert found.is_estimate
    assert found.total == pytest.approx(10_002, abs=50)  # some of ours besides
    assert found.looked_at < 2000
    session, queues = found.kinds[:2]
    assert (session.kind, session.is_ours) == ("foreign session:*", False)
    assert session.keys == pytest.approx(10_000, rel=0.01)
    # The allocator gives some of them a larger block, so that one alone says little.
    some = sum(redis.memory_usage(f"session:{number}") for number in range(0, 10_000, 50))
    assert session.bytes == pytest.approx(50 * some, rel=0.01)
    assert (queues.largest, queues.largest_bytes) == (
        "queue:mail",
        pytest.approx(redis.memory_usage("queue:mail"), rel=0.1),
    )
    assert found.used > session.bytes + queues.bytes
    assert found.rest == found.used - sum(each.bytes for each in found.kinds)


def test_time_ends_a_reading(redis, operator, monkeypatch):
    monkeypatch.setattr(memory_module, "STEP", 10)
    redis.mset({f"session:{number}": b"x" for number in range(5_000)})

    found = fetch_memory_by_kind(operator, most_s=0.0)

    assert 0 < found.looked_at < 500
    assert kinds(found)["foreign session:*"].keys == pytest.approx(5_000, rel=0.02)


def test_one_huge_value_is_not_taken_for_many(redis, operator, monkeypatch):
    monkeypatch.setattr(memory_module, "STEP", 10)
    redis.mset({f"session:{number}": b"x" for number in range(5_000)})
    _, [huge, *_] = redis.scan(0, count=10)  # one of those that are measured
    redis.set(huge, b"x" * 1_000_000)

    found = kinds(fetch_memory_by_kind(operator, most_s=0.0))["foreign session:*"]

    assert found.largest == huge.decode()
    assert 1_000_000 < found.bytes < 3_000_000


def test_many_small_foreign_kinds_are_one(redis, operator):
    redis.mset({f"of-{number}:x": b"x" for number in range(50)} | {"big:1": b"x" * 10_000})

    found = fetch_memory_by_kind(operator)

    assert not found.is_estimate
    assert (
        found.kinds[0].kind == "foreign, 46 other kinds" or found.kinds[0].kind == "foreign big:*"
    )
    assert sum(each.keys for each in found.kinds if not each.is_ours) == 51
    assert len(found.kinds) <= 8


def test_an_empty_server(operator):
    found = fetch_memory_by_kind(operator)

    assert found.used > 0
    assert not found.is_estimate


def test_a_user_of_one_namespace_is_refused_one_foreign_key_and_no_more(redis, redis_url):
    redis.mset({f"session:{number}": b"x" * 1000 for number in range(100)})
    redis.sadd("shop:queues", "mail")
    redis.lpush("shop:queue:mail", b"y" * 1000)
    redis.execute_command("ACL", "SETUSER", "few", "on", ">pw", "~shop:*", "+@all")
    redis.execute_command("ACL", "LOG", "RESET")
    try:
        operator = open_operator(redis_url.replace("://", "://few:pw@"), namespace="shop")

        found = kinds(fetch_memory_by_kind(operator))

        operator.client.close()
        assert found["queues"].bytes > 1000
        assert (found["foreign session:*"].keys, found["foreign session:*"].bytes) == (100, 0)
        assert len(redis.execute_command("ACL", "LOG")) == 1
    finally:
        redis.execute_command("ACL", "DELUSER", "few")
