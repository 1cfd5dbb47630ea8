"""The messages that systemd gets, over real sockets."""

import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from support.service_manager import ServiceManager
from support.waiting import wait_until

from kiqbridge.host.status import Status
from kiqbridge.host.systemd import Notifier, Report, report_of, take_notifier

WELL = Report("running, 1 of 10 busy", ())
STATUS = "STATUS=running, 1 of 10 busy"
SICK = Report("running, 1 of 10 busy", ["its thread lease has ended"])
NOW = 10_000.0
WORKER = Status(
    identity="host:7:0123456789ab",
    pid=7,
    state="running",
    written_at=NOW,
    heartbeat_at=NOW - 5,
    beat_s=10,
    is_leased=True,
    ended_threads=[],
    busy=3,
    concurrency=10,
)


@pytest.fixture
def manager_at_path(tmp_path):
    with ServiceManager(str(tmp_path / "notify")) as manager:
        yield manager


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path):
    name = str(tmp_path / "notify") if request.param == "path" else f"@kiqbridge-{os.getpid()}"
    with ServiceManager(name) as manager:
        yield manager


class TestALife:
    def test_each_step_is_one_message_with_the_status(self, manager):
        notifier = Notifier(manager.address)

        notifier.start(lambda: WELL)
        assert manager.next() == [STATUS]
        notifier.ready()
        assert manager.next() == ["READY=1", STATUS]
        notifier.notify()
        assert manager.next() == [STATUS]
        notifier.stopping()
        assert manager.next() == ["STOPPING=1", STATUS]
        assert manager.is_told_nothing()

    def test_the_status_stays_one_line(self, manager):
        notifier = Notifier(manager.address)

        notifier.start(lambda: Report("running\nWATCHDOG=1", ["a\nb"]))

        assert manager.next() == ["STATUS=running WATCHDOG=1; a b"]


class TestTheWatchdog:
    def test_it_hears_of_us_twice_in_its_time_until_the_end(self, manager):
        notifier = Notifier(manager.address, watchdog_s=0.1)
        assert notifier.notify_every_s == 0.05

        notifier.start(lambda: WELL)
        for _ in range(4):
            assert manager.next() == [STATUS, "WATCHDOG=1"]
        notifier.stop()

        wait_until(lambda: "kiqbridge-systemd" not in {each.name for each in threading.enumerate()})
        while not manager.is_told_nothing():
            assert manager.next() == [STATUS, "WATCHDOG=1"]

    def test_it_hears_nothing_while_something_is_wrong(self, manager, caplog):
        reports = [WELL]
        notifier = Notifier(manager.address, watchdog_s=1)
        notifier.start(lambda: reports[-1], in_thread=False)
        assert manager.next() == [STATUS, "WATCHDOG=1"]

        reports.append(SICK)
        for _ in range(3):
            notifier.notify()
            assert manager.next() == [f"{STATUS}; its thread lease has ended"]
        told = [record.message for record in caplog.records]
        assert told == [
            "not live: its thread lease has ended; systemd's watchdog will restart this process"
        ]

        reports.append(WELL)
        notifier.notify()
        assert manager.next() == [STATUS, "WATCHDOG=1"]

    def test_a_look_that_fails_is_not_taken_for_life(self, manager, caplog):
        looks = iter([WELL])
        notifier = Notifier(manager.address, watchdog_s=0.02)

        notifier.start(lambda: next(looks))

        assert manager.next() == [STATUS, "WATCHDOG=1"]
        wait_until(lambda: "systemd could not be notified" in caplog.text)
        notifier.stop()
        assert manager.is_told_nothing()


class TestALoop:
    @pytest.mark.parametrize(("watchdog_s", "messages"), [(None, 3), (60, 3), (10, 6)])
    def test_it_is_told_as_often_as_needed(self, manager_at_path, watchdog_s, messages):
        manager = manager_at_path
        notifier = Notifier(manager.address, watchdog_s)
        notifier.start(lambda: WELL, in_thread=False)
        manager.next()

        told = 0
        for tenths in range(1000, 1300):
            notifier.turn(tenths / 10)
            told += not manager.is_told_nothing() and manager.next()[0] == STATUS

        assert told == messages


class TestTheEnvironment:
    def environment(self, **variables):
        return {"NOTIFY_SOCKET": "/run/notify", "HOME": "/", **variables}

    def test_without_a_socket_nobody_is_told(self):
        notifier = take_notifier({}, 7)

        notifier.start(lambda: WELL)
        notifier.ready()
        notifier.stopping()

        assert repr(notifier) == "<Notifier to nothing, watchdog None s>"

    def test_what_is_taken_is_not_passed_on(self):
        environ = self.environment(WATCHDOG_USEC="60000000", WATCHDOG_PID="7")

        notifier = take_notifier(environ, 7)

        assert environ == {"HOME": "/"}
        assert notifier.notify_every_s == 30

    @pytest.mark.parametrize(
        ("variables", "every"),
        [
            ({}, None),
            ({"WATCHDOG_USEC": "3000000"}, 1.5),
            ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7"}, 1.5),
            ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "8"}, None),
            ({"WATCHDOG_USEC": "0"}, None),
            ({"WATCHDOG_USEC": "soon"}, None),
        ],
    )
    def test_the_watchdog_is_fed_by_whom_it_watches(self, variables, every):
        assert take_notifier(self.environment(**variables), 7).notify_every_s == every

    @pytest.mark.parametrize(
        ("variables", "told"),
        [
            ({"WATCHDOG_USEC": "soon"}, "WATCHDOG_USEC=soon is no number of microseconds"),
            ({"NOTIFY_SOCKET": "vsock:2:1234"}, "NOTIFY_SOCKET=vsock:2:1234 is neither a path"),
        ],
    )
    def test_what_cannot_be_used_is_told(self, variables, told, caplog):
        take_notifier(self.environment(**variables), 7)

        assert told in caplog.text

    def test_a_manager_that_is_gone_costs_one_warning(self, tmp_path, caplog):
        notifier = Notifier(str(tmp_path / "gone"))

        notifier.start(lambda: WELL)
        notifier.notify()

        [record] = caplog.records
        assert "systemd could not be notified" in record.message

    def test_a_manager_that_does_not_read_holds_nobody_up(self, manager_at_path):
        manager = manager_at_path
        notifier = Notifier(manager.address)
        notifier.start(lambda: WELL)
        code = """if True:
            import sys
            from kiqbridge.host import systemd
            systemd.SEND_S = 0.01
            notifier = systemd.Notifier(sys.argv[1])
            for _ in range(100):
                notifier.notify()
        """

        subprocess.run(
            [sys.executable, "-c", code, manager.address],
            check=True,
            timeout=60,
            stderr=subprocess.DEVNULL,
        )

        assert manager.next() == [STATUS]


class TestTheReport:
    def test_a_worker_that_is_well(self):
        assert report_of([WORKER], NOW) == ("running, 3 of 10 busy", [])

    def test_an_outage_of_redis_is_told_and_no_fault(self):
        away = replace(WORKER, is_leased=False, heartbeat_at=NOW - 300)

        line, faults = report_of([away], NOW)

        assert line.split("; ") == [
            "running, 3 of 10 busy",
            "Redis has not confirmed its lease",
            "Redis has taken no heartbeat for 300 s",
        ]
        assert faults == []

    def test_a_thread_that_ended_is_a_fault(self):
        sick = replace(WORKER, state="quiet", ended_threads=["lease"])

        assert report_of([sick], NOW) == (
            "quiet, 3 of 10 busy",
            ["its thread lease has ended"],
        )

    def test_the_processes_of_a_supervisor_are_added_up(self):
        well = replace(WORKER, supervisor=1)
        sick = replace(well, pid=8, ended_threads=["lease"])
        stopping = replace(well, pid=9, state="stopping", busy=0)

        assert report_of([well, sick, stopping], NOW) == (
            "2 running, 1 stopping, 6 of 30 busy",
            ["process 8: its thread lease has ended"],
        )

    def test_a_silent_process_is_its_supervisors_matter(self):
        silent = replace(WORKER, written_at=NOW - 30)
        told = "it has said nothing for 30 s"

        assert report_of([silent], NOW) == ("running, 3 of 10 busy", [told])
        assert report_of([replace(silent, supervisor=1)], NOW) == (
            f"running, 3 of 10 busy; {told}",
            [],
        )

    def test_a_supervisor_without_processes_says_so(self):
        assert report_of([], NOW) == ("no process runs, 0 of 0 busy", [])
