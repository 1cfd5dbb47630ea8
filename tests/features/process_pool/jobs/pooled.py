"""Jobs for child processes, each beside its like for threads; what they see goes to files in MARKS."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import ClassVar

from support.noting import hold, note

from kiqbridge import Job, interrupted, job, server
from kiqbridge.client.current import CONTEXT, RUNTIME


@server.lifespan
@contextmanager
def database() -> Iterator[str]:
    note("open")
    yield "a database"
    note("close")


@server.lifespan
@asynccontextmanager
async def channel() -> AsyncIterator[str]:
    yield f"a channel of {id(asyncio.get_running_loop())}"


@server.middleware.add
def outermost(_instance, payload, queue, call_next):
    if payload["class"] == "Skipped":
        return None
    note("middleware", name=payload["class"], queue=queue)
    return call_next()


class RefusedError(Exception):
    """An error of the jobs' own."""


@job(name="Plain", pool="process")
def plain(number: int) -> None:
    payload, queue = CONTEXT.get()
    runtime = RUNTIME.get()
    note(
        event="plain",
        number=number,
        jid=payload["jid"],
        queue=queue,
        database=database.value,
        has_client=runtime is not None and runtime.client is not None,
    )


@job(name="Asynchronous", pool="process")
async def asynchronous(number: int) -> None:
    await asyncio.sleep(0)
    payload, _ = CONTEXT.get()
    own = channel.value == f"a channel of {id(asyncio.get_running_loop())}"
    note("asynchronous", number=number, jid=payload["jid"], own_channel=own)


@job(name="Skipped", pool="process")
def skipped() -> None:
    note("skipped")


def fail(kind: str) -> None:
    if kind == "own":
        raise RefusedError("no \udcff, and a café")
    if kind == "chain":
        try:
            {}["cause"]
        except KeyError as error:
            raise ValueError("effect") from error
    if kind == "arguments":
        plain()
    if kind == "exit":
        raise SystemExit(3)
    if kind == "long":
        raise RuntimeError("x" * 20_000)
    raise ZeroDivisionError(kind)


RULES = {
    "on_error": {ZeroDivisionError: "kill", SystemExit: "discard"},
    "retry_in": lambda count, error, payload: 10_000 + count + len(payload["error_class"]),
}


@job(name="FailInThread", backtrace=True, retry=3, **RULES)
def fail_in_thread(kind: str) -> None:
    fail(kind)


@job(name="FailInProcess", backtrace=True, retry=3, pool="process", **RULES)
def fail_in_process(kind: str) -> None:
    fail(kind)


@job(name="FailInCoroutine", backtrace=True, retry=3, pool="process", **RULES)
async def fail_in_coroutine(kind: str) -> None:
    fail(kind)


@job(name="Busy", pool="process", timeout_s=0.7)
def busy() -> None:
    note("busy")
    sum(range(10**12))  # in C, deaf to everything


@job(name="Hold", pool="process")
def hold_here() -> None:
    note("hold")
    hold()
    note("released")


@job(name="HoldInC", pool="process")
def hold_in_c() -> None:
    note("hold")
    sum(range(10**12))


@job(name="InThread")
def in_thread(number: int) -> None:
    note("in thread", number=number)


@job(name="Polite", pool="process")
def polite() -> None:
    note("polite")
    while not interrupted():
        time.sleep(0.01)
    note("told")


@job(name="Dies", pool="process", retry=3)
def dies(how: str) -> None:
    note("dies")
    if how == "exit":
        os._exit(7)
    if how == "parents":  # what it started holds all of its sockets open
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"], close_fds=False)
    os.kill(os.getpid(), getattr(signal, how, signal.SIGKILL))
    time.sleep(60)


@job(name="EndsThread", pool="process")
def ends_thread(name: str) -> None:
    [thread] = [each for each in threading.enumerate() if each.name == name]
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
    )


class UnmadeInThread(Job):
    """Cannot be made; its rules do not count then, whatever they say."""

    on_error: ClassVar = {ValueError: "discard"}

    def __init__(self) -> None:
        raise ValueError("not made")

    def perform(self) -> None:
        """Never."""


class UnmadeInProcess(UnmadeInThread):
    """As above, in a child."""

    pool = "process"
