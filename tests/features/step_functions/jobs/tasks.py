"""Jobs that a state machine waits for."""

import asyncio
import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

from kiqbridge import IterableJob, job, server
from kiqbridge.enumerators import sequence

MARKS = Path(os.environ["MARKS"])


def mark(name):
    """Note that this happened once more; how often so far."""
    with (MARKS / name).open("a", encoding="ascii") as file:
        file.write("x")
    return len((MARKS / name).read_text(encoding="ascii"))


def wait_for(name):
    while not (MARKS / name).exists():
        time.sleep(0.01)


@job(name="Bill")
def bill(total):
    mark("Bill")
    return {"total": total, "paid": True}


@job(name="Working")
def working():
    time.sleep(0.1)
    mark("Working")


@job(name="WithDate")
def with_date():
    return datetime.now(UTC)


@job(name="Flaky")
def flaky():
    if mark("Flaky") == 1:
        raise OSError("not yet")
    return "at last"


@job(name="Dying")
def dying():
    raise ValueError("no such order")


@job(name="Waiting")
def waiting():
    mark("Waiting")
    wait_for("go")
    return "waited"


@job(name="Asynchronous")
async def asynchronous(value):
    await asyncio.sleep(0)
    return [value]


@job(name="InChild", pool="process")
def in_child(value):
    return {"pid": os.getpid() != os.getppid(), "value": value}


@job(name="AsyncInChild", pool="process")
async def async_in_child(value):
    return value


@job(name="CoroutineInChild", pool="process")
def coroutine_in_child(value):
    return async_in_child(value)


@job(name="Skipped")
def skipped():
    mark("Skipped")


class Steps(IterableJob):
    def build_enumerator(self, *, cursor):
        return sequence([1, 2, 3], cursor=cursor)

    def each_iteration(self, item):
        mark("Steps")
        if item == 2 and not (MARKS / "go").exists():
            wait_for("stopping")


class AsyncSteps(Steps):
    async def each_iteration(self, item):
        mark(f"AsyncSteps{item}")


class StepsInChild(Steps):
    pool = "process"


@server.middleware.add
def skip(_instance, payload, _queue, call_next):
    if payload["class"] == "Skipped":
        return None
    return call_next()


@job(name="Killer")
def killer():
    os.kill(os.getpid(), signal.SIGKILL)


@job(name="WorkingLoop")
async def working_loop():
    await asyncio.sleep(0.1)
    mark("WorkingLoop")


@job(name="WorkingChild", pool="process")
def working_child():
    time.sleep(0.05)
    mark("WorkingChild")
