"""Workers are killed and Step Functions falters while state machines wait: each gets its outcome."""

import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from support.step_functions import StepFunctionsStandIn
from support.waiting import wait_until
from support.workers import started_workers

JOBS = Path(__file__).parent / "jobs" / "tasks.py"
REPORTS = "kb:reports"
TASKS = 60
KILLED_AFTER = (15, 40)
"""Performed jobs after which the worker is killed."""


class Faltering(StepFunctionsStandIn):
    """Refuses one call in ten, and loses one reply in ten."""

    rng = random.Random(5)

    def _carry_out(self, name, body):
        if self.rng.random() < 0.1:
            return self.rng.choice([(500, "InternalFailure"), (400, "ThrottlingException")])
        answer = super()._carry_out(name, body)
        return (0, "") if self.rng.random() < 0.1 else answer


def have_performed(marks, count):
    return marks.exists() and len(marks.read_text()) >= count


def all_have_theirs(redis, service):
    """Whether no task waits, and no report: what was put off need not be waited for."""
    reports = redis.zrange(REPORTS, 0, -1)
    if reports:
        redis.zadd(REPORTS, dict.fromkeys(reports, 0), xx=True)
    return not service.waiting and not reports


@pytest.mark.slow
def test_each_task_gets_one_outcome_whatever_is_killed_or_lost(
    redis, redis_url, client, tmp_path, tell
):
    marks = tmp_path / "Working"
    with Faltering(*(f"token-{number}" for number in range(TASKS))) as service:
        env = {
            "MARKS": str(tmp_path),
            "KIQBRIDGE_RECOVER_AFTER_S": "4",
            "KIQBRIDGE_LOG_FORMAT": "plain",
            **service.env,
        }
        with started_workers("-r", str(JOBS), "-c", "4", env=env, redis_url=redis_url) as start:
            worker = start()
            for token in sorted(service.waiting):
                client.push({"class": "Working", "args": [], "task_token": token})
            for count in KILLED_AFTER:
                wait_until(partial(have_performed, marks, count), 60)
                worker.kill()
                worker = start()
            wait_until(
                partial(all_have_theirs, redis, service),
                90,
                lambda: f"{len(service.waiting)} tasks wait",
                interval_s=0.1,
            )
            assert worker.stop() == 0

    performed = len(marks.read_text())
    calls = Counter(call.name for call in service.calls)
    tell(
        f"{TASKS} tasks, {len(KILLED_AFTER)} SIGKILLs, {calls['SendTaskSuccess']} calls of a service that "
        f"falters: each task has its outcome; performed {performed}, so again {performed - TASKS}"
    )
    assert calls["SendTaskFailure"] == 0
    assert performed >= TASKS
    assert redis.keys("kb:inflight:*") == []
