"""What a real worker tells systemd, `ps` and ECS, while it starts, works, drains and ends."""

import json
import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest
from support.ecs_agent import EcsAgent
from support.processes import ran
from support.service_manager import ServiceManager

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

@job
def tell_environment():
    told = f"{'NOTIFY_SOCKET' in os.environ} {'WATCHDOG_USEC' in os.environ}\\n"
    os.write(1, told.encode())  # in one piece: log lines come from another thread
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


def hear(worker, manager, text, count=1):
    """The messages up to that, or those, with `text`; fails at once when the worker ends."""
    heard = []

    def is_heard():
        if not manager.is_told_nothing():
            heard.append(manager.next())
        return sum(text in "\n".join(message) for message in heard) >= count

    worker.wait_for(is_heard, 40, f"a message with {text!r} after {heard}")
    return heard


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

    def test_without_the_library_the_worker_runs_as_well(self, redis, start, folder):
        (folder / "setproctitle.py").write_text("raise ImportError")

        worker = start(ready=True, python_path=[folder], is_forked=False)

        assert "kiqbridge\0worker" in Path(f"/proc/{worker.pid}/cmdline").read_text()
        assert worker.stop() == 0
        assert "setproctitle" not in worker.output


class TestSystemd:
    @pytest.fixture
    def manager(self, tmp_path):
        with ServiceManager(str(tmp_path / "notify")) as manager:
            yield manager

    @pytest.fixture
    def variables(self, manager):
        """What systemd sets; the watchdog's time is long beside a machine that is busy."""
        return {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "2000000"}

    def test_it_hears_of_the_start_the_work_and_the_end(
        self, redis, start, folder, manager, variables
    ):
        worker = start(**variables)
        *before, ready = hear(worker, manager, "READY=1")
        assert before
        for status, watchdog in before:
            assert status.startswith("STATUS=starting, 0 of 2 busy")
            assert watchdog == "WATCHDOG=1"
        assert "WATCHDOG=1" in ready
        assert len(redis.smembers("kb:inflight")) == 1

        enqueue(redis, "until_open")
        hear(worker, manager, "STATUS=running, 1 of 2 busy")
        worker.signal(signal.SIGTERM)
        *before, stopping = hear(worker, manager, "STOPPING=1")
        assert all("WATCHDOG=1" in message for message in before)
        assert stopping == ["STOPPING=1", "STATUS=stopping, 1 of 2 busy", "WATCHDOG=1"]
        # Draining may take longer than the watchdog waits.
        [*_, draining] = hear(worker, manager, "STATUS=stopping, 1 of 2 busy")
        assert "WATCHDOG=1" in draining

        (folder / "open").touch()
        assert worker.wait() == 0

    def test_processes_of_jobs_cannot_speak_for_the_worker(self, redis, start, manager, variables):
        worker = start(**variables)
        enqueue(redis, "tell_environment")

        worker.wait_for_output("False False\n")

    def test_under_a_supervisor_the_main_process_speaks_for_all(
        self, redis, start, folder, manager, variables
    ):
        worker = start("--processes", "2", **{**variables, "WATCHDOG_USEC": "1000000"})
        hear(worker, manager, "READY=1")
        assert len(redis.smembers("kb:inflight")) == 2

        enqueue(redis, "until_open")
        [*_, status] = hear(worker, manager, "STATUS=2 running, 1 of 4 busy")
        assert "WATCHDOG=1" in status
        assert title(worker.pid) == f"kiqbridge {__version__} shop supervisor [2 of 2 processes]"
        assert all(re.fullmatch(TITLE, title(pid)) for pid in children(worker.pid))

        (folder / "open").touch()
        assert worker.stop() == 0
        assert any("STOPPING=1" in message for message in manager.waiting())


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


class TestEcs:
    @pytest.fixture
    def agent(self):
        with EcsAgent() as agent:
            yield agent

    @pytest.fixture
    def variables(self, agent):
        return {"ECS_AGENT_URI": agent.uri, "KIQBRIDGE_ECS_PROTECT_AFTER_S": "0.2"}

    def test_term_ends_the_protection_drains_and_gives_back_before_the_kill(
        self, redis, start, agent, variables
    ):
        worker = start("-t", "3", **variables)
        enqueue(redis, "until_open")
        worker.wait_for(lambda: agent.is_protected, what="the protection")

        worker.signal(signal.SIGTERM)
        worker.wait_for(lambda: not agent.is_protected, what="the end of the protection")
        assert worker.is_running
        assert redis.llen("queue:default") == 0  # the job goes on

        assert worker.wait(timeout_s=3 + 10) == 0
        assert redis.llen("queue:default") == 1
        assert not redis.keys("kb:inflight*")
