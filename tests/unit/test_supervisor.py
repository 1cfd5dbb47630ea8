"""What a supervisor decides by itself: when, how many, and what it says of an end."""

import json
import os
import signal

import pytest

from kiqbridge.config import merge
from kiqbridge.errors import ConfigError
from kiqbridge.forked import Tie, can_run, resident_mb, told_end
from kiqbridge.supervisor import (
    GOOD_LIFE_S,
    LONGEST_PAUSE_S,
    Slot,
    is_supervised,
    pause_after,
    process_count,
)


def config(**flags):
    return merge(environ={}, flags=flags)


class TestPauses:
    def test_they_double_up_to_the_longest(self):
        assert [pause_after(failures) for failures in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]

    def test_who_fails_for_a_year_is_still_started(self):
        assert pause_after(1_000_000) == LONGEST_PAUSE_S

    def test_a_slot_waits_longer_after_each_end_that_comes_too_soon(self):
        slot = Slot(number=1)

        pauses = [slot.put_off(100.0, lived_s=GOOD_LIFE_S - 1) for _ in range(3)]

        assert pauses == [0.5, 1, 2]
        assert slot.not_before == 102.0

    def test_a_good_life_makes_up_for_all_failures_before(self):
        slot = Slot(number=1, failures=7)

        assert slot.put_off(100.0, lived_s=GOOD_LIFE_S) == 0.5
        assert slot.put_off(200.0, lived_s=1) == 1


class TestSettings:
    def test_without_any_there_is_no_supervisor(self):
        assert config().processes == 1
        assert config().max_memory_mb == 0
        assert not is_supervised(config())

    @pytest.mark.parametrize("flags", [{"processes": "2"}, {"max_memory_mb": "500"}])
    def test_several_processes_or_a_ceiling_ask_for_one(self, flags):
        assert is_supervised(config(**flags))

    def test_auto_is_the_number_of_cpus_that_may_be_used(self):
        chosen = config(processes="AUTO")

        assert chosen.processes == "auto"
        assert process_count(chosen.processes) == len(os.sched_getaffinity(0))

    def test_the_environment_gives_them_too(self):
        environ = {"KIQBRIDGE_PROCESSES": "4", "KIQBRIDGE_MAX_MEMORY_MB": "700"}

        chosen = merge(environ=environ, flags={})

        assert (chosen.processes, chosen.max_memory_mb) == (4, 700)

    @pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", True])
    def test_what_is_no_number_of_processes_is_refused(self, value):
        with pytest.raises(ConfigError, match=r"^processes: .*\(from --processes\); .* auto"):
            config(processes=value)


class TestEnds:
    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (0, "ended with exit code 0"),
            (3 << 8, "ended with exit code 3"),
            (signal.SIGSEGV, "was killed by SIGSEGV"),
            (signal.SIGKILL, "was killed by SIGKILL"),
            (signal.SIGRTMIN + 3, f"was killed by signal {signal.SIGRTMIN + 3}"),
        ],
    )
    def test_they_are_told_in_words(self, status, words):
        assert told_end(status) == words


class TestLooks:
    def test_this_process_can_run_and_takes_memory(self):
        assert can_run(os.getpid())
        assert 1 < resident_mb(os.getpid()) < 10_000

    def test_a_process_that_has_ended_cannot(self):
        pid = os.posix_spawn("/bin/true", ["true"], {})
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it stays, as a zombie

        assert not can_run(pid)

        os.waitpid(pid, 0)
        assert not can_run(pid)
        assert resident_mb(pid) == 0


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

        Tie(supervisor=1, reports=writing, lifeline=-1, has_reached_redis=False).failed(
            letter * 10_000
        )

        written = os.read(reading, 1 << 16)
        assert len(written) <= os.fpathconf(writing, "PC_PIPE_BUF")
        assert written.count(b"\n") == 1
        assert json.loads(written)["pid"] == os.getpid()

    def test_a_supervisor_that_does_not_read_holds_up_nobody(self, ends):
        _, writing = ends
        os.set_blocking(writing, False)
        tie = Tie(supervisor=1, reports=writing, lifeline=-1, has_reached_redis=False)

        for _ in range(5000):
            tie.registered("v1:host:1:abc:1")

        with pytest.raises(BlockingIOError):  # it was full all along
            os.write(writing, b"x" * 4096)
