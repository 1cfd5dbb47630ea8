"""Errors that are no failure: a job that ends with one comes back later, if a feature says so (`Feature.puts_off`).

1. The error is of a class that a feature names, or of one derived from it. Classes are compared by their names, so
   that no feature is loaded for it.
2. A rule for it in `on_error` of the job's class counts instead, from the first time on.
3. The feature's function answers with a `PutOff`, or with None: then the error counts as any other. One that raises
   is logged, and counts as None.

A child process asks, as the error is there; its worker gets the answer with the error (`Failure.put_off`).
"""

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from kiqbridge import seams
from kiqbridge.client.registry import JobDefinition
from kiqbridge.engine.settle.error_report import failure_of
from kiqbridge.runtime import user_code
from kiqbridge.wire import json_text

logger = logging.getLogger(__name__)


class PutOff(NamedTuple):
    """How a job is put off that has not failed.

    Attributes:
        delay_s: for so many seconds.
        jitter: up to this part of the delay is added to it, so that jobs do not come back together.
        attributes: what is changed in its payload.
        line: what the log says in place of `done`.
        said: follows the delay in the log, such as "for the 3. time".
    """

    delay_s: float
    jitter: float = 0.0
    attributes: Mapping[str, Any] = {}
    line: str = "put off"
    said: str = ""


def put_off_after(
    text: bytes, error: BaseException, definition: JobDefinition | None
) -> PutOff | None:
    """How a job is put off that ended with this error; None: it has failed.

    Args:
        text: the job, as fetched.
        error: what it ended with.
        definition: of its class, if it was found.
    """
    if (failure := failure_of(error)) is not None:
        return None if failure.put_off is None else PutOff(**failure.put_off)
    kind: type = type(error)
    if (judge := seams.judge_of(kind)) is None:
        return None
    kind, rule = judge
    on_error = definition.handling.on_error if definition is not None else {}
    if any(issubclass(each, kind) and isinstance(error, each) for each in on_error):
        return None
    failed = f"a feature's rule for {kind.__qualname__} failed: the job counts as failed"
    found = user_code.call(rule, json_text.loads(text), error, log=logger, failed=failed)
    return found if isinstance(found, PutOff) else None
