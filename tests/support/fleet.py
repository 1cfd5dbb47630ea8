"""Workers that a fault test kills, freezes and watches; the evidence lies in files, not in Redis."""

import json
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import redis as redis_py

from kiqbridge.wire.keys import Keys
from support.waiting import wait_until
from support.workers import WorkerProcess

JOBS = Path(__file__).parent.parent / "kernel" / "faults" / "jobs" / "marking.py"
KEYS = Keys()


class Marks:
    """What the jobs of `marking.py` wrote; read forward only, so that looking often is cheap.

    Attributes:
        lines: for each file the pairs (jid, pid) in the order of writing.
        times: for each file, beside its pairs, when that was (`time.monotonic`).
    """

    FILES = ("begun", "interrupted", "performed", "failed")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: dict[str, list[tuple[str, int]]] = {name: [] for name in self.FILES}
        self.times: dict[str, list[float]] = {name: [] for name in self.FILES}
        self._offsets = dict.fromkeys(self.FILES, 0)

    def look(self) -> Self:
        # Later events first: whatever is `performed` here is surely found in `begun`.
        for name in reversed(self.FILES):
            path = self.folder / name
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._offsets[name])
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._offsets[name] += len(whole)
            for line in whole.decode().splitlines():
                jid, pid, at = line.split()
                self.lines[name].append((jid, int(pid)))
                self.times[name].append(float(at))
        return self

    def count(self, name: str) -> Counter[str]:
        """How often each jid stands there."""
        return Counter(jid for jid, _ in self.lines[name])

    def by(self, name: str, pid: int) -> list[str]:
        """The jids that one process wrote."""
        return [jid for jid, writer in self.lines[name] if writer == pid]

    def executions(self) -> int:
        """How many have ended: as `stat:processed` counts them."""
        self.look()
        return len(self.lines["performed"]) + len(self.lines["failed"])

    def running(self, pid: int) -> set[str]:
        """Jids that a process has begun and not ended."""
        open_ = Counter(self.by("begun", pid))
        open_.subtract(self.by("performed", pid))
        open_.subtract(self.by("failed", pid))
        return {jid for jid, count in open_.items() if count > 0}


class Fleet:
    """Workers on the jobs of `marking.py`; all of them end with the block."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        self._url = redis_url
        self.marks = Marks(folder)
        self.live: list[WorkerProcess] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind, error, trace) -> None:
        if error is not None:
            for worker in self.live:
                error.add_note(f"worker {worker.pid}:\n{worker.output[-3000:]}")
        self._stack.__exit__(kind, error, trace)

    def start(
        self,
        *args: str,
        recover_after_s: float | None,
        url: str | None = None,
        env: Mapping[str, str] | None = None,
        jobs: Path = JOBS,
        **options: Any,
    ) -> WorkerProcess:
        """A new worker, with further options of `WorkerProcess`; None = with the default bound."""
        settings = {"MARKS": str(self.marks.folder), "KIQBRIDGE_LOG_FORMAT": "plain"}
        settings["KIQBRIDGE_LOG_LEVEL"] = "warning"
        if recover_after_s is not None:
            settings["KIQBRIDGE_RECOVER_AFTER_S"] = str(recover_after_s)
        worker = WorkerProcess(
            "-r",
            str(jobs),
            *args,
            redis_url=url or self._url,
            env={**settings, **(env or {})},
            **options,
        )
        self._stack.enter_context(worker)
        self.live.append(worker)
        return worker

    def wait_leased(self, redis: redis_py.Redis) -> set[str]:
        """Once each living worker has a lease: all leases."""
        for worker in self.live:
            worker.wait_for(lambda pid=worker.pid: incarnations(redis, pid), what="its lease")
        return incarnations(redis)

    def kill(self, worker: WorkerProcess) -> None:
        worker.kill()
        self.live.remove(worker)

    def stop(self, timeout_s: float = 20) -> list[int]:
        """TERM to all at once; their exit codes."""
        for worker in self.live:
            worker.signal(signal.SIGTERM)
        codes = [worker.wait(timeout_s) for worker in self.live]
        self.live.clear()
        return codes


def freeze(worker: WorkerProcess, redis: redis_py.Redis) -> None:
    """SIGSTOP; returns when the process stands still and the server has done all it had sent."""
    worker.signal(signal.SIGSTOP)
    wait_until(lambda: is_frozen(worker.pid), 5, "the process standing still")
    settle(redis)


def settle(redis: redis_py.Redis) -> None:
    """One round trip: what others had sent before has been carried out, also by this iteration."""
    redis.ping()
    redis.ping()


def is_frozen(pid: int) -> bool:
    """Whether all threads of a process are stopped."""
    states = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (task / "stat").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has ended
        states.append(status.rpartition(")")[2].split()[0])
    return bool(states) and set(states) == {"T"}


def incarnations(redis: redis_py.Redis, pid: int | None = None, keys: Keys = KEYS) -> set[str]:
    """The leases that are registered or being reaped, of one process or of all."""
    names = {member.decode() for member in redis.sunion(keys.inflight, keys.reaping)}
    return {name for name in names if pid is None or name.split(":")[-3] == str(pid)}


def lists_in_flight(redis: redis_py.Redis, keys: Keys = KEYS) -> dict[str, list[bytes]]:
    """All lists of claimed jobs with their content."""
    names = [key.decode() for key in redis.scan_iter(f"{keys.inflight}:*", count=1000)]
    found = {name: redis.lrange(name, 0, -1) for name in names}
    return {name: jobs for name, jobs in found.items() if jobs}


def keys_with(redis: redis_py.Redis, jid: str) -> list[str]:
    """The keys that hold a job, or anything else that names it."""
    read = {
        b"list": lambda key: redis.lrange(key, 0, -1),
        b"set": redis.smembers,
        b"zset": lambda key: redis.zrange(key, 0, -1),
        b"hash": lambda key: [part for pair in redis.hgetall(key).items() for part in pair],
        b"string": lambda key: [redis.get(key)],
    }
    return sorted(
        key.decode()
        for key in redis.scan_iter(count=1000)
        # One that has expired meanwhile has no type.
        if any(
            jid.encode() in part
            for part in [key, *read.get(redis.type(key), lambda _key: [])(key)]
            if part
        )
    )


def jids_in_flight(redis: redis_py.Redis, names: Sequence[str] | set[str]) -> set[str]:
    """The jobs that these incarnations hold."""
    return {
        json.loads(job)["jid"]
        for key, jobs in lists_in_flight(redis).items()
        for job in jobs
        if any(key.startswith(f"{KEYS.inflight}:{name}:") for name in names)
    }


class Stopwatch:
    """Seconds from a kill until the victim's lease is gone, which is when its jobs are back.

    Attributes:
        seconds: one per victim.
        since_last_start: from the last kill until the last lease was gone.
    """

    def __init__(self, redis: redis_py.Redis) -> None:
        self._redis = redis
        self._since: dict[str, float] = {}
        self._last_start = 0.0
        self.seconds: list[float] = []
        self.since_last_start = 0.0

    def start(self, names: set[str]) -> None:
        self._last_start = time.monotonic()
        self._since.update(dict.fromkeys(names, self._last_start))

    def look(self) -> bool:
        """Whether none is awaited any more."""
        gone = set(self._since) - incarnations(self._redis) if self._since else set()
        now = time.monotonic()
        self.seconds += [now - self._since.pop(name) for name in gone]
        if gone:
            self.since_last_start = now - self._last_start
        return not self._since
