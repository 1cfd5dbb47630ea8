"""The commands of a plain push."""

from kiqbridge.store.enqueueing import push_commands, schedule_commands
from kiqbridge.wire.keys import Keys

KEYS = Keys("app")


def test_the_queues_are_named_before_anything_is_pushed_to_them():
    commands = push_commands(KEYS, {"mail": [b"1", b"2"], "low": [b"3"]})

    assert commands == [
        ["SADD", "app:queues", "mail", "low"],
        ["LPUSH", "app:queue:mail", b"1", b"2"],
        ["LPUSH", "app:queue:low", b"3"],
    ]


def test_jobs_for_later_are_added_to_schedule_in_one_command():
    assert schedule_commands(KEYS, ["1.5", b"1", "2", b"2"]) == [
        ["ZADD", "app:schedule", "1.5", b"1", "2", b"2"]
    ]


def test_for_no_job_there_is_no_command():
    assert push_commands(KEYS, {}) == []
    assert schedule_commands(KEYS, []) == []
