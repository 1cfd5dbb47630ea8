"""The Python peers: each from PyPI in a virtual environment of its own, in its best documented
configuration for one process.

Jobs are enqueued by the peer's own client before its worker starts. The jobs count themselves, and
the last one writes how long it was since the first: starts and ends of processes are not timed.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.drain import drain
from benchmarks.environments import Environment
from benchmarks.outcome import OURS, Outcome, at_least, ratio
from benchmarks.sides import NOOP, ours
from benchmarks.stage import WORKER_CORE, Stage, on_core, read_numbers
from benchmarks.throughput import IO_S
from support.processes import ChildProcess

# At the head of each peer's module. One process runs all, so counting in memory is exact.
COUNTING = """
import itertools, os, time

URL = os.environ["REDIS_URL"]
COUNT = int(os.environ["BENCH_COUNT"])
DONE = itertools.count(1)
BEGAN = []

def count():
    number = next(DONE)
    if number == 1:
        BEGAN.append(time.perf_counter())
    if number == COUNT:
        with open(os.environ["BENCH_EVIDENCE"], "w") as file:
            file.write(f"{time.perf_counter() - BEGAN[0]}\\n")
"""
# And at its end. The tasks are taken from the module, since `__main__` would be part of their names.
ENQUEUING = """
if __name__ == "__main__":
    import sys
    import bench_tasks
    bench_tasks.enqueue(getattr(bench_tasks, sys.argv[1]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer(Environment):
    """How a peer is installed, told its jobs, and started.

    Attributes:
        module: source of `bench_tasks.py`; `python bench_tasks.py NAME` enqueues COUNT jobs.
        command: the worker, relative to the environment's `bin`.
        guarantee: what happens to the jobs of a killed worker.
        sleeping: a job that waits 10 ms is there as well.
    """

    module: str
    command: tuple[str, ...]
    guarantee: str
    sleeping: bool = False

    @property
    def version(self) -> str:
        return self.version_of(self.packages[0].partition("[")[0])


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            name="huey",
            packages=("huey", "redis", "hiredis"),
            module="""
from huey import RedisHuey
huey = RedisHuey("bench", url=URL, results=False)

@huey.task()
def no_op(number):
    count()

def enqueue(task):
    for number in range(COUNT):
        no_op(number)
""",
            command=("huey_consumer", "bench_tasks.huey", "-k", "thread", "-w", "10", "-n", "-q"),
            guarantee="at most once (BRPOP)",
        ),
        Peer(
            name="taskiq",
            packages=("taskiq", "taskiq-redis", "hiredis", "uvloop"),
            module=f"""
import asyncio
from taskiq_redis import ListQueueBroker
broker = ListQueueBroker(URL)

@broker.task
async def no_op(number: int) -> None:
    count()

@broker.task
async def sleep(number: int) -> None:
    await asyncio.sleep({IO_S})
    count()

async def enqueue_all(task):
    await broker.startup()
    for first in range(0, COUNT, 50):
        await asyncio.gather(*(task.kiq(number) for number in range(first, min(first + 50, COUNT))))
    await broker.shutdown()

def enqueue(task):
    asyncio.run(enqueue_all(task))
""",
            command=(
                "taskiq", "worker", "bench_tasks:broker", "--workers", "1", "--max-async-tasks", "100",
                "--log-level", "WARNING",
            ),
            guarantee="at most once (list broker, BRPOP)",
            sleeping=True,
        ),
        Peer(
            name="celery",
            packages=("celery[redis]", "hiredis"),
            module="""
from celery import Celery
app = Celery("bench", broker=URL)
app.conf.update(task_ignore_result=True, worker_prefetch_multiplier=100, broker_connection_retry_on_startup=True)

@app.task
def no_op(number):
    count()

def enqueue(task):
    for number in range(COUNT):
        no_op.delay(number)
""",
            command=(
                "celery", "-A", "bench_tasks", "worker", "--pool", "solo", "-l", "WARNING",
                "--without-gossip", "--without-mingle", "--without-heartbeat",
            ),
            guarantee="at most once (acknowledges before it runs, its default)",
        ),
        Peer(
            name="saq",
            packages=("saq[redis,hiredis]", "uvloop", "typing_extensions"),
            module="""
import asyncio
from saq import Queue
queue = Queue.from_url(URL)

async def no_op(ctx, *, number):
    count()

settings = {"queue": queue, "functions": [no_op], "concurrency": 100}

async def enqueue_all():
    await queue.connect()
    for number in range(COUNT):
        await queue.enqueue("no_op", number=number, ttl=-1)
    await queue.disconnect()

def enqueue(task):
    asyncio.run(enqueue_all())
""",
            command=("saq", "bench_tasks.settings", "--quiet"),
            guarantee="jobs are moved to an active list; a sweeper deals with those of a dead worker",
        ),
        Peer(
            name="arq",
            packages=("arq", "hiredis"),
            module="""
import asyncio
from arq import create_pool
from arq.connections import RedisSettings

async def no_op(ctx, number):
    count()

class WorkerSettings:
    functions = [no_op]
    redis_settings = RedisSettings.from_dsn(URL)
    max_jobs = 100
    keep_result = 0
    poll_delay = 0.01

async def enqueue_all():
    pool = await create_pool(WorkerSettings.redis_settings)
    for number in range(COUNT):
        await pool.enqueue_job("no_op", number)
    await pool.aclose()

def enqueue(task):
    asyncio.run(enqueue_all())
""",
            command=("arq", "bench_tasks.WorkerSettings"),
            guarantee="at least once (removed after it ran)",
        ),
        Peer(
            name="dramatiq",
            packages=("dramatiq[redis]", "hiredis"),
            module="""
import dramatiq
from dramatiq.brokers.redis import RedisBroker
dramatiq.set_broker(RedisBroker(url=URL))

@dramatiq.actor
def no_op(number):
    count()

def enqueue(task):
    for number in range(COUNT):
        no_op.send(number)
""",
            command=("dramatiq", "bench_tasks", "--processes", "1", "--threads", "10"),
            guarantee="at least once (acknowledges after it ran)",
        ),
        Peer(
            name="rq",
            packages=("rq", "redis", "hiredis"),
            module="""
from redis import Redis
from rq import Queue

def no_op(number):
    count()

def enqueue(task):
    import bench_tasks
    queue = Queue(connection=Redis.from_url(URL))
    queue.enqueue_many([
        Queue.prepare_data(bench_tasks.no_op, args=(number,), result_ttl=0) for number in range(COUNT)
    ])
""",
            command=("rq", "worker", "--url", "$REDIS_URL", "--worker-class", "rq.worker.SimpleWorker", "-q"),
            guarantee="at most once (a job of a killed worker is moved to the failed ones)",
        ),
    )
}  # fmt: skip
PUSHING = {
    peer.name: peer
    for peer in (
        Peer(
            name="ardiq",
            packages=("ardiq",),
            module="""
from ardiq import Ardiq
app = Ardiq(redis_url=URL, queue_name="bench")

@app.task()
async def no_op(number: int) -> None:
    pass
""",
            command=("ardiq", "run", "bench_tasks:app"),
            guarantee="at least once (streams)",
            interpreter="python3.13",
        ),
    )
}
"""Peers of which only pushes are measured."""
DEFAULT = ("huey", "taskiq", "celery")
ON_REQUEST = (*(name for name in PEERS if name not in DEFAULT), *PUSHING)

# Behind a module: as many tasks as asked for push one job after another, and the rate is printed.
PUSH_AT_ONCE = """
import asyncio, sys

async def push(count):
    for number in range(count):
        await {call}(number)

async def push_all(tasks, count):
    await push(1)
    began = time.perf_counter()
    await asyncio.gather(*(push(count // tasks) for _ in range(tasks)))
    print(count / (time.perf_counter() - began))

asyncio.run(push_all(*map(int, sys.argv[1:])))
"""
CALLS = {"taskiq": "no_op.kiq", "ardiq": "no_op.enqueue"}


def peers(stage: Stage) -> list[Outcome]:
    """No-op jobs beside each Python peer; and what the async one makes of jobs that wait 10 ms."""
    key = stage.prepare("noop", stage.sizes.noop, {"class": "NoOpJob"})
    outcomes = []
    for peer in (PEERS[name] for name in stage.peers if name in PEERS):
        name = peer.name
        stage.progress.step(f"installing {name}")
        try:
            peer.install()
            outcomes += _measure(stage, peer, key)
        except (AssertionError, OSError) as error:
            outcomes.append(_missing(peer, error))
    return outcomes


def _measure(stage: Stage, peer: Peer, key: str) -> list[Outcome]:
    count, of_ours = stage.sizes.peer, stage.sizes.noop
    samples = stage.rounds(
        {
            OURS: lambda: drain(stage, ours, NOOP, key, of_ours),
            peer.name: lambda: run_peer(stage, peer, "no_op", count),
        }
    )
    outcomes = [
        Outcome(
            what=f"no-op jobs beside {peer.name} {peer.version}",
            unit="jobs/s",
            samples=samples,
            target="ahead",
            met=at_least(ratio(samples, peer.name), 1),
            note=f"{count:,} jobs of {peer.name}, {of_ours:,} of ours; {' '.join(peer.command)}; {peer.guarantee}",
        )
    ]
    if peer.sleeping:
        samples = stage.rounds({peer.name: lambda: run_peer(stage, peer, "sleep", count)})
        outcomes.append(
            Outcome(
                what=f"jobs that sleep 10 ms, 100 at once, {peer.name}",
                unit="jobs/s",
                samples=samples,
                note=f"{count:,} jobs, ideal {100 / IO_S:,.0f}/s; compare with our line of 500 at once",
            )
        )
    return outcomes


def run_peer(stage: Stage, peer: Peer, task: str, count: int) -> float:
    """Jobs per second between the first and the last."""
    folder = stage.folder / f"peer-{peer.name}"
    folder.mkdir(exist_ok=True)
    (folder / "bench_tasks.py").write_text(COUNTING + peer.module + ENQUEUING)
    evidence = folder / "took"
    evidence.unlink(missing_ok=True)
    own = {"BENCH_COUNT": str(count), "BENCH_EVIDENCE": str(evidence), "PYTHONPATH": str(folder)}
    environment = {"REDIS_URL": stage.server.url, **own}
    with ChildProcess(
        [str(peer.python), "bench_tasks.py", task], cwd=folder, env=environment
    ) as enqueuing:
        exit_code = enqueuing.wait(300)
        last = enqueuing.output.strip().splitlines()[-1:]
        assert exit_code == 0, f"{peer.name} cannot enqueue: {last}"
    with on_core(WORKER_CORE):
        program, *rest = [part.replace("$REDIS_URL", stage.server.url) for part in peer.command]
        worker = ChildProcess(
            [str(peer.folder / "bin" / program), *rest], cwd=folder, env=environment
        )
    with worker:
        worker.wait_for(evidence.exists, 300, f"{count} jobs")
        [took] = read_numbers(evidence, 1)
    return (count - 1) / took


def push_by_peer(stage: Stage, peer: Peer, tasks: int, count: int) -> float:
    """Jobs per second that so many tasks of one event loop push."""
    script = COUNTING + peer.module + PUSH_AT_ONCE.format(call=CALLS[peer.name])
    own = {"REDIS_URL": stage.server.url, "BENCH_COUNT": "0", "BENCH_EVIDENCE": ""}
    with on_core(WORKER_CORE):
        done = subprocess.run(
            [str(peer.python), "-c", script, str(tasks), str(count)],
            env={**os.environ, **own}, capture_output=True, text=True, check=True,
        )  # fmt: skip
    return float(done.stdout.splitlines()[-1])


def describe(names: Sequence[str]) -> list[str]:
    """Version, command line and guarantee of each, one a line."""
    return [
        f"{peer.name}: {peer.version}; {' '.join(peer.command)}; {peer.guarantee}"
        for peer in map({**PEERS, **PUSHING}.__getitem__, names)
    ]


def _missing(peer: Peer, error: Exception) -> Outcome:
    return Outcome(
        what=f"no-op jobs beside {peer.name}",
        unit="jobs/s",
        target="ahead",
        failed=True,
        note=str(error).partition("\n")[0][:200],
    )


MEASURES: Sequence = (peers,)
