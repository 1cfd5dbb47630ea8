"""What a supervisor decides about its processes, and what they tell one another."""

import json
import logging
import os
import signal
import threading
import time

import pytest

from kiqbridge.commands.forked import SupervisorLink
from kiqbridge.commands.supervision import (
    GOOD_LIFE_S,
    LONGEST_PAUSE_S,
    Fleet,
    Slot,
    describe_exit,
    pause_after,
)
from kiqbridge.commands.supervisor import Supervisor
from kiqbridge.commands.worker_command import is_supervised
from kiqbridge.config.merge import merge
from kiqbridge.engine.host.surroundings import process_count
from kiqbridge.errors import ConfigError

EXIT_1 = 1 << 8
EXIT_3 = 3 << 8
PATIENCE_S = 30.0


@pytest.fixture
def fleet():
    """Two processes, pids 1 and 2, both registered at 0 s."""
    return running(2)


def running(count):
    fleet = Fleet(count, PATIENCE_S)
    for pid, slot in enumerate(fleet.due_starts(0.0), start=1):
        fleet.add(slot, pid, 0.0)
        register(fleet, pid)
    return fleet


def register(fleet, pid, now=0.0):
    fleet.hear(pid, now, incarnation=f"v2:host:{pid}:abc:1", error=None)


def end(fleet, pid, status, now):
    return fleet.end(fleet.children[pid], status, now)


class TestPauses:
    def test_they_double_up_to_the_longest_and_end_with_a_good_life(self):
        assert [pause_after(failures) for failures in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
        assert pause_after(1_000_000) == LONGEST_PAUSE_S
        slot = Slot(number=1)
        pauses = [slot.put_off(100.0, lived_s=GOOD_LIFE_S - 1) for _ in range(3)]
        assert pauses == [0.5, 1, 2]
        assert slot.not_before == 102.0
        assert slot.put_off(100.0, lived_s=GOOD_LIFE_S) == 0.5
        assert slot.put_off(200.0, lived_s=1) == 1


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
    def test_they_are_described_in_words(self, status, words):
        assert describe_exit(status) == words


class TestStarts:
    def test_a_process_that_ended_gets_a_successor_after_the_pause(self, fleet):
        said = end(fleet, 1, signal.SIGSEGV, 10.0)

        assert said.level == logging.ERROR
        assert said.sentence == (
            "process 1 (pid 1) was killed by SIGSEGV; another is started in 0.5 s"
        )
        assert fleet.due_starts(10.4) == []
        assert fleet.seconds_to_next(10.4) == pytest.approx(0.1)
        assert fleet.due_starts(10.5) == [fleet.slots[0]]

    def test_an_orderly_end_is_no_error_and_a_kill_that_was_not_ours_hints_at_memory(self, fleet):
        assert end(fleet, 2, 0, 10.0).level == logging.INFO
        assert "out of memory" in end(fleet, 1, signal.SIGKILL, 10.0).sentence

    @pytest.mark.parametrize("flag", ["is_quiet", "is_stopping"])
    def test_a_quiet_or_stopping_supervisor_starts_none(self, fleet, flag):
        fleet.replace_all("USR2")
        setattr(fleet, flag, True)

        said = end(fleet, 1, EXIT_3, 10.0)

        assert said.sentence == "process 1 (pid 1) ended with exit code 3; no other is started"
        assert fleet.due_starts(1000.0) == []
        assert fleet.due_replacement(1000.0) is None

    def test_when_none_could_start_the_reason_of_the_last_is_the_failure(self, fleet):
        for pid in (1, 2):
            end(fleet, pid, EXIT_1, 1.0)
        assert fleet.failure is None  # they had registered
        fleet = Fleet(2, PATIENCE_S)
        assert fleet.due_starts(0.0) == fleet.slots
        for pid, slot in enumerate(fleet.slots, start=1):
            fleet.add(slot, pid, 0.0)
            fleet.hear(pid, 0.0, incarnation=None, error="no such queue")
        end(fleet, 1, EXIT_1, 1.0)
        assert fleet.failure is None
        said = end(fleet, 2, EXIT_1, 1.0)
        assert fleet.failure == "none of the 2 processes could start: no such queue"
        assert said.sentence.endswith("no other is started")


class TestReplacements:
    def test_one_process_is_replaced_at_a_time(self, fleet):
        fleet.replace_all("USR2")

        first = fleet.due_replacement(10.0)
        fleet.add(first, 3, 10.0)
        assert first is fleet.slots[0]
        assert fleet.due_replacement(10.0) is None  # the successor has not registered
        assert list(fleet.hand_over()) == []

        register(fleet, 3, 11.0)
        [(old, new)] = fleet.hand_over()
        fleet.ask_to_end(old, 11.0)
        assert (old.pid, new.pid, first.child.pid) == (1, 3, 3)
        assert fleet.due_replacement(11.0) is None  # the old one has not ended

        assert end(fleet, 1, 0, 12.0) == (
            logging.INFO,
            "process 1 (pid 1) ended with exit code 0, as requested",
        )
        assert fleet.due_replacement(12.0) is fleet.slots[1]

    def test_a_successor_that_ends_too_soon_leaves_the_old_process_alone(self, fleet):
        fleet.replace_all("USR2")
        fleet.add(fleet.due_replacement(10.0), 3, 10.0)

        said = end(fleet, 3, EXIT_1, 10.2)

        assert said.sentence == (
            "process 1 (pid 3) ended with exit code 1 before it was ready; "
            "process 1 (pid 1) stays, next try in 0.5 s"
        )
        assert fleet.slots[0].child.pid == 1
        assert fleet.due_replacement(10.7) is fleet.slots[0]

    def test_a_process_that_ends_while_it_is_replaced_gives_its_place_to_the_successor(self, fleet):
        fleet.replace_all("USR2")
        fleet.add(fleet.due_replacement(10.0), 3, 10.0)

        said = end(fleet, 1, signal.SIGSEGV, 10.2)

        assert said.level == logging.WARNING
        assert said.sentence.endswith("; process 1 (pid 3) takes its place")
        assert fleet.slots[0].child.pid == 3
        assert fleet.due_starts(10.2) == []

    def test_a_process_above_the_memory_ceiling_is_replaced_after_a_pause(self, fleet):
        [slot, _] = [slot for slot, _ in fleet.measured()]
        assert fleet.replace_above(slot, 250.0, 250, 100.0) is None

        assert fleet.replace_above(slot, 251.0, 250, 100.0) == 0.5

        assert slot.replace_for == "it holds 251 MB, the ceiling is 250"
        assert [child.pid for _, child in fleet.measured()] == [2]
        assert fleet.due_replacement(100.0) is None
        assert fleet.due_replacement(100.5) is slot


class TestKills:
    def test_a_process_that_does_not_end_in_time_is_killed_and_later_once_more(self, fleet):
        child = fleet.children[1]
        fleet.ask_to_end(child, 100.0)
        fleet.ask_to_end(child, 120.0)  # does not prolong its time

        assert fleet.overdue(100.0 + PATIENCE_S - 0.1) == []
        assert fleet.overdue(100.0 + PATIENCE_S) == [child]
        assert fleet.overdue(100.0 + PATIENCE_S + 1) == []
        assert fleet.overdue(100.0 + 2 * PATIENCE_S) == [child]


def config(**flags):
    return merge(environ={}, flags=flags)


class TestSettings:
    def test_several_processes_or_a_ceiling_ask_for_a_supervisor(self):
        assert (config().processes, config().max_memory_mb) == (1, 0)
        assert not is_supervised(config())
        for flags in ({"processes": "2"}, {"max_memory_mb": "500"}):
            assert is_supervised(config(**flags))
        environ = {"KIQBRIDGE_PROCESSES": "4", "KIQBRIDGE_MAX_MEMORY_MB": "700"}
        chosen = merge(environ=environ, flags={})
        assert (chosen.processes, chosen.max_memory_mb) == (4, 700)

    def test_auto_is_the_number_of_cpus_that_may_be_used(self):
        chosen = config(processes="AUTO")

        assert chosen.processes == "auto"
        assert process_count(chosen.processes) == len(os.sched_getaffinity(0))

    @pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", True])
    def test_what_is_no_number_of_processes_is_refused(self, value):
        with pytest.raises(ConfigError, match=r"^processes: .*\(from --processes\); .* auto"):
            config(processes=value)


def link(*, reports=-1, lifeline=-1):
    return SupervisorLink(supervisor=1, reports=reports, lifeline=lifeline, has_reached_redis=False)


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
        link(reports=writing).failed(letter * 10_000)
        written = os.read(reading, 1 << 16)
        assert len(written) <= os.fpathconf(writing, "PC_PIPE_BUF")
        assert written.count(b"\n") == 1
        assert json.loads(written)["pid"] == os.getpid()

    def test_a_supervisor_that_does_not_read_holds_up_nobody(self, ends):
        _, writing = ends
        os.set_blocking(writing, False)
        child = link(reports=writing)
        for _ in range(5000):
            child.registered("v1:host:1:abc:1")

        with pytest.raises(BlockingIOError):  # it was full all along
            os.write(writing, b"x" * 4096)


def test_the_end_of_a_supervisor_is_noticed():
    lifeline, held = os.pipe()
    ended = threading.Event()
    link(lifeline=lifeline).watch(ended.set)
    assert not ended.is_set()

    os.close(held)

    assert ended.wait(10)
    os.close(lifeline)


def test_that_the_lease_of_a_silent_process_cannot_be_renewed_is_logged_once(caplog):
    flags = {"redis_url": "redis://127.0.0.1:1", "processes": "2"}
    supervisor = Supervisor(merge(file={}, environ={}, flags=flags), print, None, print)
    fleet, now = supervisor._fleet, time.monotonic()
    # Processes that run; the one before has not reported for a while.
    for slot, pid, silent_for in zip(
        fleet.slots, (os.getpid(), os.getppid()), (100.0, 0.0), strict=True
    ):
        fleet.add(slot, pid, now)
        register(fleet, pid, now - silent_for)

    for _ in range(3):
        supervisor._next_beat = supervisor._silent_until = 0.0
        supervisor._beat()

    [line] = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert f"(pid {os.getpid()}) has reported nothing for 100 s, and its lease cannot" in line
    assert "127.0.0.1:1" in line
