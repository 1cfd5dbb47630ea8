"""Hostile jobs, one act each, and innocent ones beside them.

`begun`, `performed` and `failed` get `JID PID TIME` as in marking.py, from innocent jobs alone; `acts`
gets `KIND PID TIME` when a hostile job begins. The pid is the worker's, in its child processes too. Files are opened anew for each line, since hostile jobs
close what is open.
"""

import asyncio
import contextlib
import ctypes
import locale
import logging
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kiqbridge import Job, job, server
from kiqbridge.errors import Shutdown

FOLDER = str(Path(os.environ["MARKS"]).resolve())
LEAKED: list[object] = []
_clock, _sleep, _open, _write, _close = time.monotonic, time.sleep, os.open, os.write, os.close
_worker = os.getppid() if "kiqbridge.features.process_pool.job_child" in sys.orig_argv else None
_flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT


def mark(name: str, what: str) -> None:
    line = f"{what} {_worker or os.getpid()} {_clock():.3f}\n".encode()
    target = _open(f"{FOLDER}/{name}", _flags, 0o644)
    try:
        os.fchmod(target, 0o644)
        _write(target, line)
    finally:
        _close(target)


# Innocent jobs.


@contextlib.contextmanager
def marked(jid: str):
    mark("begun", jid)
    try:
        yield
    except BaseException:
        mark("failed", jid)
        raise
    mark("performed", jid)


class Plain(Job):
    """Works for some milliseconds."""

    def perform(self, work_ms: float) -> None:
        with marked(self.jid):
            _sleep(work_ms / 1000)


class Async(Job):
    """Waits for some milliseconds on the event loop."""

    async def perform(self, work_ms: float) -> None:
        with marked(self.jid):
            await asyncio.sleep(work_ms / 1000)


class Pooled(Job):
    """Works in a child process."""

    pool = "process"

    def perform(self, work_ms: float) -> None:
        with marked(self.jid):
            _sleep(work_ms / 1000)


class Retried(Job):
    """Fails the first time."""

    def perform(self) -> None:
        with marked(self.jid):
            path = f"{FOLDER}/failed-{self.jid}"
            try:
                _close(_open(path, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            raise RuntimeError("the first time fails, as asked")


# Hostile acts.


class Panic(BaseException):
    """As a Rust extension's."""


class NastyError(Exception):
    """Its text cannot be read."""

    def __str__(self) -> str:
        raise SystemExit("in __str__")


ERRORS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "MemoryError": MemoryError,
    "RecursionError": RecursionError,
    "StopIteration": lambda: StopIteration(1),
    "Shutdown": Shutdown,
    "Panic": Panic,
    "NastyError": NastyError,
}


def fork(how: str) -> None:
    pid = os.fork()
    if pid == 0:
        if how == "exit":
            sys.exit(3)
        if how == "raise":
            raise RuntimeError("the child fails, as asked")
        return
    os.waitpid(pid, 0)


def kill_thread(number: int) -> None:
    threads = sorted(
        (each for each in threading.enumerate() if each.name.startswith("kiqbridge-")),
        key=lambda each: each.name,
    )
    victim = threads[number % len(threads)]
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(victim.ident or 0), ctypes.py_object(SystemExit)
    )


def close_one(number: int) -> None:
    handles = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]  # noqa: PTH208
    with contextlib.suppress(OSError):
        os.close(handles[number % len(handles)])


def change(what: str) -> None:
    if what == "folder":
        os.chdir("/")
    elif what == "umask":
        os.umask(0o777)
    elif what == "environment":
        os.environ.clear()
    elif what == "locale":
        locale.setlocale(locale.LC_ALL, "C")
    elif what == "clock":
        time.time = time.monotonic = lambda: 0.0
    elif what == "timeout":
        socket.setdefaulttimeout(0.0001)
    elif what == "stdout":
        sys.stdout.close()
    elif what == "logging":
        logging.getLogger().handlers.clear()
    elif what == "recursion":
        sys.setrecursionlimit(150)
    elif what == "switch":
        sys.setswitchinterval(2)


def hold_log_locks(seconds: float) -> None:
    with contextlib.ExitStack() as stack:
        for handler in logging.getLogger().handlers:
            handler.acquire()
            stack.callback(handler.release)
        logging.getLogger("hostile").warning("under a lock")
        _sleep(seconds)


def use_own_loop(number: int) -> None:
    loop = asyncio.new_event_loop()
    if number % 2:
        threading.Thread(target=loop.run_forever, name="hostile-loop", daemon=True).start()
        LEAKED.append(loop)
        return
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def block_signals(_argument: object) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1})


def push_in_time(count: int) -> None:
    for _ in range(count):
        Ignored.perform_async()


def leak_threads(count: int) -> None:
    for _ in range(count):
        threading.Thread(target=_sleep, args=(3600,), name="hostile-leak").start()


def busy_in_c(number: int) -> None:
    pow(3, 100_000 * (1 + number % 5))  # the interpreter lock is held for tenths of a second


def end_process(how: str) -> None:
    if how == "exit":
        os._exit(9)
    if how == "abort":
        os.abort()
    os.kill(os.getpid(), signal.SIGKILL)


def send_signal(name: str) -> None:
    os.kill(os.getpid(), getattr(signal, f"SIG{name}"))


ACTS: dict[str, Callable[[Any], object]] = {
    "fork": fork,
    "kill_thread": kill_thread,
    "close_all": lambda _argument: os.closerange(3, 1024),
    "close_one": close_one,
    "change": change,
    "hold_log_locks": hold_log_locks,
    "own_loop": use_own_loop,
    "block_signals": block_signals,
    "push_in_time": push_in_time,
    "leak_threads": leak_threads,
    "sleep_in_c": _sleep,
    "busy_in_c": busy_in_c,
    "print_much": lambda size: print("x" * size),
    "log_much": lambda size: logging.getLogger("hostile").info("x" * size),
    "big_payload": len,
    "end_process": end_process,
    "send_signal": send_signal,
}


def act(kind: str, argument: Any) -> None:
    if kind == "raise":
        error = ERRORS[argument]()
        raise error
    ACTS[kind](argument)


@server.middleware.add
def hostile_middleware(_instance, payload, _queue, call_next):
    args = payload["args"]
    if payload["class"] == "InMiddleware":
        mark("acts", args[0])
        if random.random() < 0.5:
            call_next()
        act(args[0], args[1])
    return call_next()


@server.error_handler
def hostile_error_handler(_error, context):
    job = context.get("job") or {}
    if job.get("class") == "InHandler":
        act(job["args"][0], job["args"][1])


@server.death_handler
def hostile_death_handler(payload, _error):
    if payload.get("class") == "InHandler":
        act(payload["args"][0], payload["args"][1])


@job(name="InThread", retry=False)
def in_thread(kind: str, argument: Any) -> None:
    mark("acts", kind)
    act(kind, argument)


@job(name="InTime", retry=False, timeout_s=0.2)
def in_time(kind: str, argument: Any) -> None:
    mark("acts", kind)
    act(kind, argument)


@job(name="InProcess", retry=False, pool="process")
def in_process(kind: str, argument: Any) -> None:
    mark("acts", kind)
    act(kind, argument)


@job(name="InMiddleware", retry=False)
def in_middleware(_kind: str, _argument: Any) -> None: ...


@job(name="InHandler", retry=False)
def in_handler(kind: str, _argument: Any) -> None:
    mark("acts", kind)
    raise RuntimeError("for its handlers, as asked")


def hostile_delay(_count, _error, payload):
    act(payload["args"][0], payload["args"][1])
    return "discard"


def hostile_end(payload, error):
    return hostile_delay(0, error, payload)


@job(name="InRules", retry=1, retry_in=hostile_delay, retries_exhausted=hostile_end)
def in_rules(kind: str, _argument: Any) -> None:
    mark("acts", kind)
    raise RuntimeError("for its rules, as asked")


async def forever() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


@job(name="OnLoop", retry=False)
async def on_loop(kind: str, argument: Any) -> None:
    mark("acts", kind)
    await asyncio.sleep(0)
    if kind == "leak_tasks":
        LEAKED.extend(asyncio.create_task(forever()) for _ in range(argument))
    elif kind == "cancel_itself":
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0.01)
    elif kind == "stop_loop":
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
    elif kind == "raise_in_background":
        task = asyncio.create_task(raise_later(argument))
        await asyncio.wait({task}, timeout=0.1)
    elif kind == "raise_in_callback":
        asyncio.get_running_loop().call_soon(act, "raise", argument)
        await asyncio.sleep(0.01)
    else:
        act(kind, argument)


async def raise_later(error: str) -> None:
    await asyncio.sleep(0)
    raised = ERRORS[error]()
    raise raised


@job(name="Ignored")
def Ignored() -> None:  # noqa: N802 - as the name of its class
    """What hostile jobs push."""
