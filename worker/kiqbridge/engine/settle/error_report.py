"""An error as text: its class, message and backtrace as they are kept with a job (protocol §8.6).

One that was raised in a child process comes to its worker so, as names and lines, no object:

1. The child describes the error (`describe` in child_messages.py), and what the rules of its class answered about it
   (`RuleAnswers`), since only there the error itself can be given to them.
2. The worker makes a stand-in of the same name, message and backtrace (`Failure.stand_in`), so that
   everything that handles errors goes on as if it had been raised here.
3. It decides with the child's answers in place of the rules (`rules_after`).
"""

import contextlib
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from kiqbridge.client.registry import Handling, OnError
from kiqbridge.errors import ArgumentMismatch, JobNotFound, ProcessDied
from kiqbridge.runtime.records import dataclass

FAILURE = "__kiqbridge_failure__"
"""Attribute of a stand-in: the `Failure` that it stands for."""

MESSAGE_LIMIT = 10_000
"""Characters of an error message that are kept (§8.6)."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_ENGINE = f"{Path(__file__).parents[2]}{os.sep}"


def error_message(error: BaseException) -> str:
    """The first 10,000 characters, always encodable."""
    try:
        text = str(error)
    except BaseException as unreadable:  # noqa: BLE001 - a broken __str__ must not cost the job
        text = f"(the message could not be read: {type(unreadable).__name__})"
    return _SURROGATES.sub("\ufffd", text[:MESSAGE_LIMIT])


def error_class(error: BaseException) -> str:
    """Builtins by name, others `module.QualName`; an unknown class is Ruby's NameError."""
    if isinstance(error, JobNotFound):
        return "NameError"
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def backtrace_lines(error: BaseException) -> list[str]:
    """`FILE:LINE:in 'FUNCTION'`, innermost first, without ours (§8.6)."""
    failure = failure_of(error)
    if failure is not None:  # it was raised in a child process
        return list(failure.backtrace)
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_ENGINE)] or list(frames)
    return [f"{frame.filename}:{frame.lineno}:in '{frame.name}'" for frame in reversed(own)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error in a child, and what the rules of its class answered about it there.

    Attributes:
        error_class: `builtins` by name, others `module.QualName`, as it is kept with the job.
        message: cut and encodable, as it is kept with the job.
        backtrace: lines, innermost first.
        mro: `module:QualName` of its classes, its own first.
        traceback: as Python prints it, for the log.
        rule: what `on_error` says of its class, or None.
        retry_in: what `retry_in` answered: "discard", "kill", seconds, or None.
        is_given_up: whether `retries_exhausted` asked to skip the dead set.
        put_off: the fields of a `PutOff`, if a feature puts the job off because of it.
        was_made: whether the class was found and its instance made; else its rules do not count (§7.4).
    """

    error_class: str
    message: str
    backtrace: Sequence[str]
    mro: Sequence[str]
    traceback: str
    rule: str | float | None = None
    retry_in: str | float | None = None
    is_given_up: bool = False
    was_made: bool = True
    put_off: Mapping[str, Any] | None = None

    def stand_in(self) -> BaseException:
        """An error of the same name, message and backtrace.

        It is an instance of the nearest class of the original that is loaded here, so that handlers
        recognize it; attributes that the original's own code sets are not there.
        """
        module, _, path = self.mro[0].partition(":")
        name = path.rpartition(".")[2]
        namespace = {
            "__module__": module,
            "__qualname__": path,
            "__str__": lambda _self: self.message,
        }
        error: BaseException | None = None
        for base in filter(None, map(_find_class, self.mro)):
            # A class with rules of its own for subclasses or instances: the next one will do.
            with contextlib.suppress(Exception):
                kind: type[BaseException] = type(name, (base,), namespace)
                error = kind.__new__(kind)
                break
        if error is None:
            error = type(name, (Exception,), namespace)()
        error.__cause__ = ChildTraceback(self.traceback)
        setattr(error, FAILURE, self)
        return error


def failure_of(error: BaseException) -> Failure | None:
    """What a stand-in stands for; None for an error of this process."""
    found = getattr(error, FAILURE, None)
    return found if isinstance(found, Failure) else None


def was_not_made(error: BaseException) -> bool:
    """Whether a child could not make an instance of the job's class."""
    failure = failure_of(error)
    return failure is not None and not failure.was_made


class ChildTraceback(Exception):  # noqa: N818 - no error, but where to see one
    """Where an error was raised in a child process, for the log."""


def _find_class(path: str) -> type[BaseException] | None:
    """A class of errors that is loaded here; nothing is imported for it."""
    module, _, name = path.partition(":")
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def rules_after(error: BaseException, given: Handling) -> Handling:
    """The rules of a class by which an error is judged here.

    For a stand-in those are the answers that the child has from them; they are not asked twice.
    """
    if isinstance(error, ProcessDied) and error.is_verdict:
        return Handling(on_error={ProcessDied: "kill"}, retries_exhausted=given.retries_exhausted)
    failure = failure_of(error)
    if failure is None:
        return given
    return replace(
        given,
        on_error={} if failure.rule is None else {type(error): failure.rule},
        retry_in=lambda *_asked: failure.retry_in,
        retries_exhausted=lambda *_asked: "discard" if failure.is_given_up else None,
    )


def rule_for(error: BaseException, rules: OnError) -> str | float | None:
    """What is declared for the nearest class of an error.

    A rule for all errors is none for arguments that do not fit: they do not come right by themselves.
    """
    if isinstance(error, ArgumentMismatch):
        kinds = [kind for kind in type(error).__mro__ if issubclass(kind, ArgumentMismatch)]
        return next((rules[kind] for kind in kinds if kind in rules), "kill")
    if not rules:
        return None
    return next((rules[kind] for kind in type(error).__mro__ if kind in rules), None)


class RuleAnswers:
    """The rules of a class, and what they answered when a decision asked them.

    Attributes:
        handling: the rules, to be asked.
        retry_in: "discard", "kill", seconds, or None.
        is_given_up: whether `retries_exhausted` said "discard".
    """

    def __init__(self, handling: Handling) -> None:
        self._on_error = handling.on_error
        self.retry_in: str | float | None = None
        self.is_given_up = False
        retry_in, exhausted = handling.retry_in, handling.retries_exhausted
        self.handling = replace(
            handling,
            retry_in=retry_in and (lambda *args: self._note_delay(retry_in(*args))),
            retries_exhausted=exhausted and (lambda *args: self._note_end(exhausted(*args))),
        )

    def rule_for(self, error: BaseException) -> str | float | None:
        """What `on_error` says of this error."""
        return rule_for(error, self._on_error)

    def _note_delay(self, answer: object) -> object:
        if isinstance(answer, timedelta):
            answer = answer.total_seconds()
        if isinstance(answer, str | int | float) and not isinstance(answer, bool):
            self.retry_in = answer
        return answer

    def _note_end(self, answer: object) -> object:
        self.is_given_up = answer == "discard"
        return answer
