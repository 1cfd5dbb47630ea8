"""A worker of one fleet: what it serves, and where its jobs push to, in its process and in children."""

import json

import pytest
import redis as redis_py
from support.processes import ran
from support.servers import embedded_server
from support.waiting import wait_until
from support.workers import WorkerProcess, find_identity

from kiqbridge import Client

pytestmark = pytest.mark.slow

JOBS = """
from kiqbridge import job

@job(queue="pay")
def charge(number):
    pass

@job(queue="mail")
def send():
    charge.perform_async(1)

@job(queue="mail", pool="process")
def send_in_child():
    charge.perform_async(2)
"""


@pytest.fixture
def other():
    with embedded_server() as server, redis_py.Redis.from_url(server.url) as raw:
        raw.url = server.url
        yield raw


@pytest.fixture
def folder(tmp_path, redis_url, other):
    """Jobs, and a file of settings with two fleets."""
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "kiqbridge.yml").write_text(
        f"""
redis_url: {redis_url}
fleets:
  mail: {{namespace: mail, queues: [mail]}}
  pay: {{provider: PAY_URL, queues: [pay]}}
"""
    )
    return tmp_path


def test_a_worker_serves_its_fleet_and_pushes_to_all(folder, redis_url, redis, other):
    environ = {"PAY_URL": other.url, "REDIS_URL": ""}
    client = Client(redis_url, namespace="mail")
    with WorkerProcess(
        *("--fleet", "mail", "-r", "jobs.py", "-c", "2"),
        redis_url=redis_url,
        env=environ,
        cwd=folder,
        namespace="mail:",
    ) as worker:
        worker.wait_ready()
        identity = find_identity(redis, worker.pid, "mail:")
        info = json.loads(redis.hget(f"mail:{identity}", "info"))
        client.push({"class": "send", "args": [], "queue": "mail"})
        client.push({"class": "send_in_child", "args": [], "queue": "mail"})
        wait_until(lambda: other.llen("queue:pay") == 2, 20, "both jobs of the fleet pay")
        assert worker.stop() == 0

    assert info["queues"] == ["mail"]
    assert "no worker serves queue" not in worker.output
    texts = other.lrange("queue:pay", 0, -1)
    assert sorted(json.loads(text)["args"] for text in texts) == [[1], [2]]
    assert redis.keys("*pay*") == []
    client.close()


def test_a_worker_without_a_fleet_does_not_start(folder, other):
    code, output = ran("worker", "-r", "jobs.py", env={"PAY_URL": other.url}, cwd=folder)

    assert code == 1
    assert "a worker serves one fleet; choose it with --fleet or KIQBRIDGE_FLEET: mail" in output
