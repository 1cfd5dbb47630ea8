"""The messages that systemd gets, over real sockets."""

import os
import threading

import pytest
from support.processes import run_python
from support.service_manager import ServiceManager
from support.waiting import wait_until

from kiqbridge.engine.host.surroundings import Report
from kiqbridge.features.systemd.notifier import SystemdNotifier, take_notifier

WELL = Report("running, 1 of 10 busy", ())
STATUS = "STATUS=running, 1 of 10 busy"
SICK = Report("running, 1 of 10 busy", ["its thread lease has ended"])


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
    def test_each_step_is_one_message_with_the_status_in_one_line(self, manager):
        notifier = SystemdNotifier(manager.address)
        notifier.start(lambda: WELL)
        assert manager.next() == [STATUS]
        for step, told in (
            (notifier.ready, ["READY=1", STATUS]),
            (notifier.notify, [STATUS]),
            (notifier.stopping, ["STOPPING=1", STATUS]),
        ):
            step()
            assert manager.next() == told
        assert manager.is_told_nothing()
        SystemdNotifier(manager.address).start(lambda: Report("running\nWATCHDOG=1", ["a\nb"]))
        assert manager.next() == ["STATUS=running WATCHDOG=1; a b"]


class TestTheWatchdog:
    def test_it_hears_of_us_twice_in_its_time_until_the_end(self, manager):
        notifier = SystemdNotifier(manager.address, watchdog_s=0.1)
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
        notifier = SystemdNotifier(manager.address, watchdog_s=1)
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

    def test_a_fault_whose_seconds_grow_is_logged_once(self, manager, caplog):
        seconds = iter(range(60, 70))
        notifier = SystemdNotifier(manager.address, watchdog_s=1)
        notifier.start(
            lambda: Report("running", [f"it was silent for {next(seconds)} s"]), in_thread=False
        )
        notifier.notify()
        notifier.notify()

        assert [record.message.count("silent for 60 s") for record in caplog.records] == [1]

    def test_a_look_that_fails_is_not_taken_for_life(self, manager, caplog):
        looks = iter([WELL])
        notifier = SystemdNotifier(manager.address, watchdog_s=0.02)

        notifier.start(lambda: next(looks))

        assert manager.next() == [STATUS, "WATCHDOG=1"]
        wait_until(lambda: "an error ended the loop of thread systemd" in caplog.text)
        notifier.stop()
        assert manager.is_told_nothing()


class TestALoop:
    @pytest.mark.parametrize(("watchdog_s", "messages"), [(None, 3), (60, 3), (10, 6)])
    def test_it_is_told_as_often_as_needed(self, manager_at_path, watchdog_s, messages):
        manager = manager_at_path
        notifier = SystemdNotifier(manager.address, watchdog_s)
        notifier.start(lambda: WELL, in_thread=False)
        manager.next()

        told = 0
        for tenths in range(1000, 1300):
            notifier.turn(tenths / 10)
            told += not manager.is_told_nothing() and manager.next()[0] == STATUS

        assert told == messages


class TestTheEnvironment:
    def test_without_a_socket_nobody_is_told(self):
        assert take_notifier({}, 7) is None

    @pytest.mark.parametrize(
        ("variables", "every", "told"),
        [
            ({}, None, ""),
            ({"WATCHDOG_USEC": "3000000"}, 1.5, ""),
            ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "7"}, 1.5, ""),
            ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "8"}, None, ""),
            ({"WATCHDOG_USEC": "0"}, None, ""),
            ({"WATCHDOG_USEC": "soon"}, None, "WATCHDOG_USEC=soon is no number of microseconds"),
            ({"NOTIFY_SOCKET": "vsock:2:1"}, "none", "NOTIFY_SOCKET=vsock:2:1 is neither a path"),
        ],
    )
    def test_the_watchdog_is_fed_by_whom_it_watches(self, variables, every, told, caplog):
        environ = {"NOTIFY_SOCKET": "/run/notify", "HOME": "/", **variables}
        assert getattr(take_notifier(environ, 7), "notify_every_s", "none") == every
        assert environ == {"HOME": "/"}  # what is taken is not passed on
        assert told in caplog.text

    def test_a_manager_that_is_gone_costs_one_warning(self, tmp_path, caplog):
        notifier = SystemdNotifier(str(tmp_path / "gone"))

        notifier.start(lambda: WELL)
        notifier.notify()

        [record] = caplog.records
        assert "systemd could not be notified" in record.message

    def test_a_manager_that_does_not_read_holds_nobody_up(self, manager_at_path):
        manager = manager_at_path
        notifier = SystemdNotifier(manager.address)
        notifier.start(lambda: WELL)
        code = """if True:
            import sys
            from kiqbridge.features.systemd import notifier as systemd
            systemd.SEND_S = 0.01
            notifier = systemd.SystemdNotifier(sys.argv[1])
            for _ in range(100):
                notifier.notify()
        """

        run_python(code, manager.address)

        assert manager.next() == [STATUS]
