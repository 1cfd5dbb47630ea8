"""Whose code a thread runs, read from its stack: a user's, ours, or a library's that one of them called.

Read only when there is a question about a thread; nothing here is called for each job.
"""

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Literal, TypeVar

F = TypeVar("F", bound=Callable[..., object] | type)

Origin = Literal["ours", "library", "user"]

_OURS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")  # noqa: PTH118, PTH120, PTH100 - compared as texts
_STANDARD = os.path.join(os.path.dirname(os.__file__), "")  # noqa: PTH118, PTH120 - as above
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

_patient: set[CodeType] = set()


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


@functools.lru_cache(maxsize=4096)
def origin_of(file_name: str) -> Origin:
    """Whose code a file holds; code without a file that was compiled by a user counts as the user's."""
    if file_name.startswith(_OURS):
        return "ours"
    if file_name.startswith(("<frozen", _STANDARD)) or any(
        part in file_name for part in _INSTALLED
    ):
        return "library"
    return "user"


def runs_user_code(frame: FrameType | None) -> bool:
    """Whether a thread with this innermost frame is where it may stay for any time.

    That is: in code of a user, in what that has called (but for functions of ours), or in a function
    of ours that is marked with `may_take_long`. Jobs may be installed as a package and look like a
    library's code; so what a marked function has called counts as a user's, whatever its file.
    """
    while frame is not None:
        code = frame.f_code
        if code in _patient:
            return True
        origin = origin_of(code.co_filename)
        if origin != "library":
            return origin == "user"
        frame = frame.f_back
    return False


def stacks() -> Iterator[tuple[int, str, str]]:
    """The stack of each thread, as (thread, its name, text), innermost function last."""
    import traceback  # noqa: PLC0415 - for few; jobs are declared without it

    frames = sys._current_frames()  # noqa: SLF001 - the only way to see other threads' stacks
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None:
            yield thread.ident or 0, thread.name, "".join(traceback.format_stack(frame))


def where(frame: FrameType | None) -> str:
    """The innermost function of ours on a stack, with the one it has called, for a message."""
    innermost = frame
    while frame is not None and origin_of(frame.f_code.co_filename) != "ours":
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
