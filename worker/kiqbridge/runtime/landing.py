"""Where an error that is raised in another thread would arrive, decided by that thread's stack.

`PyThreadState_SetAsyncExc` makes a thread raise wherever it happens to be: between taking a lock and
the `try` that releases it, while it writes a log line, in the import of a module. A lock that is never
released blocks all other threads forever. So there are three cases (frames.py decides whose code a frame is):

1. A user's own code is on top of the stack: the error may be raised.
2. Our own code, the Redis client or a module of the standard library that takes locks is on top: the
   error is not raised now.
3. Another library is on top. If it waits in a C call (a query, a socket), the error may arrive where
   that call returns, as if it had failed. If it computes, the error may arrive if every frame of the
   library is outside `with` and `try`, in a function that has nothing to do with locks. Otherwise it is
   not raised now.
"""

import dis
from bisect import bisect_right
from enum import Enum
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from kiqbridge.runtime.frames import OURS, Origin, origin_of, standard_module


class Landing(Enum):
    """Where an error that is raised in a thread now would arrive."""

    SAFE = "safe"
    IN_CALL = "in call"
    """Where a library's C call returns: safe if the thread waits in it."""
    UNSAFE = "unsafe"


_WAITING = frozenset({"threading", "queue", "concurrent"})
"""Modules that take locks and may still be on top of a thread that waits in `Condition.wait`."""

_TAKES = frozenset(
    """
    acquire acquire_lock allocate_lock lock get get_nowait getconn put put_nowait putconn wait wait_for
    pop popleft popitem join append appendleft add remove discard release notify notify_all checkout
    checkin close enter_context __enter__ __exit__ __aenter__ __aexit__ __del__
    """.split()  # noqa: SIM905 - one word a place
)
"""Functions that acquire or release something. An error in them, or where a call of them returns, leaks
it: only the next line records what is held."""

_OF_LOCKS = ("acquire", "lock", "mutex", "semaphore", "release")
"""Parts of names that only occur in code that deals with locks."""

_NOT_IN_USERS = frozenset({"__exit__", "__aexit__", "__del__"})

_GENERATORS = 0x20 | 0x80 | 0x200
"""`co_flags` of generators, coroutines and asynchronous generators."""

_CALLS = frozenset({"CALL", "PRECALL", "CALL_KW", "CALL_FUNCTION_EX"})
_NAMES = frozenset(
    {
        *("LOAD_ATTR", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"),
        *("LOAD_GLOBAL", "LOAD_METHOD", "LOAD_NAME"),
    }
)

_INVOCATION = f"{OURS}engine/perform/invocation.py"


def landing(frame: FrameType) -> Landing:
    """Where an error would arrive that is raised now in the thread with this innermost frame."""
    step = frame
    waits = _waits_for_a_condition(frame)
    passes_on = True
    while not _is_users(step.f_code):
        origin = origin_of(step.f_code.co_filename)
        may_lie_here = origin is Origin.LIBRARY or (
            waits and standard_module(step.f_code.co_filename) in _WAITING
        )
        if not may_lie_here or step.f_back is None:  # None: no job's code is under it
            return Landing.UNSAFE
        passes_on = passes_on and _passes_on(step.f_code, step.f_lasti)
        step = step.f_back
    if step is frame:
        is_safe = frame.f_code.co_name not in _NOT_IN_USERS
        is_ours = frame.f_code.co_filename == _INVOCATION
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
    return origin_of(code.co_filename) is Origin.USER or (
        code.co_name == "_finish" and code.co_filename == _INVOCATION
    )


def _waits_for_a_condition(frame: FrameType) -> bool:
    """Whether it waits in `Condition.wait`, also for an event, a queue or a future, which is made for this.

    The lock that it waits for is its own, and that of the condition is taken again in a `finally`.
    """
    code, lasti = frame.f_code, frame.f_lasti
    if (
        code.co_name != "wait"
        or "waiter" not in code.co_varnames
        or standard_module(code.co_filename) != "threading"
    ):
        return False
    known = _code(code)
    return known.call_at(lasti) == (True, "acquire") and known.is_guarded(lasti)


def is_called_by_job(frame: FrameType | None) -> bool:
    """Whether a job called this: a user's code, through libraries that pass errors on, logging and our code at most.

    `contextlib` counts as ours: it passes on what our generators raise. What we do in a job's name before its
    first line, such as waiting for its limiter, is the job's as well.
    """
    while frame is not None and _is_ours(frame.f_code):
        if frame.f_code.co_name == "call" and frame.f_code.co_filename == _INVOCATION:
            return True
        frame = frame.f_back
    while frame is not None and origin_of(frame.f_code.co_filename) is Origin.LOGGING:
        frame = frame.f_back
    while frame is not None and origin_of(frame.f_code.co_filename) is Origin.LIBRARY:
        if not _passes_on(frame.f_code, frame.f_lasti):
            return False
        frame = frame.f_back
    return frame is not None and origin_of(frame.f_code.co_filename) is Origin.USER


def _is_ours(code: CodeType) -> bool:
    return origin_of(code.co_filename) is Origin.OURS or (
        standard_module(code.co_filename) == "contextlib"
    )


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
