"""What a real worker shows in `ps` and says of its health, while it starts, works, drains and ends."""

import json
import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest
from support.processes import ran

from kiqbridge import __version__
from kiqbridge.engine.host.status import faults_of_all, read_statuses
from kiqbridge.runtime.clock import lease_now

JOBS = """
import os, time
from kiqbridge import job

@job
def until_open():
    print("begin", flush=True)
    while not os.path.exists("open"):
        time.sleep(0.005)
    print("end", flush=True)
"""
TITLE = rf"kiqbridge {re.escape(__version__)} shop \[(\d) of 2 busy\]( stopping)?"


FLAGS = ("-c", "2", "-g", "shop")
ENV = {"KIQBRIDGE_BEAT_S": "0.1"}


@pytest.fixture
def start(start):
    return partial(start, ready=False)


def enqueue(redis, name, *args):
    text = json.dumps({"class": name, "args": args, "jid": os.urandom(12).hex(), "retry": True})
    redis.lpush("queue:default", text)


def title(pid):
    return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0 ")


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class TestTheTitle:
    def test_it_tells_how_busy_the_worker_is_and_that_it_stops(self, redis, start, folder):
        worker = start()

        worker.wait_for(lambda: title(worker.pid) == f"kiqbridge {__version__} shop [0 of 2 busy]")
        enqueue(redis, "until_open")
        worker.wait_for(lambda: title(worker.pid) == f"kiqbridge {__version__} shop [1 of 2 busy]")
        worker.signal(signal.SIGTSTP)
        worker.wait_for(
            lambda: title(worker.pid) == f"kiqbridge {__version__} shop [1 of 2 busy] stopping"
        )

        (folder / "open").touch()
        assert worker.stop() == 0

    def test_under_a_supervisor_it_tells_how_many_processes_there_are(self, redis, start):
        worker = start("--processes", "2")

        supervisor = f"kiqbridge {__version__} shop supervisor [2 of 2 processes]"
        worker.wait_for(lambda: title(worker.pid) == supervisor)
        worker.wait_for(
            lambda: all(re.fullmatch(TITLE, title(pid)) for pid in children(worker.pid))
        )
        assert worker.stop() == 0

    def test_without_the_library_the_worker_runs_as_well(self, redis, start, folder):
        (folder / "setproctitle.py").write_text("raise ImportError")

        worker = start(ready=True, python_path=[folder], is_forked=False)

        assert "kiqbridge\0worker" in Path(f"/proc/{worker.pid}/cmdline").read_text()
        assert worker.stop() == 0
        assert "setproctitle" not in worker.output


class TestHealth:
    def test_a_supervisor_that_replaces_a_process_stays_ready(self, start, tmp_path):
        worker = start("--processes", "2")
        run_dir = tmp_path / "run"

        def pids():
            """Of those that are well; None if one is not."""
            faults = faults_of_all(list(read_statuses(run_dir)), "ready", lease_now())
            return None if any(faults.values()) else set(faults)

        def running():
            return [each.pid for each in read_statuses(run_dir) if each.state == "running"]

        worker.wait_for(lambda: len(running()) == 2 and pids(), 30, "two that are ready")
        before = pids()
        assert all(status.supervisor == worker.pid for status in read_statuses(run_dir))
        os.kill(min(before), signal.SIGKILL)

        def is_replaced():
            now = pids()
            assert now, list(read_statuses(run_dir))
            return len(now - before) == 1 and len(running()) == 2

        worker.wait_for(is_replaced, 30, "its replacement")
        _, told = ran("health", "--ready", "--run-dir", run_dir)
        assert sorted(told.splitlines()) == sorted(
            f"worker {pid} is ready (running)" for pid in pids()
        )
        assert worker.stop() == 0
        assert list(read_statuses(run_dir)) == []
