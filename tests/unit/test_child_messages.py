"""What goes over the socket between a worker and its children."""

import json
import socket

import pytest

from kiqbridge.children.child_messages import Channel, ChildSettings
from kiqbridge.config.fleets import read_fleets
from kiqbridge.config.redis_access import RedisAccess


@pytest.fixture
def channels():
    pair = [Channel(end) for end in socket.socketpair()]
    yield pair
    for channel in pair:
        channel.close()


class TestChannel:
    def test_a_message_and_its_bytes_arrive(self, channels):
        ours, theirs = channels

        ours.send({"queue": "a"}, b"\x00\xff")
        ours.send({"é": [1, None]})

        assert theirs.receive() == ({"queue": "a"}, b"\x00\xff")
        assert theirs.receive() == ({"é": [1, None]}, b"")

    def test_the_end_is_none_in_the_midst_of_a_message_too(self, channels):
        ours, theirs = channels
        ours.socket.sendall(b"\x00\x00\x00\x10\x00\x00\x00\x00{")
        ours.close()

        assert theirs.receive() is None

    def test_fleets_survive(self):
        given = {"mail": {"namespace": "mail", "queues": ["mail", "mail-*"]}}
        environ = {"KIQBRIDGE_FLEETS": json.dumps(given), "KIQBRIDGE_FLEET": "mail"}
        settings = ChildSettings(
            require=(),
            log_level="info",
            log_format="json",
            redis=RedisAccess(url="redis://host"),
            namespace="mail",
            fleets=read_fleets(environ),
            profile="7",
            timeout_s=25.0,
        )

        received = ChildSettings.from_message(json.loads(json.dumps(settings.to_message())))

        assert received == settings

    def test_settings_survive_and_show_no_password(self):
        settings = ChildSettings(
            require=("jobs.py",),
            log_level="info",
            log_format="json",
            redis=RedisAccess(url="redis://:hunter2@host/0"),
            namespace="",
            profile="7",
            timeout_s=25.0,
        )

        assert ChildSettings.from_message(json.loads(json.dumps(settings.to_message()))) == settings
        assert "hunter2" not in repr(settings)
