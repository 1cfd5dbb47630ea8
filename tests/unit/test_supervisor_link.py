"""What a child reports to its supervisor, and how it notices the end of that."""

import json
import os
import threading

import pytest

from kiqbridge.commands.forked import SupervisorLink


class TestReports:
    @pytest.fixture
    def ends(self):
        reading, writing = os.pipe()
        yield reading, writing
        os.close(reading)
        os.close(writing)

    @pytest.mark.parametrize("letter", ["x", "ü", "\N{PILE OF POO}", "\x00", "\udcff", '"', "\n"])
    def test_one_of_any_length_is_written_whole(self, ends, letter):
        reading, writing = ends

        SupervisorLink(supervisor=1, reports=writing, lifeline=-1, has_reached_redis=False).failed(
            letter * 10_000
        )

        written = os.read(reading, 1 << 16)
        assert len(written) <= os.fpathconf(writing, "PC_PIPE_BUF")
        assert written.count(b"\n") == 1
        assert json.loads(written)["pid"] == os.getpid()

    def test_a_supervisor_that_does_not_read_holds_up_nobody(self, ends):
        _, writing = ends
        os.set_blocking(writing, False)
        link = SupervisorLink(supervisor=1, reports=writing, lifeline=-1, has_reached_redis=False)

        for _ in range(5000):
            link.registered("v1:host:1:abc:1")

        with pytest.raises(BlockingIOError):  # it was full all along
            os.write(writing, b"x" * 4096)


def test_the_end_of_a_supervisor_is_noticed():
    lifeline, held = os.pipe()
    link = SupervisorLink(supervisor=1, reports=-1, lifeline=lifeline, has_reached_redis=False)
    ended = threading.Event()
    link.watch(ended.set)
    assert not ended.is_set()

    os.close(held)

    assert ended.wait(10)
    os.close(lifeline)
