"""The operator's API on sets and queues of any size: constant memory, and no command holds the server up.

Full: 1,000,000 dead jobs and 1,000,000 that wait. What a command costs is the server's own mean
(`INFO commandstats`); single calls may be held up by the machine, so of them a part may be slower.
"""

import json
import resource
import time
from dataclasses import dataclass

import pytest
from support.proving import sized

from kiqbridge.api import DeadSet, Filter, Queue, find_job, open_operator, read_audit

pytestmark = pytest.mark.redis_server

JOBS = sized(full=1_000_000, sample=20_000)
MOVED = JOBS // 10
MOST_MS = 5.0
ENOUGH = 20
MOST_MEMORY_KB = 40_000
_OUR_LOOK = ("slowlog", "config", "info")


def text(number):
    item = {
        "retry": True,
        "queue": "default",
        "class": "Bill" if number % 1_000 == 0 else "Mail",
        "args": [number, "user@example.com"],
        "jid": f"{number:024x}",
        "created_at": 1700000000.5,
        "enqueued_at": 1700000000.5,
        "error_class": "OSError",
        "error_message": "no route to host",
        "failed_at": 1700000000.5,
        "retry_count": 25,
    }
    return json.dumps(item, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of a call: its result, seconds, commands sent, the dearest command's mean, slow calls, memory."""

    result: object
    seconds: float
    commands: int
    dearest_ms: float
    slow: int
    memory_kb: int

    def __str__(self):
        return (
            f"{self.seconds:.3f} s, {self.commands:,} commands, at most {self.dearest_ms:.2f} ms each on "
            f"average, {self.slow} of them above {MOST_MS:g} ms, memory +{self.memory_kb:,} kB"
        )


@pytest.fixture
def redis_url(debian_redis_url):
    """A server as in production: the embedded one finds places in the midst of a long list much more slowly."""
    return debian_redis_url


@pytest.fixture
def cost_of(redis):
    def measure(call):
        redis.config_set("slowlog-log-slower-than", int(MOST_MS * 1000))
        redis.config_set("slowlog-max-len", 10_000)
        redis.slowlog_reset()
        redis.config_resetstat()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - began
        stats = {
            name.removeprefix("cmdstat_"): each
            for name, each in redis.info("commandstats").items()
            if not name.removeprefix("cmdstat_").startswith(_OUR_LOOK)
        }
        return Cost(
            result=result,
            seconds=seconds,
            # What a script calls is counted, too; the scripts alone were sent.
            commands=sum(each["calls"] for each in stats.values()),
            # Of what was called a few times only, a mean says more of a busy machine than of the call.
            dearest_ms=max(
                (each["usec_per_call"] for each in stats.values() if each["calls"] >= ENOUGH),
                default=0.0,
            )
            / 1000,
            slow=sum(
                not each["command"].lower().startswith(tuple(word.encode() for word in _OUR_LOOK))
                for each in redis.slowlog_get(10_000)
            ),
            memory_kb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before,
        )

    yield measure
    redis.config_set("slowlog-log-slower-than", 10_000)


@pytest.fixture
def operator(redis, redis_url):
    now = time.time()
    for first in range(0, JOBS, 1_000):
        texts = [text(number) for number in range(first, first + 1_000)]
        redis.zadd("dead", dict.fromkeys(texts, now - JOBS + first))
        redis.lpush("queue:default", *texts)
    redis.sadd("queues", "default")
    operator = open_operator(redis_url, by="ann")
    yield operator
    operator.client.close()


def test_a_large_set_and_a_long_queue_are_read_and_acted_on(operator, cost_of, tell):
    dead, queue = DeadSet(operator), Queue("default", operator)
    bills = Filter(job_class="Bill")
    middle = f"{JOBS // 2:024x}"
    calls = {
        "a page of the dead set": (lambda: len(dead.page(JOBS // 50).rows), 25),
        "a page of the queue": (lambda: len(queue.page(JOBS // 50).rows), 25),
        "iterating the dead set": (lambda: sum(1 for _ in dead), JOBS),
        "iterating the queue": (lambda: sum(1 for _ in queue), JOBS),
        "filtering the dead set by class": (
            lambda: sum(1 for _ in dead.scan(bills, now=time.time())),
            JOBS // 1_000,
        ),
        "finding a job by its jid": (lambda: len(find_job(middle, operator)), 2),
        "finding none": (lambda: len(find_job("none", operator)), 0),
        "deleting a job in the midst of the queue": (
            lambda: bool(queue.page(JOBS // 50).rows[0].delete()),
            True,
        ),
        f"retrying {MOVED:,} dead jobs": (lambda: dead.apply_all("retry", limit=MOVED), MOVED),
        "deleting by class in the dead set": (lambda: dead.delete_all(bills), MOVED * 9 // 1_000),
        "deleting by class in the queue": (
            lambda: queue.apply_all("delete", bills),
            (JOBS + MOVED) // 1_000,
        ),
        f"moving {MOVED:,} jobs to another queue": (
            lambda: queue.apply_all("move", to="low", limit=MOVED),
            MOVED,
        ),
    }

    for name, (call, expected) in calls.items():
        cost = cost_of(call)
        tell(f"{JOBS:,} jobs, {name}: {cost}")
        assert cost.result == expected, name
        assert cost.dearest_ms <= MOST_MS, name
        assert cost.slow <= 1 + cost.commands // 50, name
        assert cost.memory_kb <= MOST_MEMORY_KB, name
        assert cost.commands <= 10 or not name.startswith("a page")

    assert dead.size + queue.size + Queue("low", operator).size == 2 * JOBS - 1 - (
        MOVED * 9 // 1_000 + (JOBS + MOVED) // 1_000
    )
    assert [entry.action for entry in reversed(read_audit(operator))] == [
        *("delete", "retry", "delete", "delete", "move")
    ]
