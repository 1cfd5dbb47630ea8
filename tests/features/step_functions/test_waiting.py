"""The script that takes reports which wait in Redis."""

import pytest

from kiqbridge.store import scripts

REPORTS = "kb:reports"
TAKE = scripts.load("take_reports")


@pytest.fixture
def take(process):
    """Takes reports: (the server's time, their texts)."""
    connection = process.connect()

    def take(most, for_s=60):
        now, *texts = connection.script(TAKE, [process.keys.task_reports], [most, for_s])
        return float(now), texts

    return take


def test_what_is_taken_is_left_alone_for_a_while(redis, take):
    redis.zadd(REPORTS, {"a": 0, "b": 0, "c": 0})

    now, first = take(2)
    _, second = take(2)

    assert (first, second) == ([b"a", b"b"], [b"c"])
    assert take(2)[1] == []
    assert redis.zscore(REPORTS, "a") == pytest.approx(now + 60, abs=0.01)


def test_it_is_due_again_after_that_time(redis, take):
    redis.zadd(REPORTS, {"a": 0})

    take(1, for_s=-1)

    assert take(1)[1] == [b"a"]


def test_what_was_taken_before_the_clock_of_the_server_was_set_back_is_due(redis, take):
    now = redis.time()[0]
    redis.zadd(REPORTS, {"taken": now + 30, "before": now + 600})

    assert take(5)[1] == [b"before"]
    assert take(5)[1] == []
