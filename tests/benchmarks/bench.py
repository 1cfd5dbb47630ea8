"""`make bench`: no-op jobs per second of one worker process, beside Ruby's Sidekiq in the same run.

Both get the same queue at the same moment (a filled list is renamed into place), with ten threads
and log level WARN; the server has a core of its own, the worker another. The runs alternate, and
the table gives medians and their ratio, since machines are noisy.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.processes import ChildProcess
from support.ruby import RubySidekiq, has_ruby_sidekiq
from support.servers import Server, embedded_server
from support.waiting import wait_until
from support.workers import WorkerProcess

from kiqbridge import Client

PYTHON_JOB = """
from kiqbridge import job

@job(name="NoOpJob")
def no_op(number: int) -> None:
    pass
"""
RUBY_JOB = """
Sidekiq.configure_server { |config| config.logger.level = Logger::WARN }
class NoOpJob
  include Sidekiq::Worker
  def perform(number); end
end
"""
THREADS = 10
FILL = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--jobs", type=int, default=100_000, help="jobs per run (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of each (default: %(default)s)")
    options = parser.parse_args()

    contenders: dict[str, Callable[[Server, Path], AbstractContextManager[ChildProcess]]] = {
        "kiqbridge, reliable fetch": python_worker
    }
    if has_ruby_sidekiq():
        contenders["Ruby Sidekiq, BRPOP"] = ruby_worker
    else:
        print("Ruby Sidekiq is not installed (apt install ruby-sidekiq): measuring ours alone.")

    print(f"{options.jobs:,} no-op jobs, {THREADS} threads, 1 process, WARN; {machine()}")
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    with embedded_server() as server, tempfile.TemporaryDirectory() as folder:
        pin(server.pid, 0)
        for run in range(options.runs):
            for name, start in contenders.items():
                rate = measure(server, start, Path(folder), options.jobs)
                rates[name].append(rate)
                print(
                    f"  run {run + 1}/{options.runs}  {name:28} {rate:>10,.0f} jobs/s", flush=True
                )
    report(rates)


def measure(
    server: Server,
    start: Callable[[Server, Path], AbstractContextManager[ChildProcess]],
    folder: Path,
    jobs: int,
) -> float:
    """Jobs per second from the moment the full queue appears until the last has been taken."""
    server.flush()
    with redis.Redis.from_url(server.url) as client, start(server, folder) as worker:
        worker.wait_ready()
        pin(worker.pid, 1)
        pusher = Client(server.url)
        pusher.push_bulk(
            {"class": "NoOpJob", "queue": "filling", "args": [[n] for n in range(jobs)]}
        )
        pusher.close()
        began = time.perf_counter()
        client.rename("queue:filling", "queue:default")
        wait_until(lambda: not client.llen("queue:default"), 300, "the queue to be empty")
        return jobs / (time.perf_counter() - began)


def python_worker(server: Server, folder: Path) -> WorkerProcess:
    path = folder / "no_op_job.py"
    path.write_text(PYTHON_JOB)
    level = {"KIQBRIDGE_LOG_LEVEL": "warn"}
    return WorkerProcess("-r", str(path), "-c", str(THREADS), redis_url=server.url, env=level)


def ruby_worker(server: Server, _folder: Path) -> RubySidekiq:
    return RubySidekiq(RUBY_JOB, server.url, concurrency=THREADS)


def report(rates: dict[str, list[float]]) -> None:
    base = statistics.median(list(rates.values())[-1])
    print(f"\n{'':28} {'median':>10} {'min':>10} {'max':>10} {'ratio':>8}")
    for name, values in rates.items():
        median = statistics.median(values)
        print(
            f"{name:28} {median:>10,.0f} {min(values):>10,.0f} {max(values):>10,.0f} "
            f"{median / base:>7.2f}x"
        )


def pin(pid: int, core: int) -> None:
    """Give a process a core of its own, all its threads; where there is only one, share it."""
    cores = sorted(os.sched_getaffinity(0))
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {cores[min(core, len(cores) - 1)]})


def machine() -> str:
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}"


if __name__ == "__main__":
    main()
