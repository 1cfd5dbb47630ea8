"""The end of this process in bounded time, whatever its threads are doing.

An orderly end can be held up: by a lock that a stuck thread holds, by a C call that keeps the
interpreter lock, by standard output that is not read. So before the last steps
`kill_after` sets a timer of the kernel, which needs no thread of Python. Then the last steps are taken,
and `os._exit` ends the process.
"""

import ctypes
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import NoReturn

from kiqbridge.runtime.logs.log_sink import DescriptorSink

logger = logging.getLogger(__name__)

FLUSH_S = 2.0
"""Seconds that the log and standard output have to write what waits."""

MARGIN_S = 0.5
"""Between the end of that and the kill."""

STDERR_S = 1.0
_STDERR = 2
_SIGEV_SIGNAL = 0
_64_BITS = 8


class _Event(ctypes.Structure):
    """`struct sigevent` of 64-bit Linux."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("rest", ctypes.c_int * 12),
    )


class _Time(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Timer(ctypes.Structure):
    """`struct itimerspec`."""

    _fields_ = (("interval", _Time), ("value", _Time))


class _Deadline:
    """When this process is killed at the latest, on `time.monotonic`; None = it may live."""

    at: float | None = None


_deadline = _Deadline()


def kill_after(within_s: float) -> None:
    """Let the kernel kill this process after so many seconds; a later call can only shorten that.

    It may be called from a signal handler. The process is killed by SIGKILL: its child processes end
    as they do when it crashes, and other workers give back what it held.
    """
    at = time.monotonic() + within_s
    if _deadline.at is not None and _deadline.at <= at:
        return
    _deadline.at = at
    if _kernel_kills(within_s):
        return
    with suppress(RuntimeError, MemoryError):  # no thread can be started: nothing else can be done
        threading.Thread(target=_kill, args=(within_s,), name="kiqbridge-kill", daemon=True).start()


def flush_output(within_s: float = FLUSH_S) -> bool:
    """Write what waits in logs and standard output; False: not all could be written in time."""
    done = threading.Event()

    def flush() -> None:
        for step in (_flush_root, logging.shutdown, _flush_streams):
            with suppress(BaseException):
                step()
        done.set()

    try:
        # Beside this thread, since any handler, or a stream's buffer, may wait for ever.
        threading.Thread(target=flush, name="kiqbridge-flush", daemon=True).start()
    except (RuntimeError, MemoryError):  # no thread can be started: our own handlers never wait
        with suppress(Exception):
            _flush_root()
        return False
    return done.wait(within_s)


def end_process(status: int) -> NoReturn:
    """End this process with a status, after what waits in logs and output has been written.

    Neither stuck threads nor hooks of the interpreter's end are waited for.
    """
    try:
        kill_after(FLUSH_S + MARGIN_S)
        flush_output()
    finally:
        os._exit(status)


def write_to_stderr(text: str) -> None:
    """Write a line to standard error; within a second, whether or not it is read."""
    with suppress(Exception):
        data, until = memoryview(f"{text}\n".encode(errors="backslashreplace")), time.monotonic()
        until += STDERR_S
        sink = DescriptorSink(_STDERR)
        while data and (left_s := until - time.monotonic()) > 0:
            written = sink.write(data)
            data = data[written:]
            if not written:
                sink.wait(left_s)


def _kernel_kills(within_s: float) -> bool:
    """Set a timer of the kernel; False: this system has none."""
    if _libc is None or ctypes.sizeof(ctypes.c_void_p) != _64_BITS:
        return False
    event = _Event(signo=signal.SIGKILL, notify=_SIGEV_SIGNAL)
    timer = ctypes.c_void_p()
    if _libc.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)):
        return False
    seconds, rest = divmod(max(within_s, 0.001), 1)
    when = _Timer(value=_Time(int(seconds), int(rest * 1_000_000_000)))
    return not _libc.timer_settime(timer, 0, ctypes.byref(when), None)


def _kill(within_s: float) -> None:
    time.sleep(within_s)
    os.kill(os.getpid(), signal.SIGKILL)


def _flush_root() -> None:
    for handler in logging.getLogger().handlers:
        handler.flush()


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _load() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        # Looked up now: in a signal handler this would be late.
        libc.timer_create.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        libc.timer_settime.argtypes = (
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
        )
        return libc
    return None


_libc = _load()


def _after_fork_in_child() -> None:
    _deadline.at = None  # a child inherits no timer


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
