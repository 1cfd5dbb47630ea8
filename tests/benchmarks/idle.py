"""What idle workers cost and how fast they pick up: `python tests/benchmarks/idle.py`.

Starts a fleet of idle workers, counts Redis commands and CPU while nothing happens, then pushes
jobs at a steady rate and measures the time from push to begin, and the commands per push.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.servers import embedded_server
from support.waiting import wait_until
from support.workers import WorkerProcess

from kiqbridge import Client

JOB = """
import os, time
from kiqbridge import job

@job(name="PickUpJob")
def pick_up(pushed_at: float, path: str) -> None:
    late = time.time() - pushed_at
    file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(file, b"%.6f\\n" % late)
    os.close(file)
"""
QUEUES = ("-q", "critical", "-q", "default", "-q", "low")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--rate", type=int, default=100, help="pushes a second")
    parser.add_argument("--seconds", type=int, default=10, help="of each phase")
    options = parser.parse_args()
    with (
        embedded_server() as server,
        tempfile.TemporaryDirectory() as folder,
        contextlib.ExitStack() as fleet,
    ):
        path = Path(folder, "pick_up_job.py")
        path.write_text(JOB)
        evidence = Path(folder, "late")
        client = fleet.enter_context(redis.Redis.from_url(server.url))
        workers = [
            fleet.enter_context(
                WorkerProcess(
                    "-r", str(path), *QUEUES,
                    redis_url=server.url, env={"KIQBRIDGE_LOG_LEVEL": "warn"},
                )
            )
            for _ in range(options.processes)
        ]  # fmt: skip
        for worker in workers:
            worker.wait_ready(timeout_s=60)

        commands, cpu = spent(client, workers, options.seconds)
        per_process = commands / options.processes
        print(
            f"{options.processes} processes, nothing to do for {options.seconds} s: "
            f"{per_process:.2f} commands/s and {cpu / options.processes * 1000:.1f} ms CPU/s each"
        )
        pusher = Client(server.url)
        before = total_commands(client)
        pushes = options.rate * options.seconds
        began = time.perf_counter()
        for number in range(pushes):
            time.sleep(max(began + number / options.rate - time.perf_counter(), 0))
            pusher.push(
                {"class": "PickUpJob", "queue": "default", "args": [time.time(), str(evidence)]}
            )
        wait_until(lambda: len(evidence.read_text().splitlines()) == pushes, 30, "all picked up")
        commands = total_commands(client) - before
        pusher.close()
        late = sorted(float(line) * 1000 for line in evidence.read_text().splitlines())
        print(
            f"{options.rate} pushes/s for {options.seconds} s: picked up after p50 "
            f"{statistics.median(late):.2f} ms, p99 {late[int(len(late) * 0.99)]:.2f} ms, "
            f"{commands / pushes:.1f} commands per push in the whole fleet"
        )


def spent(client: redis.Redis, workers: list[WorkerProcess], seconds: int) -> tuple[float, float]:
    """Commands per second at the server and CPU seconds per second of all workers."""
    commands, cpu = total_commands(client), sum(map(cpu_seconds, workers))
    began = time.perf_counter()
    time.sleep(seconds)
    elapsed = time.perf_counter() - began
    return (
        (total_commands(client) - commands) / elapsed,
        (sum(map(cpu_seconds, workers)) - cpu) / elapsed,
    )


def total_commands(client: redis.Redis) -> int:
    return int(client.info("stats")["total_commands_processed"])


def cpu_seconds(worker: WorkerProcess) -> float:
    fields = Path(f"/proc/{worker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
