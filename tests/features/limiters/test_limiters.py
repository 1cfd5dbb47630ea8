"""Limiters in real workers: jobs that are put off, and a worker that is killed while it holds locks."""

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.waiting import wait_until

from kiqbridge.flow import limiter

pytestmark = pytest.mark.slow

JOBS = Path(__file__).parent / "jobs" / "limited.py"
LOCKS = "kb:limit:concurrent:hold"


FLAGS = ("-c", "3")
ENV = {"KIQBRIDGE_RECOVER_AFTER_S": "3", "KIQBRIDGE_POOL_SIZE": "1"}


def test_jobs_of_each_pool_are_put_off_and_have_not_failed(start, client, redis, seen):
    erp = limiter.concurrent("erp", 4, client=client)
    classes = ["OnThread", "OnLoop", "InProcess", "Inside"]
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(erp.within_limit())
        worker = start()
        for name in classes:
            client.push({"class": name, "args": []})

        wait_until(lambda: redis.zcard("schedule") == len(classes), 60)
        put_off = [json.loads(each) for each in redis.zrange("schedule", 0, -1)]

        assert sorted(each["class"] for each in put_off) == sorted(classes)
        assert {each["kb_over_limit"] for each in put_off} == {1}
        assert all("error_class" not in each for each in put_off)
        assert not redis.exists("retry", "dead")
        assert seen.all() == []

    for text in redis.zrange("schedule", 0, -1):
        redis.zadd("schedule", {text: 1})
    ran = seen.wait("ran", len(classes))

    assert sorted(each["where"] for each in ran) == ["inside", "loop", "process", "thread"]
    wait_until(lambda: int(redis.get("stat:processed") or 0) == len(classes), 60)
    assert int(redis.get("stat:failed") or 0) == 0
    wait_until(lambda: not redis.exists("kb:limit:concurrent:erp"), 60)
    assert worker.output.count("over limit") == len(classes)


def test_locks_of_a_killed_worker_are_free_when_its_jobs_come_back(start, client, redis, seen):
    killed = start()
    for number in range(3):
        client.push({"class": "Holds", "args": [number]})
    seen.wait("holds", 2)
    former = set(redis.hkeys(LOCKS))
    assert len(former) == 2

    killed.signal(signal.SIGKILL)
    start()

    began = seen.wait("holds", 4)
    locks = set(redis.hkeys(LOCKS))
    assert len(began) == 4
    assert len(locks) == 2
    assert not locks & former
    seen.release()
    seen.wait("ended", 3)
    wait_until(lambda: not redis.exists(LOCKS), 60)
