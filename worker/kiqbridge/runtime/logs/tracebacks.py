"""Texts of tracebacks with the frames of users; those that come again are kept.

1. Frames of this package are folded into a line, `… 4 frames of kiqbridge`, if a frame of a user's code is
   left to see: the functions by which a worker calls a job say nothing about the job. Frames of the standard
   library before the first frame of a user go with them. All are shown at log level debug (`show_all`), and
   in errors of ours in which no user's code took part.
2. A job that fails fails again and again at the same place, and nearly all of the time that its line in
   the log takes goes into looking up and marking the lines of source. So those texts are kept.
"""

import traceback
from collections.abc import Callable, Iterable
from itertools import groupby
from types import CodeType
from typing import Any

from kiqbridge.errors import JobNotFound, PayloadError
from kiqbridge.runtime.frames import Origin, is_generated, origin_of, standard_module

MAX_TEXTS = 1_000
_MAX_FRAMES = 100

_WITH_SUGGESTIONS = (NameError, AttributeError, ImportError, SyntaxError, BaseExceptionGroup)
"""Their last lines need more than the error itself."""

_SAY_ALL = (JobNotFound, PayloadError)
"""Errors about a job that say by themselves what is wrong, though all their frames may be ours."""

_STANDS_FOR_ANOTHER = "__kiqbridge_failure__"
"""Attribute of an error of a child process, as its worker has it (engine/settle/error_report.py): the child's
traceback is its cause, and its own frames are ours."""

_known: dict[tuple[int, ...], tuple[str, list[CodeType]]] = {}
_shows_all = False


def show_all(*, wanted: bool) -> None:
    """Whether frames of this package are shown, too."""
    global _shows_all  # noqa: PLW0603 - one for the process, as the level of the log
    _shows_all = wanted
    _known.clear()


def text_of(error: BaseException) -> str:
    """What `traceback.format_exception` says, without the last line break and with our frames folded."""
    if (
        error.__cause__ is not None
        or error.__context__ is not None
        or isinstance(error, _WITH_SUGGESTIONS)
    ):
        return _whole(error)
    place: list[int] = []
    codes: list[CodeType] = []
    step = error.__traceback__
    while step is not None and len(codes) < _MAX_FRAMES:
        code = step.tb_frame.f_code
        codes.append(code)
        place += (id(code), step.tb_lasti)
        step = step.tb_next
    if step is not None or not codes:
        return _whole(error)
    is_said = _says_all(error)
    frames = _frames(
        (*place, is_said),
        codes,
        lambda: _Folded(traceback.extract_tb(error.__traceback__), is_said=is_said).format(),
    )
    return frames + _joined(traceback.format_exception_only(error))


class _Folded(traceback.StackSummary):
    """Frames of which those of ours are written as one line.

    Args:
        frames: outermost first.
        is_said: fold them even if no others are left.
    """

    def __init__(self, frames: Iterable[traceback.FrameSummary], *, is_said: bool) -> None:
        super().__init__(frames)
        self._is_said = is_said

    def format(self, **options: Any) -> list[str]:
        """A text for each frame, or for several that are folded."""
        if _shows_all:
            return super().format(**options)
        of_users = [_is_users(frame.filename) for frame in self]
        if not (self._is_said or any(of_users)):
            return super().format(**options)
        first = of_users.index(True) if any(of_users) else len(self)
        has_ours = False
        folded: dict[int, bool] = {}
        for index, frame in enumerate(self):
            is_ours = origin_of(frame.filename) is Origin.OURS
            has_ours |= is_ours
            leads = index < first and has_ours and bool(standard_module(frame.filename))
            folded[index] = is_ours or leads
        lines: list[str] = []
        for is_folded, indices in groupby(folded, folded.__getitem__):
            run = [self[index] for index in indices]
            if is_folded:
                lines.append(f"  … {len(run)} frame{'s' * (len(run) > 1)} of kiqbridge\n")
            else:
                lines += traceback.StackSummary(run).format(**options)
        return lines


def _is_users(file: str) -> bool:
    return origin_of(file) is Origin.USER or is_generated(file)


def _says_all(error: BaseException) -> bool:
    # Not hasattr, which would call the error's own code.
    own: dict[str, Any] = object.__getattribute__(error, "__dict__")
    return isinstance(error, _SAY_ALL) or _STANDS_FOR_ANOTHER in own


def _whole(error: BaseException) -> str:
    """With its causes and parts."""
    whole = traceback.TracebackException.from_exception(error)
    waiting: list[tuple[traceback.TracebackException | None, BaseException | None]] = [
        (whole, error)
    ]
    while waiting:
        found, each = waiting.pop()
        if found is None or each is None:
            continue
        found.stack = _Folded(found.stack, is_said=_says_all(each))
        waiting += [(found.__cause__, each.__cause__), (found.__context__, each.__context__)]
        if isinstance(each, BaseExceptionGroup):
            waiting += zip(found.exceptions or (), each.exceptions, strict=False)
    return _joined(whole.format())


def _frames(place: tuple[int, ...], codes: list[CodeType], write: Callable[[], list[str]]) -> str:
    known = _known.get(place)
    if known is None:
        if len(_known) >= MAX_TEXTS:  # code may be made at run time: bounded
            _known.clear()
        # With the codes, which live on so that no other gets their ids.
        known = _known[place] = ("Traceback (most recent call last):\n" + "".join(write()), codes)
    return known[0]


def _joined(lines: Iterable[str]) -> str:
    return "".join(lines).removesuffix("\n")
