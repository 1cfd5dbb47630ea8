"""What becomes of a worker in a child process that one of its jobs forks.

`os.fork` copies the process with all its objects, but only the thread that called it. Whatever the
job does next in the child, nothing there is a worker: the parent goes on with the same jobs over the
same sockets. So in the child:

1. the parent's connections are closed, without a word to the server; a pool makes new ones of its own,
   so that pushing works (`multiprocessing` with the fork context does so inside a job);
2. signals have their default effect: TERM ends the child, and the parent does not notice it;
3. nothing may be claimed, settled, beaten or acknowledged: leases count as lost, and the engine's
   connections end the child instead of sending anything (`refuse`);
4. the child ends where the job ends (`end`), with the status that a program of its own would have.

Forks of the supervisor, and of processes that only enqueue, are none of this module's business: it
acts after `install` alone.
"""

import contextlib
import gc
import inspect
import logging
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

_THREADS_OF_POOLS = (os.path.join("futures", "thread.py"), "elastic_executor.py")  # noqa: PTH118 - parts of names

END_S = 5
"""Whole seconds for writing what the standard streams still hold; then the child ends by SIGALRM."""

in_child = False
"""Whether this process was forked by a job. Looked at after each job, so it is no function."""

count = 0
"""Forks between the worker and this process: what was made before another number is not of this process."""

_cleanups: list[Callable[[], None]] = []
_installed = False
_forking = threading.local()


def on_child(cleanup: Callable[[], None]) -> None:
    """Call `cleanup` in each child that a job forks, before the job goes on there."""
    _cleanups.append(cleanup)


def install() -> None:
    """From now on each fork in this process makes a child as described above."""
    global _installed  # noqa: PLW0603 - functions registered for forks stay for the process' life
    if not _installed and hasattr(os, "register_at_fork"):
        _installed = True
        os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


def end(error: BaseException | None = None) -> NoReturn:
    """End a forked child as if the job had been its whole program; `atexit` is the parent's.

    Args:
        error: what the job raised. SystemExit gives the exit code; with another the traceback goes to
            standard error, and the code is 1.
    """
    code = 1
    try:
        with contextlib.suppress(ValueError):  # on a thread that the child started itself
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(END_S)  # a lock of a stream that another thread held stays locked in the child
        code = _exit_code(error)
        for handler in logging.getLogger().handlers:
            handler.flush()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    finally:
        os._exit(code)


def refuse(what: str) -> NoReturn:
    """End a child that went on where only the worker may: nothing of it must reach Redis."""
    end(
        RuntimeError(
            f"{what} belongs to the worker that this process was forked from: the process ends here; a "
            "child that code forks must end by itself (os._exit)"
        )
    )


def _exit_code(error: BaseException | None) -> int:
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        if error.code is None:
            return 0
        if isinstance(error.code, int):
            return error.code & 0xFF
        sys.stderr.write(f"{error.code}\n")
        return 1
    try:
        traceback.print_exception(error)
    except BaseException:  # noqa: BLE001 - an error whose own text fails has a name at least
        sys.stderr.write(f"{type(error).__name__}\n")
    return 1


def _before_fork() -> None:
    """On the thread that forks, in the parent."""
    for stream in (sys.stdout, sys.stderr):  # or the child would write it once more
        with contextlib.suppress(Exception):
            stream.flush()
    # The child could not find it any more: for asyncio no loop runs there.
    events = sys.modules.get("asyncio.events")
    _forking.loop = None if events is None else events._get_running_loop()  # noqa: SLF001 - the public one raises


def _after_fork_in_child() -> None:
    global in_child, count  # noqa: PLW0603 - facts about this process
    in_child = True
    count += 1
    for act in (_reset_signals, *_cleanups, _end_with_what_forked):
        with contextlib.suppress(Exception):  # one that fails must not keep the others from acting
            act()


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    ours = [number for number in signal.valid_signals() if _is_ours(signal.getsignal(number))]
    for number in ours:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*ours, signal.SIGTERM, signal.SIGINT})


def _is_ours(handler: object) -> bool:
    # By package, not by module: what `python -m` runs is the module `__main__`.
    module = sys.modules.get(getattr(handler, "__module__", None) or "")
    package = getattr(module, "__package__", None) or ""
    return package.partition(".")[0] == __name__.partition(".")[0]


def _end_with_what_forked() -> None:
    """See to it that the child ends also where the job's code does not return to the engine's.

    That is on the thread of an event loop, which would go on with the other jobs' tasks, and on one of a
    thread pool, which would take the next piece of work.
    """
    frames = list(_stack())
    if any(frame.f_code.co_filename.endswith("popen_fork.py") for frame in frames):
        return  # multiprocessing ends its children itself, and they may run for long
    loop = getattr(_forking, "loop", None)
    if loop is None:
        for frame in frames:
            if frame.f_code.co_filename.endswith(_THREADS_OF_POOLS):
                _end_at_return_of(frame)
                return
        return
    ready = getattr(loop, "_ready", None)
    if isinstance(ready, deque):
        ready.clear()
    else:  # uvloop does not show what is to run next, so the task must not leave the thread
        flags = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR
        tasks = [frame for frame in frames if frame.f_code.co_flags & flags]
        if tasks:
            _end_at_return_of(tasks[-1])
    loop.call_soon(_end_suspended)


def _end_at_return_of(watched: FrameType) -> None:
    def look(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "return" and frame is watched:
            if watched.f_code.co_flags & inspect.CO_COROUTINE:
                _end_suspended()
            end()

    _forget_errors_of_others()
    sys.setprofile(look)


class _Arrived(BaseException):
    """Raised in this thread to clear a mark, see below."""


def _forget_errors_of_others() -> None:
    """Clear the interpreter's mark that an error is to be raised in some thread.

    Should that be a thread of the parent, it would never be cleared in the child, and with a profile
    function CPython 3.11 looks at a mark that stays for ever, without going on.
    """
    import ctypes  # noqa: PLC0415 - for few

    ident = ctypes.c_ulong(threading.get_ident())
    is_collecting = gc.isenabled()
    gc.disable()  # in a callback of the collector it would be printed, and lost
    try:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(_Arrived))
        for _ in range(1000):  # it arrives at the end of a round
            pass
    except _Arrived:
        pass
    finally:
        if is_collecting:
            gc.enable()


def _end_suspended() -> NoReturn:
    end(
        RuntimeError(
            "this child was forked on the thread of an event loop, which goes on in the parent alone: it "
            "ends where it would wait; fork in a plain job, or use multiprocessing or subprocess"
        )
    )


def _stack() -> "list[FrameType]":
    """Frames of this thread, innermost first."""
    frames = []
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the way to see one's own stack
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames
