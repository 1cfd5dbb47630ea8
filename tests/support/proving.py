"""How large a proof is, and what several proofs need.

Each proof takes its size from one setting: KIQBRIDGE_PROVE=full is what `make prove` runs, `sample`
(the default) is the same proof in seconds, for every run of the tests.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Self, TypeVar

import redis as redis_py

from kiqbridge.client.client import Client
from kiqbridge.errors import KiqbridgeError
from kiqbridge.wire.keys import Keys
from support.fleet import Fleet, lists_in_flight
from support.waiting import wait_until

SIZES = ("sample", "full")
VARIABLE = "KIQBRIDGE_PROVE"
KEYS = Keys()

T = TypeVar("T")


def size() -> str:
    return os.environ.get(VARIABLE, "sample")


def sized(*, full: T, sample: T) -> T:
    """A number of a proof, by the size asked for."""
    return full if size() == "full" else sample


def hold(seconds: float, look: Callable[[], object] = lambda: None, *, every_s: float = 0.1) -> int:
    """Let a fault last, looking meanwhile; returns how often. The time is the fault itself."""
    deadline = time.monotonic() + seconds
    looks = 0
    while (left := deadline - time.monotonic()) > 0:
        look()
        looks += 1
        time.sleep(min(every_s, left))
    return looks


def hurry_retries(redis: redis_py.Redis, keys: Keys = KEYS) -> int:
    """Make all retries due now; returns how many there were. Also while memory is full."""
    script = """#!lua flags=allow-oom
        local jobs = redis.call('ZRANGE', KEYS[1], 0, 999)
        for _, job in ipairs(jobs) do redis.call('ZADD', KEYS[1], 'XX', 1, job) end
        return #jobs"""
    return int(redis.eval(script, 1, keys.retry))


def wait_performed(
    fleet: Fleet, jids: Iterable[str], timeout_s: float, retried_in: redis_py.Redis | None = None
) -> None:
    """Wait until each of these jobs was performed; retries of this server need not wait for their time."""
    awaited = set(jids)

    def all_performed() -> bool:
        if retried_in is not None:
            hurry_retries(retried_in)
        return fleet.marks.look().count("performed").keys() >= awaited

    def described() -> str:
        done = len(awaited & fleet.marks.count("performed").keys())
        outputs = "\n".join(worker.output[-2000:] for worker in fleet.live)
        return f"all jobs: {done} of {len(awaited)} performed; {outputs}"

    wait_until(all_performed, timeout_s, described, interval_s=0.1)


def wait_counted(fleet: Fleet, redis: redis_py.Redis) -> int:
    """Wait until `stat:processed` has counted all executions; how many they are."""
    wait_until(
        lambda: counted(redis) >= fleet.marks.executions(),
        30,
        lambda: f"stat:processed {counted(redis)} of {fleet.marks.executions()}",
    )
    return fleet.marks.executions()


def wait_settled(redis: redis_py.Redis, timeout_s: float = 15) -> None:
    """Wait until all claims are acknowledged."""
    wait_until(lambda: not lists_in_flight(redis), timeout_s, lambda: f"{lists_in_flight(redis)}")


def left_over(redis: redis_py.Redis, keys: Keys = KEYS) -> dict[str, int]:
    """What should be empty at the end of a proof, with how many are in it."""
    counts = {key: redis.zcard(key) for key in (keys.dead, keys.retry, keys.schedule)}
    counts["queue"] = redis.llen(keys.queue("default"))
    return {key: count for key, count in counts.items() if count}


def counted(redis: redis_py.Redis) -> int:
    """`stat:processed`."""
    return int(redis.get(KEYS.stat("processed")) or 0)


def unasked_tracebacks(output: str) -> int:
    """How many stack traces workers wrote, besides those of jobs that fail as asked."""
    return output.count("Traceback (most recent") - output.count("\nRuntimeError: ")


class Pusher:
    """Pushes jobs from a thread of its own until it is stopped, through whatever happens.

    Attributes:
        sure: jid of an acknowledged push → when it began (`time.monotonic`): when the acknowledgement is
            noted depends on the machine.
        unsure: how often a push ended in an error, by the error's name.
    """

    def __init__(
        self,
        url: str,
        item: Callable[[random.Random], dict],
        *,
        per_second: float,
        wait_replicas: int = 0,
        namespace: str | None = None,
    ) -> None:
        self.sure: dict[str, float] = {}
        self.unsure: dict[str, int] = {}
        self._client = Client(url, wait_replicas=wait_replicas, namespace=namespace)
        self._item = item
        self._pause_s = 1 / per_second
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pusher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(20)
        assert not self._thread.is_alive(), "the pusher does not end"
        self._client.close()

    def _run(self) -> None:
        rng = random.Random(11)
        due = time.monotonic()
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                jid = self._client.push(self._item(rng))
            except KiqbridgeError as error:
                name = type(error).__name__
                self.unsure[name] = self.unsure.get(name, 0) + 1
                self._stopping.wait(0.02)
            else:
                self.sure[jid] = began
            due = max(due + self._pause_s, time.monotonic() - 0.2)
            self._stopping.wait(max(due - time.monotonic(), 0))


class Pushers:
    """Pushers that end with the block."""

    def __init__(self) -> None:
        self._all: list[Pusher] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *args: object, **options: object) -> Pusher:
        self._all.append(Pusher(*args, **options))  # type: ignore[arg-type]
        return self._all[-1]

    def stop(self) -> None:
        for pusher in self._all:
            with suppress(KiqbridgeError):
                pusher.stop()
        self._all.clear()
