"""Ruby processes on our queues: found from what live processes tell, and said once at the start."""

import json
import logging

import pytest

from kiqbridge.errors import RedisUnavailable
from kiqbridge.features.neighbours.warning import find_shared, warn_of_shared_queues
from kiqbridge.wire.keys import Keys

OURS = json.dumps({"queues": ["default"], "version": "kiqbridge-0.1.0"}).encode()
RUBY = json.dumps({"queues": ["default", "mail"], "version": "7.3.10"}).encode()
OLD_RUBY = json.dumps({"queues": ["mail"], "labels": []}).encode()


class Redis:
    """Answers as the server would, for processes with these `info` texts."""

    def __init__(self, infos):
        self.infos = infos

    def run(self, *commands):
        if commands[0][0] == "SRANDMEMBER":
            return [[name.encode() for name in self.infos]]
        return [self.infos[command[1]] for command in commands]


def warn(infos, queues=("default",), unknown_class="retry"):
    warn_of_shared_queues(Redis(infos).run, Keys(), queues, unknown_class)


def test_ruby_processes_on_our_queues_are_found():
    infos = {"a:1:x": OURS, "b:2:y": RUBY, "c:3:z": OLD_RUBY, "gone:4:w": None}

    assert find_shared(infos, ["default"]) == {"b:2:y": ["default"]}
    assert find_shared(infos, ["mail", "other"]) == {"b:2:y": ["mail"], "c:3:z": ["mail"]}
    assert find_shared(infos, ["other"]) == {}


@pytest.mark.parametrize(
    "odd", [b"", b"[]", b"{}", b'{"queues":7}', b'{"queues":[7,null]}', b"\xff"]
)
def test_what_tells_nothing_shares_nothing(odd):
    assert find_shared({"a:1:x": odd}, ["default"]) == {}


def test_the_warning_names_processes_and_queues_and_the_way_out(caplog):
    warn({"b:2:y": RUBY, "c:3:z": OLD_RUBY}, ["default", "mail"])

    [warning] = caplog.messages
    assert warning == (
        "2 Ruby processes serve queue default, mail as well (b:2:y, c:3:z): each language fails the other's "
        "jobs and retries them until they are dead, or until they meet the right worker; give each language "
        "queues of its own, or set unknown_class to route:QUEUE"
    )


def test_with_a_route_our_side_is_cared_for_and_many_are_counted(caplog):
    warn({"b:2:y": RUBY}, ["default"], "route:ruby")
    warn({f"b:{number}:y": RUBY for number in range(8)})
    one, many = caplog.messages
    assert "1 Ruby process serves queue default as well (b:2:y): a Ruby job" in one
    assert "8 Ruby processes" in many and "and 3 more)" in many


def test_without_any_nothing_is_said_and_an_outage_ends_no_start(caplog):
    def run(*_commands):
        raise RedisUnavailable("away")

    for infos in ({}, {"a:1:x": OURS}):
        warn(infos)
    warn_of_shared_queues(run, Keys(), ["default"], "retry")
    assert caplog.messages == []


def test_the_neighbours_are_looked_at_past_such_a_process(pool, redis, caplog):
    redis.sadd("processes", b"caf\xe9\xff", "ruby:1:a")
    redis.hset("ruby:1:a", "info", json.dumps({"queues": ["default"], "version": "8.0.0"}))

    with caplog.at_level(logging.WARNING):
        warn_of_shared_queues(pool.run, Keys(), {"default"}, "retry")

    assert "1 Ruby process serves queue default as well (ruby:1:a)" in caplog.text
