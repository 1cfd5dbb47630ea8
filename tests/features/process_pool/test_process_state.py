"""What a job changes about its whole process is put back, or does not matter, or ends the process."""

import json
import os
import sys
import time
from pathlib import Path

import pytest
from support.fleet import lists_in_flight
from support.processes import run_python
from support.waiting import wait_until

from kiqbridge.client.registry import Registry
from kiqbridge.engine.host.process_state import ProcessState

pytestmark = [pytest.mark.slow, pytest.mark.any_server]

JOBS = Path(__file__).parent / "jobs" / "changing.py"
FLAGS = ("-c", "2")
ENV = {"GIVEN": "value"}
EX_STUCK = 70
ALL = [
    "folder",
    "umask",
    "environment",
    "zone",
    "locale",
    "path",
    "streams",
    "clock",
    "timeout",
    "collector",
    "recursion",
    "switch",
    "limits",
    "logging",
    "jobs",
]


def look(seen, client, redis, kind="Look"):
    """The state that a job finds now, without who looked."""
    count = len(seen.all("state"))
    client.push({"class": kind, "args": []})

    def found():
        # What fails meanwhile, since its class is unknown for one, is retried sooner: when there was time in
        # which no job ran.
        soon = time.time() + 2
        for text, score in redis.zrange("retry", 0, -1, withscores=True):
            if score > soon:
                redis.zadd("retry", {text: soon}, xx=True)
        return len(seen.all("state")) > count

    wait_until(found, 60, "the state that a job finds")
    state = seen.all("state")[-1]
    return {name: state[name] for name in state.keys() - {"event", "pid", "at"}}


def test_what_a_job_changes_is_put_back_when_no_job_runs(start, seen, client, redis):
    worker = start()
    before = look(seen, client, redis)
    kinds = {}
    for number, what in enumerate(ALL):
        client.push({"class": "Change", "args": [what]})
        seen.wait("changed", number + 1)
        wait_until(lambda: look(seen, client, redis) == before, 60, lambda w=what: f"{w} as it was")
        client.push({"class": "Later", "args": []})
        seen.wait("later", number + 1)
        kinds[what] = look(seen, client, redis, "LookInProcess")

    in_process = {**before, "logging": kinds["folder"]["logging"]}
    assert kinds == dict.fromkeys(ALL, in_process)
    assert (
        worker.output.count("it was put back") >= len(ALL) - 1
    )  # one of them ends the log meanwhile
    assert redis.zcard("retry") == 0
    assert worker.stop() == 0


def test_what_a_job_changes_in_a_child_process_is_put_back_before_the_next_job(
    start, seen, client, redis
):
    worker = start(KIQBRIDGE_POOL_SIZE="1")
    before = look(seen, client, redis, "LookInProcess")
    for number, what in enumerate(ALL):
        client.push({"class": "ChangeInProcess", "args": [what]})
        seen.wait("changed", number + 1)
        assert look(seen, client, redis, "LookInProcess") == before

    assert {note["pid"] for note in seen.all("changed")} == {
        note["pid"] for note in seen.all("state")
    }
    assert redis.zcard("retry") == 0
    assert worker.stop() == 0


def test_child_processes_are_started_as_the_worker_was(start, seen, client, redis, folder):
    worker = start("-c", "3")
    client.push({"class": "Hold", "args": []})
    seen.wait("hold")  # so that nothing is put back meanwhile
    for number, what in enumerate(["folder", "umask", "environment", "path", "timeout", "clock"]):
        client.push({"class": "Change", "args": [what]})
        seen.wait("changed", number + 1)

    state = look(seen, client, redis, "LookInProcess")

    assert state["folder"] == str(folder.resolve())
    assert (state["given"], state["timeout"], state["clock"]) == ("value", None, True)
    assert state["umask"] == current_umask()
    seen.release()
    assert worker.stop() == 0


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_a_running_job_changes_for_a_while_is_left_to_it(start, seen, client):
    worker = start(KIQBRIDGE_BEAT_S="0.2")
    client.push({"class": "HoldElsewhere", "args": []})
    seen.wait("hold")
    # More looks than one have passed when the other thing, which is put back at once, is put back.
    for number in range(3):
        client.push({"class": "Change", "args": ["switch"]})
        seen.wait("changed", number + 1)
        wait_until(
            lambda n=number: worker.output.count("the switch interval") == n + 1, 60, "a look"
        )

    seen.release()

    assert [note["folder"] for note in seen.wait("held")] == ["/"]
    assert "the working directory" not in worker.output
    assert worker.stop() == 0


def test_a_stream_that_a_job_closed_is_replaced_once(monkeypatch):
    with open(os.devnull, "w", encoding="utf-8") as stream:  # noqa: PTH123 - as the process has it
        monkeypatch.setattr(sys, "stdout", stream)
        state = ProcessState(Registry())
    assert stream.closed

    assert state.look(is_idle=True) == ["sys.stdout or sys.stderr"]
    assert not sys.stdout.closed
    assert state.look(is_idle=True) == []


def test_without_a_free_descriptor_nothing_is_said_to_have_changed():
    """The umask is read from /proc, which cannot be opened then: that is no other mask."""
    run_python(
        """
        import logging, os, resource
        from kiqbridge.client.registry import Registry
        from kiqbridge.engine.host.process_state import ProcessState

        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        state = ProcessState(Registry())
        state.look(is_idle=True)
        try:
            while True:
                os.open(os.devnull, os.O_RDONLY)
        except OSError:
            pass
        assert state.look(is_idle=True) == []
        """
    )


@pytest.mark.parametrize("which", ["all", "connections"])
def test_a_process_whose_descriptors_a_job_closed_gives_back_and_ends_with_a_status(
    start, seen, client, redis, which
):
    worker = start()
    client.push({"class": "Hold", "args": []})
    seen.wait("hold")
    client.push({"class": "Close", "args": [which]})

    assert worker.wait(60) == EX_STUCK

    assert lists_in_flight(redis) == {}
    back = redis.llen("queue:default")
    assert back in (
        (2,) if which == "all" else (1, 2)
    )  # it may have ended well before that was found
    assert redis.smembers("kb:inflight") == set()
    assert len(redis.keys("kb:recovered:*")) == back  # so a job that does so each time is found
    assert "closed file descriptors that were not its own" in worker.output


def test_a_child_process_whose_socket_a_job_closed_is_replaced(start, seen, client, redis):
    worker = start()
    client.push({"class": "CloseInProcess", "args": []})
    seen.wait("close")

    wait_until(lambda: redis.zcard("retry") == 1, 60, lambda: worker.output)
    [retry] = redis.zrange("retry", 0, -1)
    assert "ended with exit code 71" in json.loads(retry)["error_message"]
    look(seen, client, redis, "LookInProcess")
    assert worker.stop() == 0


def test_a_process_that_can_open_nothing_any_more_stops_and_ends_with_a_status(
    start, seen, client, redis
):
    worker = start(FEW_FILES="1")
    client.push({"class": "OpenAll", "args": []})
    seen.wait("open")

    assert worker.wait(90) == EX_STUCK

    assert "it can open nothing any more" in worker.output
    assert lists_in_flight(redis) == {}
    assert redis.smembers("kb:inflight") == set()
