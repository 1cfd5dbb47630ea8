"""Starting children, and what goes over their socket."""

import json
import queue
import socket

import pytest

from kiqbridge.client.job import job
from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.engine.perform.execution import NotBegun
from kiqbridge.errors import ConfigError
from kiqbridge.features.process_pool import pool as process_pool
from kiqbridge.features.process_pool.messages import Channel, ChildSettings
from kiqbridge.features.process_pool.pool import ProcessPool


class Thrown(queue.SimpleQueue):
    """Raises once in the thread that was rung, as an error does that a job raises in all threads."""

    def __init__(self):
        self.left = 1

    def get(self, **options):
        super().get(**options)
        if self.left:
            self.left -= 1
            raise SystemExit("raised in all threads")


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(process_pool, "Child", lambda _settings, _start: "a child")
    pool = ProcessPool(None, size=1, max_jobs=0, idle_s=60)
    pool._bell = Thrown()
    pool.starter.start()
    yield pool
    pool.stop()


def test_a_child_that_was_asked_for_is_started_and_an_error_reaches_who_asked(pool, monkeypatch):
    assert pool.start_child() == "a child"
    assert pool._bell.left == 0  # by the next run of the loop
    outcomes = iter([OSError("no room"), "a child"])

    def start(_settings, _start):
        outcome = next(outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(process_pool, "Child", start)
    with pytest.raises(NotBegun):
        pool.start_child()
    assert pool.start_child() == "a child"


@pytest.fixture
def channels():
    pair = [Channel(end) for end in socket.socketpair()]
    yield pair
    for channel in pair:
        channel.close()


class TestChannel:
    def test_a_message_and_its_bytes_arrive_and_the_end_is_none_in_the_midst_of_one(self, channels):
        ours, theirs = channels
        ours.send({"queue": "a"}, b"\x00\xff")
        ours.send({"é": [1, None]})
        assert theirs.receive() == ({"queue": "a"}, b"\x00\xff")
        assert theirs.receive() == ({"é": [1, None]}, b"")
        ours.socket.sendall(b"\x00\x00\x00\x10\x00\x00\x00\x00{")
        ours.close()
        assert theirs.receive() is None

    def test_settings_survive_and_show_no_password(self):
        settings = ChildSettings(
            require=("jobs.py",),
            log_level="info",
            log_format="json",
            redis=RedisAccess(url="redis://:hunter2@host/0"),
            namespace="mail",
            profile="7",
            timeout_s=25.0,
        )
        assert ChildSettings.from_message(json.loads(json.dumps(settings.to_message()))) == settings
        assert "hunter2" not in repr(settings)


def test_without_the_feature_such_a_job_is_refused_at_its_declaration(monkeypatch):
    monkeypatch.setattr("kiqbridge.seams.shipped", list)

    with pytest.raises(ConfigError, match="feature process_pool, which is not installed"):
        job(pool="process")(print)
