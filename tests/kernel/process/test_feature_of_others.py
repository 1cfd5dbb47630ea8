"""The feature in `examples/`, as an installed distribution, in a real worker."""

import json
import time
from pathlib import Path

import pytest
from support.distributions import install
from support.waiting import wait_until
from support.workers import started_workers

pytestmark = pytest.mark.slow

DEADLINE = Path(__file__).parents[3] / "examples/feature_deadline.py"
JOBS = """
from kiqbridge import job

@job(name="Report", deadline_s=60)
def report(number):
    print(f"reported {number}", flush=True)
"""


def test_a_job_is_not_begun_after_its_deadline(redis_url, redis, tmp_path):
    install(tmp_path, "feature_deadline", DEADLINE.read_text("utf-8"))
    jobs = tmp_path / "jobs.py"
    jobs.write_text(JOBS)
    for number, age_s in enumerate([0, 61]):
        enqueued = {"enqueued_at": time.time() - age_s, "created_at": time.time() - age_s}
        payload = {"class": "Report", "args": [number], "jid": f"{number}" * 24, "retry": True}
        text = json.dumps({**payload, **enqueued, "deadline_s": 60, "queue": "default"})
        redis.lpush("queue:default", text)

    with started_workers(
        env={}, require=str(jobs), redis_url=redis_url, cwd=tmp_path, python_path=[tmp_path]
    ) as start:
        worker = start()
        wait_until(lambda: int(redis.get("stat:processed") or 0) == 2)
        worker.stop()

    assert "reported 0" in worker.output
    assert "reported 1" not in worker.output
    assert "after its deadline" in worker.output
    assert not redis.exists("retry", "dead", "queue:default")
