"""Redis is away while a worker ends; tests/prove/test_redis_restarts.py restarts it under load."""

import signal

import pytest
from support.fleet import KEYS, Fleet, lists_in_flight
from support.processes import is_process_running
from support.servers import AOF, ServerProcess
from support.waiting import wait_until

from kiqbridge.client.client import Client

pytestmark = pytest.mark.slow


@pytest.fixture
def restartable(tmp_path):
    with ServerProcess("valkey", tmp_path / "server", **AOF) as server:
        yield server.start()


@pytest.fixture
def raw(restartable):
    with restartable.client() as client:
        yield client


@pytest.fixture
def fleet(restartable, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    with Fleet(restartable.url, marks) as fleet:
        yield fleet


def enqueue(url, count, work_ms):
    client = Client(url)
    jids = client.push_bulk({"class": "Mark", "args": [[work_ms]] * count})
    client.close()
    return jids


def test_what_waits_behind_a_job_is_not_lost_when_redis_is_away_at_the_deadline_of_a_shutdown(
    fleet, restartable, raw, tell
):
    client = Client(restartable.url)
    jids = enqueue(restartable.url, 150, 0)
    sabotage = client.push({"class": "Saboteur", "args": [restartable.pid, 2.5]})
    client.close()
    jids += [sabotage, *enqueue(restartable.url, 150, 0)]

    ending = fleet.start("-c", "1", "-t", "1", recover_after_s=None)
    ending.wait_for(lambda: sabotage in fleet.marks.look().running(ending.pid), what="no server")
    ending.wait_for(lambda: not is_process_running(restartable.pid), what="the server's death")
    restartable.kill()
    ending.signal(signal.SIGTERM)
    ending.wait_for_output("did not finish in time")
    restartable.start()  # before the running job ends
    waiting = [job for jobs in lists_in_flight(raw).values() for job in jobs]
    assert ending.wait(20) == 0
    fleet.live.remove(ending)
    before = len(fleet.marks.look().count("performed"))
    heir = fleet.start("-c", "2", recover_after_s=None)
    heir.wait_for(
        lambda: len(fleet.marks.look().count("performed")) == len(jids),
        10,
        "all jobs",
    )
    wait_until(lambda: not lists_in_flight(raw), 10, lambda: f"{lists_in_flight(raw)}")

    begun = fleet.marks.look().count("begun")
    tell(
        f"Redis away at the deadline of a shutdown: {len(waiting)} jobs in flight, {before} "
        f"performed before, {len(jids) - before} by another worker, lost 0"
    )
    assert len(waiting) > 10
    assert set(fleet.marks.count("performed")) == set(jids)
    assert {jid for jid, count in begun.items() if count > 1} <= {sabotage}
    assert fleet.stop() == [0]
    assert raw.zcard(KEYS.dead) == 0
