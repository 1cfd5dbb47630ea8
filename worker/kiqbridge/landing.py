"""Where an error would rise that is raised in another thread, decided by that thread's stack.

`PyThreadState_SetAsyncExc` lets a thread raise wherever it happens to be: between taking a lock and
the `try` that releases it, in the midst of a log line, in the import of a module. A lock that is lost
so blocks all other threads for ever. Hence:

1. A user's own code is on top of the stack: the error may rise there.
2. Our own code, the Redis client or a module of the standard library that takes locks lies on top of
   it: not now.
3. Another library lies on top. If it waits in a C call (a query, a socket), the error may rise where
   that call returns, as if it had failed. If it computes, the error may rise if every frame of the
   library is at a place that merely passes errors on: outside `with` and `try`, in no function that
   deals with locks. Else: not now.

Users' own code is what lies neither in the standard library nor among installed packages, and the
packages that declare jobs, wherever they lie (`trust`).
"""

import dis
import sys
import sysconfig
from bisect import bisect_right
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any


class Kind(Enum):
    """Whose code a file is."""

    USER = "user"
    OURS = "ours"
    LOGGING = "logging"
    LOCKING = "locking"
    """Takes locks that whole processes share."""
    LIBRARY = "library"


class Landing(Enum):
    """Where an error that is raised in a thread now would rise."""

    SAFE = "safe"
    IN_CALL = "in call"
    """Where a library's C call returns: safe if the thread waits in it."""
    UNSAFE = "unsafe"


_LOCKING = frozenset(
    """
    logging threading queue importlib concurrent weakref _weakrefset contextlib functools
    multiprocessing tempfile linecache traceback warnings zipimport runpy _pydatetime
    _strptime sched socketserver dummy_threading _threading_local atexit signal
    """.split()  # noqa: SIM905 - one word a place
)
"""Modules of the standard library that hold locks, or run in the midst of those that do."""

_WAITING = frozenset({"threading", "queue", "concurrent"})
"""Those of them that may lie above a thread that waits in `Condition.wait`."""

_LOCKING_PACKAGES = frozenset({"redis", "hiredis", "valkey"})

_TAKES = frozenset(
    """
    acquire acquire_lock allocate_lock lock get get_nowait getconn put put_nowait putconn wait wait_for
    pop popleft popitem join append appendleft add remove discard release notify notify_all checkout
    checkin close enter_context __enter__ __exit__ __aenter__ __aexit__ __del__
    """.split()  # noqa: SIM905 - one word a place
)
"""Functions that take something, or give it back. An error that rises in them, or where a call of them
returns, loses it: only the next line records what is held."""

_OF_LOCKS = ("acquire", "lock", "mutex", "semaphore", "release")
"""Parts of names that only occur in code that deals with locks."""

_NOT_IN_USERS = frozenset({"__exit__", "__aexit__", "__del__"})

_GENERATORS = 0x20 | 0x80 | 0x200
"""`co_flags` of generators, coroutines and asynchronous generators."""

_CALLS = frozenset({"CALL", "PRECALL", "CALL_KW", "CALL_FUNCTION_EX"})
_NAMES = frozenset(
    {
        "LOAD_ATTR",
        "LOAD_DEREF",
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_BORROW",
        "LOAD_GLOBAL",
        "LOAD_METHOD",
        "LOAD_NAME",
    }
)

_OURS = str(Path(__file__).parent) + "/"
_EXECUTION = f"{_OURS}execution.py"
_STANDARD = tuple(
    f"{folder}/" for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
)
_INSTALLED = ("/site-packages/", "/dist-packages/")

_homes: set[str] = set()
"""Installed packages, or single modules, that declare jobs: users' own code, wherever it lies."""


def trust(names: Iterable[str]) -> None:
    """Take for users' own code the packages of these dotted names: those of jobs."""
    for name in names:
        home = _home_of(name)
        if home is not None and home not in _homes:
            _homes.add(home)
            kind_of.cache_clear()


def _home_of(name: str) -> str | None:
    """The folder of the outermost package in a dotted name, or the file of a single module."""
    parts = name.split(".")
    if parts[0] == __name__.partition(".")[0]:
        return None
    for count in range(1, len(parts) + 1):
        file = getattr(sys.modules.get(".".join(parts[:count])), "__file__", None)
        if file is not None:
            path = Path(file)
            return f"{path.parent}/" if path.name == "__init__.py" else str(path)
    return None


def landing(frame: FrameType) -> Landing:
    """Where an error would rise that is raised now in the thread whose innermost frame this is."""
    step = frame
    waits = _waits_for_a_condition(frame)
    passes_on = True
    while not _is_users(step.f_code):
        kind = kind_of(step.f_code.co_filename)
        may_lie_here = kind is Kind.LIBRARY or (waits and _module(step.f_code) in _WAITING)
        if not may_lie_here or step.f_back is None:  # None: no job's code is under it
            return Landing.UNSAFE
        passes_on = passes_on and _passes_on(step.f_code, step.f_lasti)
        step = step.f_back
    if step is frame:
        is_safe = frame.f_code.co_name not in _NOT_IN_USERS
        is_ours = frame.f_code.co_filename == _EXECUTION
        return Landing.SAFE if is_safe and not is_ours else Landing.UNSAFE
    if waits:
        return Landing.SAFE
    is_call, name = _code(frame.f_code).call_at(frame.f_lasti)
    if is_call and (name is None or name in _TAKES or _deals_with_locks(name)):
        return Landing.UNSAFE
    if passes_on:
        return Landing.SAFE
    return Landing.IN_CALL if is_call else Landing.UNSAFE


def _is_users(code: CodeType) -> bool:
    # Our function that runs the loop of a job's coroutine stands for the coroutine, which is not on the
    # stack while it waits.
    return kind_of(code.co_filename) is Kind.USER or (
        code.co_name == "_finish" and code.co_filename == _EXECUTION
    )


def _waits_for_a_condition(frame: FrameType) -> bool:
    """Whether it waits in `Condition.wait`, also for an event, a queue or a future, which is made for this.

    The lock that it waits for is its own, and that of the condition is taken again in a `finally`.
    """
    code, lasti = frame.f_code, frame.f_lasti
    if code.co_name != "wait" or "waiter" not in code.co_varnames or _module(code) != "threading":
        return False
    known = _code(code)
    return known.call_at(lasti) == (True, "acquire") and known.is_guarded(lasti)


@lru_cache(maxsize=10_000)
def kind_of(filename: str) -> Kind:
    """Whose code a file is."""
    if filename.startswith(_OURS):
        return Kind.OURS
    if any(filename.startswith(home) for home in _homes):
        return Kind.USER
    for folder in _INSTALLED:
        if folder in filename:
            top = filename.rpartition(folder)[2].partition("/")[0]
            return Kind.LOCKING if top in _LOCKING_PACKAGES else Kind.LIBRARY
    for folder in _STANDARD:
        if filename.startswith(folder):
            return _standard_kind(filename[len(folder) :])
    if filename.startswith("<frozen "):
        return _standard_kind(filename[len("<frozen ") : -1].replace(".", "/"))
    return Kind.LIBRARY if filename.startswith("<") else Kind.USER


def _module(code: CodeType) -> str:
    """The outermost module of the standard library that a function is of, or ""."""
    for folder in _STANDARD:
        if code.co_filename.startswith(folder):
            return _top(code.co_filename[len(folder) :])
    return ""


def _top(path: str) -> str:
    return path.partition("/")[0].removesuffix(".py")


def _standard_kind(path: str) -> Kind:
    top = _top(path)
    if top == "logging":
        return Kind.LOGGING
    return Kind.LOCKING if top in _LOCKING else Kind.LIBRARY


def is_called_by_user(frame: FrameType | None) -> bool:
    """Whether ours, the logging module, and libraries that pass errors on, in this order, lie above it."""
    for kind in (Kind.OURS, Kind.LOGGING):
        while frame is not None and kind_of(frame.f_code.co_filename) is kind:
            frame = frame.f_back
    while frame is not None and kind_of(frame.f_code.co_filename) is Kind.LIBRARY:
        if not _passes_on(frame.f_code, frame.f_lasti):
            return False
        frame = frame.f_back
    return frame is not None and kind_of(frame.f_code.co_filename) is Kind.USER


def _passes_on(code: CodeType, lasti: int) -> bool:
    """Whether an error at this place leaves the function untouched, and leaves nothing held."""
    known = _code(code)
    return not known.deals_with_locks and not known.is_guarded(lasti)


def _deals_with_locks(name: str) -> bool:
    low = name.lower()
    return any(part in low for part in _OF_LOCKS)


class _Code:
    """What of a code object's instructions matters here."""

    def __init__(self, code: CodeType) -> None:
        bytecode = dis.Bytecode(code)
        self.deals_with_locks = code.co_name in _TAKES or any(
            map(_deals_with_locks, (code.co_name, *code.co_names, *code.co_freevars))
        )
        # Handlers of `try`, `with` and `finally`; not the one that each generator has since 3.12.
        is_generator = bool(code.co_flags & _GENERATORS)
        entries: Any = bytecode.exception_entries  # type: ignore[attr-defined] # typeshed lacks it
        whole = max((entry.end for entry in entries), default=0)
        self._guards = [
            (entry.start, entry.end)
            for entry in entries
            if not (is_generator and entry.end == whole and entry.depth == 0)
        ]
        self._calls: dict[int, str | None] = {}
        names: dict[tuple[int | None, int | None], str] = {}
        self._starts = []
        for each in bytecode:
            self._starts.append(each.offset)
            place = each.positions
            start = (place.lineno, place.col_offset) if place is not None else (None, None)
            if each.opname in _NAMES and start[1] is not None:
                names[start] = str(each.argval)
            elif each.opname in _CALLS:
                # The function's name is the last one before that begins where the call begins.
                self._calls[each.offset] = names.get(start)

    def call_at(self, lasti: int) -> tuple[bool, str | None]:
        """Whether this instruction is a call, and the name of what is called, if it has one."""
        index = bisect_right(self._starts, lasti) - 1
        offset = self._starts[index] if index >= 0 else -1
        return offset in self._calls, self._calls.get(offset)

    def is_guarded(self, lasti: int) -> bool:
        """Whether an error at this instruction is handled in the function, if only to clean up."""
        return any(start <= lasti < end for start, end in self._guards)


@lru_cache(maxsize=1_000)
def _code(code: CodeType) -> _Code:
    return _Code(code)
