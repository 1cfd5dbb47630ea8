"""What a real worker tells systemd while it starts, works, drains and ends."""

import signal
from functools import partial

import pytest
from support.service_manager import ServiceManager

pytestmark = pytest.mark.any_server

JOBS = """
import os, time
from kiqbridge import job

@job
def until_open():
    while not os.path.exists("open"):
        time.sleep(0.005)

@job
def tell_environment():
    told = f"{'NOTIFY_SOCKET' in os.environ} {'WATCHDOG_USEC' in os.environ}\\n"
    os.write(1, told.encode())  # in one piece: log lines come from another thread
"""
FLAGS = ("-c", "2", "-g", "shop")


@pytest.fixture
def start(start):
    return partial(start, ready=False)


def hear(worker, manager, text, count=1):
    """The messages up to that, or those, with `text`; fails at once when the worker ends."""
    heard = []

    def is_heard():
        if not manager.is_told_nothing():
            heard.append(manager.next())
        return sum(text in "\n".join(message) for message in heard) >= count

    worker.wait_for(is_heard, 40, f"a message with {text!r} after {heard}")
    return heard


@pytest.fixture
def manager(tmp_path):
    with ServiceManager(str(tmp_path / "notify")) as manager:
        yield manager


@pytest.fixture
def env(manager):
    """What systemd sets; the watchdog's time is long beside a machine that is busy."""
    return {
        "KIQBRIDGE_BEAT_S": "0.1",
        "NOTIFY_SOCKET": manager.address,
        "WATCHDOG_USEC": "2000000",
    }


def test_it_hears_of_the_start_the_work_and_the_end(redis, start, client, folder, manager):
    worker = start()
    *before, ready = hear(worker, manager, "READY=1")
    assert before
    for status, watchdog in before:
        assert status.startswith("STATUS=starting, 0 of 2 busy")
        assert watchdog == "WATCHDOG=1"
    assert "WATCHDOG=1" in ready
    assert len(redis.smembers("kb:inflight")) == 1

    client.push({"class": "until_open", "args": []})
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


def test_processes_of_jobs_cannot_speak_for_the_worker(start, client):
    worker = start()
    client.push({"class": "tell_environment", "args": []})

    worker.wait_for_output("False False\n")


def test_under_a_supervisor_the_main_process_speaks_for_all(redis, start, client, folder, manager):
    worker = start("--processes", "2", WATCHDOG_USEC="1000000")
    hear(worker, manager, "READY=1")
    assert len(redis.smembers("kb:inflight")) == 2

    client.push({"class": "until_open", "args": []})
    [*_, status] = hear(worker, manager, "STATUS=2 running, 1 of 4 busy")
    assert "WATCHDOG=1" in status

    (folder / "open").touch()
    assert worker.stop() == 0
    assert any("STOPPING=1" in message for message in manager.waiting())
