"""`kiqbridge health`: what it concludes from what workers say of themselves."""

import json
import os
import shutil
import threading
import time
from dataclasses import asdict, replace

import pytest
from support.waiting import wait_until

from kiqbridge.commands.cli import main
from kiqbridge.engine.host.status import (
    Status,
    StatusFile,
    faults_of,
    make_run_folder,
    pid_namespace,
    read_statuses,
    run_folder,
)
from kiqbridge.engine.host.surroundings import report_on_children
from kiqbridge.runtime.clock import lease_now

NOW = 10_000.0
STATUS = "kiqbridge.engine.host.status"
WELL = Status(
    identity="host:7:0123456789ab",
    pid=7,
    state="running",
    written_at=NOW - 1,
    heartbeat_at=NOW - 5,
    beat_s=10,
    is_leased=True,
    ended_threads=[],
)
AWAY = {"is_leased": False, "heartbeat_at": NOW - 300}


@pytest.mark.parametrize(
    ("changes", "live", "ready"),
    [
        ({}, [], []),
        ({"written_at": NOW - 20}, [], []),
        ({"written_at": NOW - 21}, *[["it has said nothing for 21 s"]] * 2),
        ({"ended_threads": ["lease"]}, *[["its thread lease has ended"]] * 2),
        (
            {"stuck_threads": ["heartbeat"]},
            *[["its thread heartbeat has been stuck for more than 30 s"]] * 2,
        ),
        (
            {"is_wedged": True},
            *[["it ends itself, since a thread was stuck or could not be started anew"]] * 2,
        ),
        ({"state": "quiet"}, [], ["it is quiet"]),
        ({"has_reached_redis": False, "started_at": NOW - 60}, [], []),
        (
            {"has_reached_redis": False, "started_at": NOW - 61},
            [
                (
                    "it has not reached Redis once in the 61 s since its start, and start_period_s is 60; "
                    "its log says why"
                )
            ],
            [],
        ),
        ({"has_reached_redis": True, "started_at": NOW - 9999}, [], []),
        ({"state": "stopping"}, [], ["it is stopping"]),
        ({"is_leased": False}, [], ["Redis has not confirmed its lease"]),
        ({"troubles": ["it may not run ZRANGE"]}, [], ["it may not run ZRANGE"]),
        ({"unled_s": 20.0}, [], []),
        (
            {"unled_s": 21.0},
            [],
            ["no process of the fleet has moved due jobs and schedules for 21 s"],
        ),
        ({"heartbeat_at": NOW - 30}, [], []),
        ({"heartbeat_at": NOW - 31}, [], ["Redis has taken no heartbeat for 31 s"]),
        ({"heartbeat_at": NOW - 14, "beat_s": 0.1}, [], []),
        ({"heartbeat_at": NOW - 16, "beat_s": 0.1}, [], ["Redis has taken no heartbeat for 16 s"]),
        (
            AWAY,
            [],
            ["Redis has not confirmed its lease", "Redis has taken no heartbeat for 300 s"],
        ),
        (
            {"state": "starting", "is_leased": False, "heartbeat_at": None},
            [],
            [
                "it is starting",
                "Redis has not confirmed its lease",
                "Redis has taken no heartbeat yet",
            ],
        ),
    ],
)
def test_what_is_wrong_is_told(changes, live, ready):
    status = replace(WELL, **changes)

    assert list(faults_of(status, "live", NOW)) == live
    assert list(faults_of(status, "ready", NOW)) == ready


@pytest.fixture
def health(tmp_path, capsys):
    """Runs the command on a folder of statuses; (exit code, output)."""

    def run(*args, workers=()):
        for index, changes in enumerate(workers):
            now = lease_now()
            status = replace(WELL, pid=os.getpid(), written_at=now, heartbeat_at=now)
            text = json.dumps(asdict(replace(status, **changes)))
            (tmp_path / f"worker-{index}-{pid_namespace()}.json").write_text(text)
        code = main(["health", "--run-dir", str(tmp_path), *args])
        return code, capsys.readouterr().out

    return run


@pytest.mark.parametrize("check", ["live", "ready"])
def test_a_worker_that_is_well_is_0(health, check):
    assert health(f"--{check}", workers=[{}]) == (0, f"worker {os.getpid()} is {check} (running)\n")


def test_without_a_check_ready_is_asked(health):
    assert health(workers=[{"state": "quiet"}]) == (
        1,
        f"worker {os.getpid()} is not ready: it is quiet\n",
    )


@pytest.mark.parametrize("check", ["--live", "--ready"])
def test_no_worker_is_1(health, tmp_path, check):
    assert health(check) == (1, f"no worker runs here (looked in {tmp_path})\n")


def test_one_of_several_that_is_not_well_is_1(health):
    code, told = health("--live", workers=[{}, {"pid": 1, "ended_threads": ["lease"]}])

    assert code == 1
    assert told == (
        f"worker {os.getpid()} is live (running)\n"
        "worker 1 is not live: its thread lease has ended\n"
    )


def test_a_pid_chooses_one_of_several(health):
    workers = [{}, {"pid": 1, "state": "quiet"}]

    assert health("--pid", str(os.getpid()), workers=workers)[0] == 0
    assert health("--pid", "1")[0] == 1
    assert health("--pid", "2147483647")[1].startswith("no worker with pid 2147483647 runs here")


@pytest.mark.parametrize(
    "leftover",
    [{"pid": 2147483646}, {"written_at": lease_now() - 601}, {"written_at": lease_now() + 10**6}],
    ids=["nobody's pid", "another one's pid", "before a reboot"],
)
def test_what_a_killed_worker_left_behind_is_passed_over(health, leftover):
    assert health("--live", workers=[leftover])[0] == 1
    assert health("--live", workers=[leftover, {}])[0] == 0


def test_foreign_files_are_passed_over(health, tmp_path):
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"pid": 1}'), ("d", "5")):
        (tmp_path / f"worker-{name}-{pid_namespace()}.json").write_text(text)

    assert health("--live")[0] == 1
    assert health("--live", workers=[{}])[0] == 0


def test_json_tells_all_of_it(health, tmp_path):
    code, told = health("--json", workers=[{"state": "quiet"}])
    answer = json.loads(told)
    [worker] = answer.pop("workers")

    assert code == 1
    assert answer == {"check": "ready", "ok": False, "faults": []}
    assert (worker["pid"], worker["ok"], worker["faults"]) == (
        os.getpid(),
        False,
        ["it is quiet"],
    )
    (tmp_path / f"worker-0-{pid_namespace()}.json").unlink()
    assert json.loads(health("--live", "--json")[1]) == {
        "check": "live",
        "ok": False,
        "workers": [],
        "faults": [f"no worker runs here (looked in {tmp_path})"],
    }


def test_both_checks_at_once_are_a_usage_error(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["health", "--live", "--ready"])

    assert ended.value.code == 2


SUPERVISED = {"pid": 1, "supervisor": 9}


class TestTheProcessesOfASupervisor:
    @pytest.mark.parametrize("state", ["starting", "stopping"])
    def test_one_that_is_replaced_does_not_count_beside_one_that_makes_progress(
        self, health, state
    ):
        replaced = {
            "supervisor": 9,
            "state": state,
            "is_leased": False,
            "heartbeat_at": None,
        }

        assert health("--ready", workers=[SUPERVISED, replaced])[0] == 0
        assert health("--ready", workers=[SUPERVISED | {"supervisor": 8}, replaced])[0] == 1
        assert health("--ready", workers=[SUPERVISED | {"state": "quiet"}, replaced])[0] == 1

    def test_one_that_is_quiet_or_sick_counts(self, health):
        for changes in ({"state": "quiet"}, {"is_leased": False}, {"ended_threads": ["lease"]}):
            assert health("--ready", workers=[SUPERVISED, {"supervisor": 9, **changes}])[0] == 1

    def test_one_that_is_silent_in_a_long_c_call_is_live(self, health):
        silent = {"supervisor": 9, "written_at": lease_now() - 30}

        assert health("--live", workers=[SUPERVISED, silent])[0] == 0
        assert health("--ready", workers=[SUPERVISED, silent])[0] == 1


class TestStatusFile:
    def test_it_is_written_at_once_and_removed_at_the_end(self, tmp_path):
        folder = tmp_path / "new" / "folder"
        now = lease_now()
        status = replace(WELL, pid=os.getpid(), written_at=now, heartbeat_at=None)
        file = StatusFile(folder, lambda: status)

        file.start()
        assert list(read_statuses(folder)) == [status]
        assert folder.stat().st_mode & 0o777 == 0o700
        file.stop()

        assert list(folder.iterdir()) == []

    def test_what_killed_workers_left_behind_is_removed(self, tmp_path):
        here = pid_namespace()
        kept = {f"worker-1-{here}.json", "worker-2147483647-7elsewhere.json", "other.json"}
        old = [tmp_path / "worker-1-7elsewhere.json", tmp_path / "worker-1.json"]
        dead = [tmp_path / f"worker-{pid}-{here}.json" for pid in (2147483647, 10**30)]
        for path in (*(tmp_path / name for name in kept), *old, *dead):
            path.touch()
        for path in old:
            os.utime(path, (time.time() - 601,) * 2)
        file = StatusFile(tmp_path, lambda: WELL)

        file.start()
        file.stop()

        assert {path.name for path in tmp_path.iterdir()} == kept

    def test_a_folder_that_was_removed_is_made_again(self, tmp_path):
        folder = tmp_path / "run"
        status = replace(WELL, pid=os.getpid(), written_at=lease_now())
        file = StatusFile(folder, lambda: status, every_s=0.01)
        file.start()

        shutil.rmtree(folder)

        wait_until(lambda: list(read_statuses(folder)) == [status])
        assert folder.stat().st_mode & 0o777 == 0o700
        file.stop()

    def test_what_another_container_wrote_under_the_same_pid_stays(self, tmp_path, monkeypatch):
        now = lease_now()
        status = replace(WELL, pid=os.getpid(), written_at=now)
        files = []
        for namespace, written_at in (("1", now - 60), ("2", now)):
            monkeypatch.setattr(f"{STATUS}.pid_namespace", lambda namespace=namespace: namespace)
            found = replace(status, written_at=written_at)
            files.append(StatusFile(tmp_path, lambda found=found: found, every_s=600))
            files[-1].start()

        assert [each.written_at for each in read_statuses(tmp_path)] == [now]
        monkeypatch.setattr(f"{STATUS}.pid_namespace", lambda: "1")
        assert [each.written_at for each in read_statuses(tmp_path)] == [now - 60]
        for file in files:
            file.stop()

    def test_a_folder_that_cannot_be_written_costs_a_warning(self, tmp_path, caplog):
        (tmp_path / "file").touch()
        file = StatusFile(tmp_path / "file", lambda: WELL)

        file.start()
        file.stop()

        assert "`kiqbridge health` will find no worker" in caplog.text
        assert "KIQBRIDGE_RUN_DIR" in caplog.text

    def test_an_error_that_a_job_raises_in_all_threads_does_not_end_it(self, tmp_path):
        looks, goes_on = [], threading.Event()

        def look():
            looks.append(1)
            if len(looks) == 2:  # the first is that of the start
                raise SystemExit
            if len(looks) > 3:
                goes_on.set()
            return WELL

        file = StatusFile(tmp_path, look, every_s=0.001)
        file.start()

        assert goes_on.wait(30)
        file.stop()

    def test_the_folder_is_the_users_own_unless_named(self, tmp_path):
        assert run_folder("").name == f"kiqbridge-{os.getuid()}"
        assert run_folder(str(tmp_path)) == tmp_path


class TestARunFolderOfAnotherUser:
    """Others know the name of a folder in /tmp, and what they put there would make probes pass or fail."""

    @pytest.fixture
    def give(self, monkeypatch):
        """Gives a file to a user, as whom this process then runs or not; only root can really do so."""

        def give(path, *, is_ours):
            owner = 65_534 if os.getuid() == 0 else os.getuid()
            if os.getuid() == 0:
                os.chown(path, owner, owner, follow_symlinks=False)
            monkeypatch.setattr(os, "geteuid", lambda: owner if is_ours else owner + 1)

        return give

    @pytest.mark.parametrize("is_link", [False, True])
    def test_nothing_is_written_there_nor_believed(self, give, tmp_path, caplog, capsys, is_link):
        folder, here = tmp_path / "run", tmp_path / "here"
        here.mkdir(mode=0o700)
        if is_link:
            folder.symlink_to(here)
        else:
            folder.mkdir(mode=0o700)
        now = lease_now()
        forged = replace(WELL, pid=os.getpid(), written_at=now, heartbeat_at=now)
        (folder / f"worker-1-{pid_namespace()}.json").write_text(json.dumps(asdict(forged)))
        give(folder, is_ours=False)
        before = set(folder.iterdir())

        file = StatusFile(folder, lambda: WELL)
        file.start()
        assert set(folder.iterdir()) == before
        file.stop()

        assert f"{folder} belongs to the user" in caplog.text
        assert main(["health", "--live", "--run-dir", str(folder)]) == 1
        assert f"nothing there is believed: {folder} belongs to" in capsys.readouterr().out
        report = report_on_children(folder, WELL.supervisor or 0)
        assert report.line == "the states of its processes are not known"
        assert f"{folder} belongs to the user" in report.faults[0]

    @pytest.mark.parametrize(
        ("mode", "is_refused"), [(0o755, 0), (0o775, 0), (0o777, 1), (0o1777, 0)]
    )
    def test_one_of_ours_that_all_may_write_is_refused(self, give, tmp_path, mode, is_refused):
        give(tmp_path, is_ours=True)
        tmp_path.chmod(mode)

        if is_refused:
            with pytest.raises(
                PermissionError, match="may be written by every user; run `chmod o-w"
            ):
                make_run_folder(tmp_path)
        else:
            make_run_folder(tmp_path)
