"""Jobs that fork, and innocent ones beside them; what they see goes to a file in MARKS."""

import asyncio
import multiprocessing
import os
import signal
import sys
import time

from support.noting import FOLDER, note

from kiqbridge import IterableJob, job, server


def act_in_child(how: str) -> None:
    """What people do in a child that they forget to end with os._exit."""
    note("child", parent=os.getppid())
    if how == "exit":
        sys.exit(3)
    if how == "raise":
        raise RuntimeError("the child fails")
    if how == "wait":
        (FOLDER / "waits").touch()
        while True:
            time.sleep(0.01)


def fork(how: str) -> None:
    """The child returns, exits, raises or waits; the parent waits for it, but for one that waits."""
    print("before the fork", end="")
    pid = os.fork()
    if pid == 0:
        act_in_child(how)
        return
    if how == "wait":
        note("forked", child=pid)
        return
    note("forked", child=pid, code=code_of(pid))


def code_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@server.middleware.add
def plain_middleware(_instance, payload, _queue, call_next):
    try:
        return call_next()
    finally:
        if payload["class"] == "ForkInMiddleware":
            fork("return")
        elif payload["class"].startswith("Fork"):
            note("after", name=payload["class"])


@server.error_handler
def forks_too(_error, context):
    if context.get("job", {}).get("class") == "Fails":
        fork("return")


@job(name="Note")
def note_it(number) -> None:
    note("note", number=number)


@job(name="NoteLater")
async def note_later(number) -> None:
    await asyncio.sleep(0.02)
    note("note", number=number)


@job(name="NoteInProcess", pool="process")
def note_in_process(number) -> None:
    note("note", number=number)


@job(name="Fork")
def fork_in_thread(how: str) -> None:
    fork(how)


@job(name="ForkInTime", timeout_s=30)
def fork_in_time(how: str) -> None:
    fork(how)


@job(name="ForkInMiddleware")
def fork_in_middleware() -> None: ...


@job(name="ForkInProcess", pool="process")
def fork_in_process(how: str) -> None:
    fork(how)


@job(name="ForkOnLoop")
async def fork_on_loop(how: str) -> None:
    await asyncio.sleep(0)
    if how != "suspend":
        fork(how)
        return
    pid = os.fork()
    if pid == 0:
        note("child", parent=os.getppid())
        await asyncio.sleep(0)
        note("went on")
        return
    note("forked", child=pid, code=code_of(pid))


@job(name="ForkOffLoop")
async def fork_off_loop() -> None:
    await asyncio.to_thread(fork, "return")


@job(name="Fails", retry=False)
def fails() -> None:
    raise RuntimeError("as asked")


class ForkInIteration(IterableJob):
    class_name = "ForkInIteration"

    def build_enumerator(self, *, cursor):
        return ((number, number) for number in range(cursor or 0, 3))

    def each_iteration(self, number):
        note("item", number=number)
        if number == 1:
            fork("return")


@job(name="MultiprocessingPush")
def multiprocessing_push(number: int) -> None:
    context = multiprocessing.get_context("fork")
    process = context.Process(target=lambda: note_it.perform_async(number))
    process.start()
    process.join(20)
    note("multiprocessing", code=process.exitcode)


@job(name="Handlers")
def handlers_in_child() -> None:
    """What a forked child has of the worker's signal handlers."""
    pid = os.fork()
    if pid == 0:
        names = ("TERM", "INT", "TSTP", "TTIN", "USR2", "HUP")
        kept = [name for name in names if callable(signal.getsignal(getattr(signal, f"SIG{name}")))]
        note("handlers", kept=kept, wakeup=signal.set_wakeup_fd(-1))
        os._exit(0)
    os.waitpid(pid, 0)
