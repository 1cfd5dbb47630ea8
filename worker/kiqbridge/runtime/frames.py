"""What a thread is doing, read from its stack: whether it runs a user's code, and where it is.

Stacks are read only when a thread is checked; nothing here is called for each job.

The garbage collector is paused while the stacks of all threads are taken: `sys._current_frames` holds a lock of the
interpreter and makes objects, so the collector may run in it. What it collects may need that very lock: a
`threading.local`, an ended thread. Then the thread waits for itself for ever, with the interpreter lock held: no
thread of the process runs again (CPython 3.11).

Whose code a file holds: a user's, ours, the standard library's, or that of an installed package.

Users' own code is what lies neither in the standard library nor among installed packages, and the
packages that declare jobs, wherever they are installed (`trust`).
"""

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, TypeVar

from kiqbridge.runtime import job_forks

if TYPE_CHECKING:
    from asyncio import Task


class Origin(Enum):
    """Whose code a file is."""

    USER = "user"
    OURS = "ours"
    LOGGING = "logging"
    LOCKING = "locking"
    """It takes locks that the whole process shares: modules of the standard library, the Redis client."""
    LIBRARY = "library"


OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")  # noqa: PTH118, PTH120, PTH100 - compared as texts
_STANDARD = os.path.join(os.path.dirname(os.__file__), "")  # noqa: PTH118, PTH120 - as above
_OF_LOGGING = os.path.join(OURS, "runtime", "logs", "handler_guard.py")  # noqa: PTH118 - as above
"""What a worker puts in the place of two methods of `logging.Logger`."""
_FROZEN = "<frozen "
_INSTALLED = ("/site-packages/", "/dist-packages/")

_LOCKING = frozenset(
    """
    logging threading queue importlib concurrent weakref _weakrefset contextlib functools
    multiprocessing tempfile linecache traceback warnings zipimport runpy _pydatetime
    _strptime sched socketserver dummy_threading _threading_local atexit signal
    """.split()  # noqa: SIM905 - one word a place
)
"""Modules of the standard library that hold locks, or run inside of those that do."""

_LOCKING_PACKAGES = frozenset({"redis", "hiredis", "valkey"})

_homes: set[str] = set()
"""Installed packages, or single modules, that declare jobs: users' own code, wherever they lie."""


def trust(names: Iterable[str]) -> None:
    """Count the packages of these dotted names, which are those of jobs, as users' own code."""
    for name in names:
        home = _home_of(name)
        if home is not None and home not in _homes:
            _homes.add(home)
            origin_of.cache_clear()


def _home_of(name: str) -> str | None:
    """The folder of the outermost package in a dotted name, or the file of a single module."""
    parts = name.split(".")
    if parts[0] == __name__.partition(".")[0]:
        return None
    for count in range(1, len(parts) + 1):
        file = getattr(sys.modules.get(".".join(parts[:count])), "__file__", None)
        if file is not None:
            folder, _, base = file.rpartition("/")
            return f"{folder}/" if base == "__init__.py" else str(file)
    return None


@lru_cache(maxsize=10_000)
def origin_of(file_name: str) -> Origin:
    """Whose code a file is; code without a file (`<string>`) counts as a library's."""
    if file_name.startswith(OURS):
        return Origin.LOGGING if file_name == _OF_LOGGING else Origin.OURS
    if any(file_name.startswith(home) for home in _homes):
        return Origin.USER
    for folder in _INSTALLED:
        if folder in file_name:
            top = file_name.rpartition(folder)[2].partition("/")[0]
            return Origin.LOCKING if top in _LOCKING_PACKAGES else Origin.LIBRARY
    module = standard_module(file_name)
    if module == "logging":
        return Origin.LOGGING
    if module:
        return Origin.LOCKING if module in _LOCKING else Origin.LIBRARY
    return Origin.LIBRARY if is_generated(file_name) else Origin.USER


def is_generated(file_name: str) -> bool:
    """Whether code was compiled from a text and has no file, such as `<string>`."""
    return file_name.startswith("<") and not file_name.startswith(_FROZEN)


def standard_module(file_name: str) -> str:
    """The outermost module of the standard library that a file belongs to, or ""."""
    if file_name.startswith(_STANDARD):
        path = file_name[len(_STANDARD) :]
    elif file_name.startswith(_FROZEN):
        path = file_name[len(_FROZEN) : -1].replace(".", "/")
    else:
        return ""
    return path.partition("/")[0].removesuffix(".py")


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
