"""Where everything is measured: the server, the cores, prepared queues and what Redis tells.

The server has the first core, whatever is measured the second; the benchmark itself keeps off the
second. A child is started with its core, so that all its threads and children have it from their
first instruction on.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import redis
from benchmarks.outcome import RUBY, RUBY_7
from benchmarks.progress import Progress
from benchmarks.sizes import Sizes
from support.processes import ChildProcess
from support.ruby import HERE, Ruby, entered_debian_13, has_debian_13
from support.servers import ServerProcess, debian_server, embedded_server
from support.waiting import wait_until

from kiqbridge import Client

SERVER_CORE, WORKER_CORE = 0, 1
STORE = 1
"""Database with the prepared queues; database 0 is emptied before each round."""
CHUNK = 100_000
"""Jobs of a prepared queue that differ."""
COPIES_A_CALL = 20
"""So that preparing millions of jobs does not keep the server in one script for seconds."""
PATIENT = {"socket_timeout": 60, "retry": None}
"""A copy of millions takes its time, and must not be repeated."""

IN_FLIGHT = """
local count = 0
for _, incarnation in ipairs(redis.call('SMEMBERS', 'kb:inflight')) do
  for _, tid in ipairs(redis.call('HKEYS', 'kb:claims:' .. incarnation)) do
    for parity = 0, 1 do
      count = count + redis.call('LLEN', 'kb:inflight:' .. incarnation .. ':' .. tid .. ':' .. parity)
    end
  end
end
return {redis.call('LLEN', KEYS[1]), count}
"""
DUPLICATE = """
for _ = 1, ARGV[1] do
  for first = 0, redis.call('LLEN', KEYS[1]) - 1, 1000 do
    redis.call('LPUSH', KEYS[2], unpack(redis.call('LRANGE', KEYS[1], first, first + 999)))
  end
end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What every measure is given.

    Attributes:
        rubies: each Sidekiq that is measured beside us, and what starts a command with its Ruby.
        peers: names of Python peers that were asked for.
        python: of the environment in which ours is installed.
        folder: temporary, for job files and evidence.
        client: of database 0 of the server, unpinned.
    """

    sizes: Sizes
    server: ServerProcess
    client: redis.Redis
    store: redis.Redis
    python: Path
    folder: Path
    progress: Progress
    rubies: Mapping[str, Ruby]
    peers: tuple[str, ...]

    @property
    def with_ruby(self) -> bool:
        return RUBY in self.rubies

    @property
    def command(self) -> str:
        """Path of `kiqbridge`."""
        return str(self.python.with_name("kiqbridge"))

    def rounds(
        self, contenders: Mapping[str, Callable[[], float]], rounds: int | None = None
    ) -> dict[str, list[float]]:
        """Measure each in turn, and all of them again: A B A B, each on an empty database."""
        samples: dict[str, list[float]] = {name: [] for name in contenders}
        count = rounds or self.sizes.rounds
        for number in range(1, count + 1):
            for name, measure in contenders.items():
                self.progress.step(f"round {number}/{count}, {name}")
                self.client.flushdb()
                samples[name].append(measure())
        return samples

    def prepare(self, name: str, count: int, job: Mapping[str, object]) -> str:
        """A queue of so many jobs in the store, made once; `job` without `args` gets a number.

        Beyond the first jobs their bytes repeat, since nobody compares them.
        """
        key = f"prepared:{name}:{count}"
        if self.store.exists(key):
            return key
        client = Client(self.server.url.removesuffix("/0") + f"/{STORE}")
        try:
            distinct = min(count, CHUNK)
            args = [job.get("args", [number]) for number in range(distinct)]
            client.push_bulk({"queue": "default", **job, "args": args})
        finally:
            client.close()
        queue = f"queue:{job.get('queue', 'default')}"
        copies, rest = divmod(count, distinct)
        for first in range(0, copies, COPIES_A_CALL):
            self.store.eval(DUPLICATE, 2, queue, key, min(COPIES_A_CALL, copies - first))
        if rest:
            self.store.ltrim(queue, 0, rest - 1)
            self.store.eval(DUPLICATE, 2, queue, key, 1)
        self.store.delete(queue)
        return key

    def put(self, key: str, target: str = "queue:default") -> float:
        """Let a prepared key appear in database 0 with all its content at once; when that was.

        The time, of `perf_counter`, is taken after the copying, which takes the longer the more there is.
        """
        self.place(key)
        began = time.perf_counter()
        self.appear(target)
        return began

    def place(self, key: str) -> None:
        """Copy a prepared key into database 0, where nobody looks for it yet."""
        self.store.copy(key, "bench:appearing", destination_db=0, replace=True)

    def appear(self, target: str = "queue:default") -> None:
        """Let what was placed appear."""
        self.client.rename("bench:appearing", target)

    def left(self, queue: str = "default") -> tuple[int, int]:
        """Jobs in a queue, and in all in-flight lists of ours."""
        queued, in_flight = self.client.eval(IN_FLIGHT, 1, f"queue:{queue}")
        return queued, in_flight

    def claims(self) -> int:
        """How many numbered claims ours has made: each one filled an in-flight list of its claimer."""
        numbers = [
            int(claim.split()[0])
            for incarnation in self.client.smembers("kb:inflight")
            for claim in self.client.hvals(b"kb:claims:" + incarnation)
        ]
        return sum(numbers)

    def wait_listed(self, worker: ChildProcess, count: int = 1, timeout_s: float = 60) -> None:
        """Wait until so many processes beat: `worker` is the one whose end would be the reason not to."""
        worker.wait_for(
            lambda: self.client.scard("processes") >= count, timeout_s, f"{count} in `processes`"
        )

    def commands(self) -> int:
        """Commands that the server has processed, those inside scripts counted."""
        return int(self.client.info("stats")["total_commands_processed"])


@contextlib.contextmanager
def stage(
    sizes: Sizes,
    progress: Progress,
    *,
    with_ruby: bool,
    peers: Sequence[str],
    python: Path = Path(sys.executable),
) -> Iterator[Stage]:
    """A fresh server on its core; the benchmark's own process keeps off the worker's.

    Args:
        python: of the environment in which ours is installed.
    """
    before = os.sched_getaffinity(0)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(pinned_server())
        stack.callback(os.sched_setaffinity, 0, before)
        if len(before) > 1:
            os.sched_setaffinity(0, before - {core(WORKER_CORE)})
        rubies = {RUBY: HERE} if with_ruby else {}
        if with_ruby and has_debian_13():
            rubies[RUBY_7] = stack.enter_context(entered_debian_13())
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kiqbridge-bench-"))
        store_url = server.url.removesuffix("/0") + f"/{STORE}"
        yield Stage(
            sizes=sizes,
            server=server,
            client=stack.enter_context(redis.Redis.from_url(server.url, **PATIENT)),
            store=stack.enter_context(redis.Redis.from_url(store_url, **PATIENT)),
            python=python,
            folder=Path(folder),
            progress=progress,
            rubies=rubies,
            peers=tuple(peers),
        )


@contextlib.contextmanager
def pinned_server() -> Iterator[ServerProcess]:
    """The first server of `KIQBRIDGE_BENCH_SERVER`, else Debian's redis-server, else the embedded Valkey, on the server's core."""
    found = [*bench_binaries(), "redis-server"][0]
    with contextlib.ExitStack() as stack:
        with on_core(SERVER_CORE):
            server = stack.enter_context(start_server(found if shutil.which(found) else ""))
        yield server


def bench_binaries() -> list[str]:
    """Paths of `KIQBRIDGE_BENCH_SERVER`, with colons between them: servers to measure on."""
    return [path for path in os.environ.get("KIQBRIDGE_BENCH_SERVER", "").split(":") if path]


def start_server(binary: str, **settings: str) -> AbstractContextManager[ServerProcess]:
    """The server of a binary, or, for an empty path, the embedded Valkey."""
    return debian_server(binary=binary, **settings) if binary else embedded_server(**settings)


def server_title(client: redis.Redis) -> str:
    """Name and version, such as `Redis 7.0.15`."""
    found = client.info("server")
    if "valkey_version" in found:
        return f"Valkey {found['valkey_version']}"
    return f"Redis {found['redis_version']}"


ALL_CORES = sorted(os.sched_getaffinity(0))


def core(number: int) -> int:
    """The number of a core that we may use; where there are fewer, some share."""
    return ALL_CORES[min(number, len(ALL_CORES) - 1)]


@contextlib.contextmanager
def on_core(number: int | None) -> Iterator[None]:
    """What is started inside runs on this core alone; None: on all."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, ALL_CORES if number is None else {core(number)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin(pid: int, cores: Sequence[int]) -> None:
    """Move a running process with all its threads."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core(number) for number in cores})


@contextlib.contextmanager
def delayed(server: ServerProcess, delay_s: float) -> Iterator[str]:
    """The server's address behind a wire that makes a round trip longer, on the server's core."""
    command = [sys.executable, str(Path(__file__).with_name("delay.py"))]
    with on_core(SERVER_CORE):
        process = subprocess.Popen(
            [*command, str(server.port), str(delay_s)], stdout=subprocess.PIPE, text=True
        )
    try:
        assert process.stdout
        yield f"redis://127.0.0.1:{process.stdout.readline().strip()}/0"
    finally:
        process.kill()
        process.communicate()


def round_trip_ms(url: str, count: int = 100) -> float:
    """Median of so many PING, in milliseconds."""
    with redis.Redis.from_url(url) as client:
        took = []
        for _ in range(count):
            began = time.perf_counter()
            client.ping()
            took.append(time.perf_counter() - began)
    return sorted(took)[count // 2] * 1000


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (thread / "children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended
        for child in children:
            found += family(int(child))
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its living descendants."""
    ticks = 0
    for each in family(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def voluntary_switches(pid: int) -> int:
    """How often the living threads of a process have given up the CPU by themselves."""
    texts = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/status")]
    lines = [line for text in texts for line in text.splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))


def resident_mb(pid: int) -> float:
    """Resident memory of one process, in units of 1,000,000 bytes."""
    return _memory_mb(pid, "VmRSS:")


def shared_mb(pid: int) -> float:
    """Of that, the pages of files: other processes of the same program have them in common."""
    return _memory_mb(pid, "RssFile:") + _memory_mb(pid, "RssShmem:")


def _memory_mb(pid: int, kind: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) * 1024 / 1_000_000
    raise AssertionError(f"process {pid} has no memory: it ended")


def read_numbers(path: Path, count: int, timeout_s: float = 60) -> list[float]:
    """Wait until jobs have written so many lines into a file; their numbers."""

    def lines() -> list[str]:
        return path.read_text().splitlines() if path.exists() else []

    wait_until(lambda: len(lines()) >= count, timeout_s, lambda: f"{count} lines: {len(lines())}")
    return [float(line) for line in lines()]
