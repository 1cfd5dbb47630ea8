"""The steps of the poller on Redis: reading what is due, moving it, and burying what is no job."""

import pytest

from kiqbridge.errors import RedisRefused
from kiqbridge.store.due_jobs import promote, read_due
from kiqbridge.wire.keys import Keys

KEYS = Keys()


def test_what_is_due_is_read_from_the_first_on_without_what_is_left_out(connection, redis):
    redis.zadd("schedule", {"a": 1, "b": 2, "c": 3, "later": 11})

    assert read_due(connection, "schedule", 10.0) == [b"a", b"b", b"c"]
    assert read_due(connection, "schedule", 10.0, left_out=2) == [b"c"]
    assert read_due(connection, "schedule", 10.0, left_out=3) == []


def test_jobs_are_moved_once_however_often_the_call_is_repeated(connection, redis):
    redis.zadd("schedule", {"a": 1, "b": 2, "c": 3})
    jobs = {"mail": ([b"a", b"b"], [b"A", b"B"]), "low": ([b"c"], [b"C"])}

    assert promote(connection, KEYS, "schedule", jobs, now=10.0) == 3
    assert promote(connection, KEYS, "schedule", jobs, now=10.0) == 0

    assert redis.lrange("queue:mail", 0, -1) == [b"B", b"A"]
    assert redis.lrange("queue:low", 0, -1) == [b"C"]
    assert redis.smembers("queues") == {b"mail", b"low"}
    assert not redis.exists("schedule")


def test_a_job_that_was_rescheduled_or_deleted_meanwhile_is_left_alone(connection, redis):
    redis.zadd("schedule", {"rescheduled": 99})
    jobs = {"mail": ([b"rescheduled", b"deleted"], [b"A", b"B"])}

    assert promote(connection, KEYS, "schedule", jobs, now=10.0) == 0

    assert redis.keys() == [b"schedule"]


def test_a_queue_of_a_foreign_type_keeps_its_jobs_waiting_and_no_others(connection, redis):
    redis.zadd("schedule", {"a": 1, "b": 2})
    redis.set("queue:mail", "not a list")

    moved = promote(
        connection, KEYS, "schedule", {"mail": ([b"a"], [b"A"]), "low": ([b"b"], [b"B"])}, now=10.0
    )

    assert moved == 1
    assert redis.zrange("schedule", 0, -1) == [b"a"]
    assert redis.lrange("queue:low", 0, -1) == [b"B"]
    assert redis.smembers("queues") == {b"low"}


def test_names_of_queues_of_a_foreign_type_let_nothing_be_moved(connection, redis):
    redis.zadd("schedule", {"a": 1})
    redis.set("queues", "not a set")

    with pytest.raises(RedisRefused, match="WRONGTYPE queues is a string, not a set"):
        promote(connection, KEYS, "schedule", {"mail": ([b"a"], [b"A"])}, now=10.0)

    assert redis.zrange("schedule", 0, -1) == [b"a"]
    assert not redis.exists("queue:mail")


def test_what_middleware_stopped_is_removed_if_it_is_still_due(connection, redis):
    redis.zadd("schedule", {"stopped": 1, "rescheduled": 99})

    moved = promote(
        connection, KEYS, "schedule", {}, now=10.0, dropped=[b"stopped", b"rescheduled"]
    )

    assert moved == 1
    assert redis.zrange("schedule", 0, -1) == [b"rescheduled"]
