"""Dynamic schedules with real workers: fired at their second, once, whoever leads the fleet."""

import json
import time
from collections import Counter

import pytest
from support.waiting import wait_until
from support.workers import started_workers

from kiqbridge import Client, Schedule, Schedules

pytestmark = pytest.mark.slow

JOBS = """
import os, time
from kiqbridge import job, server

@server.middleware.add
def note(instance, payload, queue, call_next):
    handle = os.open(os.environ["NOTES"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    tick = payload["tick"]
    os.write(handle, f"{tick['schedule']} {tick['at']} {time.time()!r} {os.getpid()}\\n".encode())
    os.close(handle)
    call_next()

@job
def nop(): ...
"""


class Fired:
    """What jobs noted: schedule, instant, when it ran, pid."""

    def __init__(self, path):
        self.path = path

    def read(self, schedule) -> list[tuple[int, float, int]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        words = [line.split() for line in lines]
        return [(int(at), float(ran), int(pid)) for name, at, ran, pid in words if name == schedule]

    def instants(self, schedule) -> list[int]:
        return sorted(at for at, _, _ in self.read(schedule))


@pytest.fixture
def fired(tmp_path) -> Fired:
    return Fired(tmp_path / "fired")


@pytest.fixture
def start(redis_url, tmp_path, fired):
    (tmp_path / "jobs.py").write_text(JOBS)
    with started_workers(
        "-r",
        str(tmp_path / "jobs.py"),
        "-c",
        "2",
        redis_url=redis_url,
        env={"NOTES": str(fired.path), "KIQBRIDGE_SCHEDULE_HORIZON_S": "5"},
    ) as start:
        yield start


@pytest.fixture
def schedules(redis_url):
    client = Client(redis_url)
    yield Schedules(client)
    client.close()


def assert_each_second_once(instants) -> None:
    assert Counter(instants).most_common(1)[0][1] == 1
    assert instants == list(range(instants[0], instants[-1] + 1))


def test_one_that_is_saved_while_a_worker_runs_fires_each_second_once(start, fired, schedules):
    start()

    schedules.save(Schedule("seconds", "nop", every=1))

    wait_until(lambda: len(fired.instants("seconds")) >= 6, 60)
    assert_each_second_once(fired.instants("seconds"))
    assert all(ran >= at for at, ran, _ in fired.read("seconds"))


def test_a_change_a_pause_and_a_deletion_take_effect_while_it_runs(redis, start, fired, schedules):
    start()
    schedules.save(Schedule("old", "nop", every=1))
    wait_until(lambda: len(fired.instants("old")) >= 2, 60)

    schedules.pause("old", reason="test")
    schedules.save(Schedule("new", "nop", every=1))
    wait_until(lambda: len(fired.instants("new")) >= 3, 60)
    paused_at = json.loads(redis.hget("kb:schedules:state", "old"))["paused"]["at"]
    assert max(fired.instants("old")) <= paused_at

    schedules.resume("old")
    wait_until(lambda: max(fired.instants("old")) > paused_at + 1, 60)
    assert schedules.delete("new")
    wait_until(lambda: redis.zcard("kb:placed:new") == 0)
    last, so_far = int(time.time()), len(fired.instants("old"))
    wait_until(lambda: len(fired.instants("old")) >= so_far + 3, 60)
    assert max(fired.instants("new")) <= last


def test_when_the_leader_is_killed_another_one_goes_on_and_nothing_is_missing(
    redis, start, fired, schedules
):
    workers = [start(), start()]
    schedules.save(Schedule("seconds", "nop", every=1))
    wait_until(lambda: len(fired.instants("seconds")) >= 3, 60)

    pid = int(redis.get("kb:poller").split(b":")[-2])
    [leader] = [each for each in workers if each.pid == pid]
    leader.kill()
    killed_at = time.time()

    # A lead lasts 8 s, and what was placed ahead for 5 to 10 s: some seconds come late, none is left out.
    wait_until(lambda: max(fired.instants("seconds")) > killed_at + 14, 90)
    instants = fired.instants("seconds")
    assert set(range(instants[0], instants[-1] + 1)) == set(instants)
    ledger = [json.loads(text) for text in redis.zrange("kb:ticks:seconds", 0, -1)]
    assert len({each["at"] for each in ledger}) == len(ledger)
    assert len({each["by"] for each in ledger}) == 2
    # What the killed process held is given back, and may run twice: it was enqueued once.
    twice = [at for at, count in Counter(instants).items() if count > 1]
    assert len(twice) <= 2


def test_one_that_is_declared_beside_its_job_fires(redis, start, fired, tmp_path, schedules):
    (tmp_path / "declared.py").write_text(
        "from kiqbridge import job\n@job(every=1, queue='default')\ndef beat(): ...\n"
    )

    start("-r", str(tmp_path / "declared.py"))

    wait_until(lambda: len(fired.instants("beat")) >= 4, 60)
    assert_each_second_once(fired.instants("beat"))
    assert schedules.get("beat").definition.origin == "code"
