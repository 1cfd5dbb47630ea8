"""Many environments of the enqueue function at once: what they deliver twice is enqueued once."""

import json
import multiprocessing
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from support.enqueue_function import deliver, read_event

PROCESSES = 4
DELIVERIES = 100


def test_20_ticks_delivered_100_times_each_by_4_processes_enqueue_20_jobs(
    redis, redis_url, recent, tell
):
    ticks = [
        read_event(
            "scheduler_tick",
            args=[schedule, minute],
            tick={"schedule": f"shop/Rule{schedule}", "at": f"{recent(minute):%FT%TZ}"},
        )
        for schedule in range(4)
        for minute in range(5)
    ]
    deliveries = ticks * DELIVERIES
    random.Random(20).shuffle(deliveries)

    results = run_processes(redis_url, [deliveries[n::PROCESSES] for n in range(PROCESSES)])

    enqueued, duplicates = defaultdict(list), defaultdict(list)
    for event, answer in results:
        tick = (event["tick"]["schedule"], event["tick"]["at"])
        assert answer["stale"] == []
        enqueued[tick] += [job["jid"] for job in answer["enqueued"]]
        duplicates[tick] += [job["jid"] for job in answer["duplicates"]]
    queued = [json.loads(text) for text in redis.lrange("queue:low", 0, -1)]
    counts = {
        "processes": PROCESSES,
        "ticks": len(ticks),
        "deliveries": len(results),
        "enqueued": sum(map(len, enqueued.values())),
        "duplicates": sum(map(len, duplicates.values())),
        "in the queue": len(queued),
    }
    tell(f"tick test: {', '.join(f'{name} {count}' for name, count in counts.items())}")
    assert counts == {
        "processes": 4,
        "ticks": 20,
        "deliveries": 2000,
        "enqueued": 20,
        "duplicates": 1980,
        "in the queue": 20,
    }
    assert {tick: len(jids) for tick, jids in enqueued.items()} == dict.fromkeys(enqueued, 1)
    assert {job["jid"] for job in queued} == {jid for [jid] in enqueued.values()}
    assert sorted(job["args"] for job in queued) == sorted(tick["args"] for tick in ticks)
    for tick, [jid] in enqueued.items():
        assert Counter(duplicates[tick]) == {jid: DELIVERIES - 1}


def test_two_environments_that_race_for_a_tick_enqueue_all_its_jobs_or_none(
    redis, redis_url, recent
):
    ticks = [
        read_event(
            "scheduler_tick_many",
            tick={"schedule": "shop/CloseOfDay", "at": f"{recent(minute):%FT%TZ}"},
        )
        for minute in range(50)
    ]

    results = run_processes(redis_url, [ticks, ticks])

    outcomes = Counter((len(a["enqueued"]), len(a["duplicates"])) for _, a in results)
    assert outcomes == {(3, 0): 50, (0, 3): 50}
    by_tick = defaultdict(list)
    for event, answer in results:
        jobs = answer["enqueued"] + answer["duplicates"]
        by_tick[event["tick"]["at"]].append([job["jid"] for job in jobs])
    assert all(first == second for first, second in by_tick.values())
    assert [redis.llen(f"queue:{name}") for name in ("low", "mailers", "rails")] == [50, 50, 50]


@pytest.fixture
def recent():
    """The full minute `minutes` before this test began."""
    start = datetime.now(UTC).replace(second=0, microsecond=0)
    return lambda minutes: start - timedelta(minutes=minutes)


def run_processes(redis_url, shares):
    """One process for each share of events; all (event, answer)."""
    spawning = multiprocessing.get_context("spawn")
    barrier, answers = spawning.Barrier(len(shares)), spawning.Queue()
    processes = [
        spawning.Process(target=deliver, args=({"REDIS_URL": redis_url}, share, barrier, answers))
        for share in shares
    ]
    try:
        for process in processes:
            process.start()
        results = [answers.get(timeout=60) for _ in processes]
        for process in processes:
            process.join(30)
    finally:
        for process in processes:
            process.kill()
            process.join()
            process.close()
        answers.close()
    return [result for share in results for result in share]
