"""Reports that wait in Redis: taken, removed, put off."""

import pytest

from kiqbridge.features.step_functions.waiting import (
    has_reports,
    put_off_report,
    remove_report,
    replace_report,
    take_reports,
)

NOW = 1_700_000_000.5
REPORTS = "kb:reports"


def test_what_is_taken_is_left_alone_for_a_while(redis, process):
    redis.zadd(REPORTS, {"a": 0, "b": 0, "c": 0})
    connection, keys = process.connect(), process.keys

    first = take_reports(connection, keys, most=2, for_s=60)
    second = take_reports(connection, keys, most=2, for_s=60)

    assert (list(first.texts), list(second.texts)) == ([b"a", b"b"], [b"c"])
    assert take_reports(connection, keys, most=2, for_s=60).texts == []
    assert redis.zscore(REPORTS, "a") == pytest.approx(first.now + 60, abs=0.01)


def test_it_is_due_again_after_that_time(redis, process):
    redis.zadd(REPORTS, {"a": 0})
    connection, keys = process.connect(), process.keys

    take_reports(connection, keys, most=1, for_s=-1)

    assert list(take_reports(connection, keys, most=1, for_s=60).texts) == [b"a"]


def test_what_was_taken_before_the_clock_of_the_server_was_set_back_is_due(redis, process):
    connection, keys = process.connect(), process.keys
    now = redis.time()[0]
    redis.zadd(REPORTS, {"taken": now + 30, "before": now + 600})

    assert list(take_reports(connection, keys, most=5, for_s=60).texts) == [b"before"]
    assert list(take_reports(connection, keys, most=5, for_s=60).texts) == []


def test_there_are_some_until_the_last_is_removed(redis, process):
    connection, keys = process.connect(), process.keys
    assert not has_reports(connection, keys)
    redis.zadd(REPORTS, {"a": 0})
    assert has_reports(connection, keys)

    remove_report(connection, keys, b"a")

    assert not has_reports(connection, keys)


def test_one_that_is_put_off_and_gone_stays_gone(redis, process):
    redis.zadd(REPORTS, {"a": 0})
    connection, keys = process.connect(), process.keys

    put_off_report(connection, keys, b"a", until=NOW)
    put_off_report(connection, keys, b"gone", until=NOW)

    assert redis.zrange(REPORTS, 0, -1, withscores=True) == [(b"a", NOW)]


def test_another_one_in_its_place_is_due_at_once(redis, process):
    redis.zadd(REPORTS, {"a": NOW})

    replace_report(process.connect(), process.keys, b"a", b"b")

    assert redis.zrange(REPORTS, 0, -1, withscores=True) == [(b"b", 0)]
