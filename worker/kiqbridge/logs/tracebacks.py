"""Texts of tracebacks, as the standard library writes them; those that come again are kept.

A job that fails fails again and again at the same place, and nearly all of the time that its line in
the log takes goes into looking up and marking the lines of source.
"""

import traceback
from collections.abc import Callable
from types import CodeType

MAX_TEXTS = 1_000
_MAX_FRAMES = 100

_WITH_SUGGESTIONS = (NameError, AttributeError, ImportError, SyntaxError, BaseExceptionGroup)
"""Their last lines need more than the error itself."""

_known: dict[tuple[int, ...], tuple[str, list[CodeType]]] = {}


def text_of(error: BaseException) -> str:
    """What `traceback.format_exception` says, without the last line break."""
    if (
        error.__cause__ is not None
        or error.__context__ is not None
        or isinstance(error, _WITH_SUGGESTIONS)
    ):
        return _joined(traceback.format_exception(error))
    place: list[int] = []
    codes: list[CodeType] = []
    step = error.__traceback__
    while step is not None and len(codes) < _MAX_FRAMES:
        code = step.tb_frame.f_code
        codes.append(code)
        place += (id(code), step.tb_lasti)
        step = step.tb_next
    if step is not None or not codes:
        return _joined(traceback.format_exception(error))
    frames = _frames(tuple(place), codes, lambda: traceback.format_tb(error.__traceback__))
    return frames + _joined(traceback.format_exception_only(error))


def _frames(place: tuple[int, ...], codes: list[CodeType], write: Callable[[], list[str]]) -> str:
    known = _known.get(place)
    if known is None:
        if len(_known) >= MAX_TEXTS:  # code may be made at run time: bounded
            _known.clear()
        # With the codes, which live on so that no other gets their ids.
        known = _known[place] = ("Traceback (most recent call last):\n" + "".join(write()), codes)
    return known[0]


def _joined(lines: list[str]) -> str:
    return "".join(lines).removesuffix("\n")
