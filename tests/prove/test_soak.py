"""Millions of jobs in one worker: memory, threads and file descriptors stay as they are."""

import mmap
import os
import time
from pathlib import Path

from support.proving import (
    KEYS,
    counted,
    hurry_retries,
    left_over,
    sized,
    wait_counted,
    wait_performed,
    wait_settled,
)
from support.waiting import wait_until

from kiqbridge.client.client import Client

JOBS = sized(full=2_000_000, sample=40_000)
FAILING_EVERY = 100
BATCH = sized(full=10_000, sample=2000)
WAITING = sized(full=40_000, sample=8000)
"""Jobs in the queue at most: it is the worker that is measured."""
WARM = 660
"""Executions before the count."""
GROWTH_MB = 12.0
"""Allowed between 10% and 100%; ten bytes per job would be 18 MB. Failures warm up the allocator for long."""
THREADS = 5


class Health:
    """What a process takes of the machine."""

    def __init__(self, pid: int) -> None:
        proc = Path(f"/proc/{pid}")
        status = dict(
            line.split(":", 1)
            for line in (proc / "status").read_text(encoding="ascii").splitlines()
        )
        self.memory_mb = int(status["VmRSS"].split()[0]) / 1024
        self.threads = int(status["Threads"])
        self.descriptors = min(_count_lasting(proc / "fd") for _ in range(5))

    def __repr__(self) -> str:
        return f"{self.memory_mb:.1f} MB, {self.threads} threads, {self.descriptors} descriptors"


def _count_lasting(folder: Path) -> int:
    """Descriptors that are there twice: a file that is read just now, such as one of /proc, is not counted."""
    first = set(os.listdir(folder))  # noqa: PTH208 - of another process
    time.sleep(0.02)
    return len(first & set(os.listdir(folder)))  # noqa: PTH208 - as above


def test_memory_threads_and_descriptors_stay_as_they_are(fleet, server, redis, tell):
    path = fleet.marks.folder / "counts"
    path.write_bytes(bytes(JOBS))
    with path.open("r+b") as file:
        counts = mmap.mmap(file.fileno(), 0)
    worker = fleet.start(
        "-c",
        str(THREADS),
        recover_after_s=None,
        url=server.url,
        env={"KIQBRIDGE_LOG_LEVEL": "error"},
    )
    fleet.wait_leased(redis)
    client = Client(server.url)
    # What opens a connection when it is first needed: failing, waiting behind a long job, a retry.
    warm = client.push_bulk({"class": "Mark", "args": [[0]] * 300 + [[40]] * 20 + [[0]] * 300})
    warm += client.push_bulk({"class": "FailOnce", "args": [[]] * 20})
    wait_performed(fleet, warm, 30, retried_in=redis)
    assert wait_counted(fleet, redis) == WARM
    at: dict[int, Health] = {}
    pushed = 0
    while pushed < JOBS:
        wait_until(lambda: redis.llen(KEYS.queue("default")) < WAITING, 120, "room in the queue")
        numbers = range(pushed, min(pushed + BATCH, JOBS))
        failing = [number for number in numbers if number % FAILING_EVERY == 0]
        fine = [[number] for number in numbers if number % FAILING_EVERY]
        client.push_bulk({"class": "Count", "args": fine})
        client.push_bulk({"class": "CountFailing", "args": [[number, 1] for number in failing]})
        pushed += len(numbers)
        hurry_retries(redis)
        for percent in (10, 50):
            if percent not in at and pushed >= JOBS * percent // 100:
                at[percent] = Health(worker.pid)
    client.close()

    failing = len(range(0, JOBS, FAILING_EVERY))

    def all_done():
        return (
            not hurry_retries(redis)
            and not left_over(redis)
            and counted(redis) >= WARM + JOBS + failing
        )

    wait_until(all_done, 120, lambda: f"{left_over(redis)}, {counted(redis)}", interval_s=0.2)
    at[100] = Health(worker.pid)
    wait_settled(redis)
    codes = fleet.stop()
    once = bytes(counts).count(1)
    twice = bytes(counts).count(2)
    counts.close()

    tell(
        f"soak: {JOBS} jobs in one worker, {failing} of them failing once; performed {once} once and "
        f"{twice} twice (the failing ones), lost {JOBS - once - twice}; at "
        + "; ".join(f"{percent}%: {health}" for percent, health in at.items())
    )
    assert (once, twice) == (JOBS - failing, failing)
    assert counted(redis) == WARM + JOBS + failing
    assert at[100].memory_mb < at[10].memory_mb + GROWTH_MB
    assert {health.threads for health in at.values()} == {at[10].threads}
    # Threads share connections, and those that idle are closed: so many more may be open at one moment.
    assert at[100].descriptors <= at[10].descriptors + THREADS
    assert left_over(redis) == {}
    assert codes == [0]
