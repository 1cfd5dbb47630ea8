"""What a thread is doing, read from its stack: whether it runs a user's code, and where it is.

Stacks are read only when a thread is checked; nothing here is called for each job.

The garbage collector is paused while the stacks of all threads are taken: `sys._current_frames` holds a lock of the
interpreter and makes objects, so the collector may run in it. What it collects may need that very lock: a
`threading.local`, an ended thread. Then the thread waits for itself for ever, with the interpreter lock held: no
thread of the process runs again (CPython 3.11).
"""

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, TypeVar

from kiqbridge.runtime import job_forks
from kiqbridge.runtime.origins import Origin, is_generated, origin_of

if TYPE_CHECKING:
    from asyncio import Task

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object] | type)

_patient: set[CodeType] = set()
_alone = threading.Lock()
_is_paused = False


def may_take_long(function: F) -> F:
    """Mark a function of ours in which a thread may stay for any time, with those defined inside it.

    It calls code of users, or waits for a job that runs elsewhere, or for work. Of a class all
    methods are marked.
    """
    functions = vars(function).values() if isinstance(function, type) else (function,)
    for each in functions:
        if isinstance(each, FunctionType):
            _patient.update(_codes_of(each.__code__))
    return function


def runs_user_code(frame: FrameType | None) -> bool:
    """Whether a thread with this innermost frame is where it may stay for any time.

    That is in a user's code, in a library that it called, or in a function of ours that is marked with
    `may_take_long`. Jobs may be installed as a package and look like a library's code, so whatever a
    marked function has called counts as a user's. Code without a file was compiled by a user.
    """
    while frame is not None:
        code = frame.f_code
        if code in _patient:
            return True
        origin = origin_of(code.co_filename)
        if origin is Origin.OURS:
            return False
        if origin is Origin.USER or is_generated(code.co_filename):
            return True
        frame = frame.f_back
    return False


def stacks() -> Iterator[tuple[int, str, str]]:
    """The stack of each thread, as (thread, its name, text), innermost function last."""
    import traceback  # noqa: PLC0415 - for few; jobs are declared without it

    frames = current_frames()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None:
            yield thread.ident or 0, thread.name, "".join(traceback.format_stack(frame))


def task_stack(task: "Task[object]") -> str:
    """Where a task awaits: the functions that await one another, innermost last. From any thread."""
    import traceback  # noqa: PLC0415 - as above

    lines: list[str] = []
    awaits: object = task.get_coro()
    while awaits is not None:
        frame = getattr(awaits, "cr_frame", None) or getattr(awaits, "gi_frame", None)
        if frame is not None:
            lines += traceback.format_stack(frame, limit=1)
        awaits = getattr(awaits, "cr_await", None) or getattr(awaits, "gi_yieldfrom", None)
    return "".join(lines)


def where(frame: FrameType | None) -> str:
    """The innermost function of ours on a stack, with the one it has called, for a message."""
    innermost = frame
    while frame is not None and origin_of(frame.f_code.co_filename) is not Origin.OURS:
        frame = frame.f_back
    if innermost is None:
        return "no Python code"
    if frame is None or frame is innermost:
        return _described(innermost)
    return f"{_described(frame)}, in {_described(innermost)}"


def _described(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{frame.f_lineno})"  # noqa: PTH119 - a text


def _codes_of(code: CodeType) -> list[CodeType]:
    inner = [
        each for const in code.co_consts if isinstance(const, CodeType) for each in _codes_of(const)
    ]
    return [code, *inner]


def current_frames() -> dict[int, FrameType]:
    """The innermost frame of each thread, by the thread's number."""
    return without_collection(sys._current_frames)  # noqa: SLF001 - the only way to see other threads' stacks


def without_collection(act: Callable[[], T]) -> T:
    """What `act` returns, called while nothing is collected; it must be short."""
    global _is_paused  # noqa: PLW0603 - the collector is one for the process
    with _alone:
        _is_paused = gc.isenabled()
        try:
            gc.disable()  # in here, so that no error of another thread leaves the collector off
            return act()
        finally:
            if _is_paused:
                gc.enable()
            _is_paused = False


def _renew() -> None:
    """In a child that a job forks while another thread is in `without_collection`."""
    global _alone, _is_paused  # noqa: PLW0603 - as above
    _alone = threading.Lock()
    if _is_paused:
        gc.enable()
    _is_paused = False


job_forks.on_child(_renew)
