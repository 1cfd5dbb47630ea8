"""What a job returned, as JSON text: for a batch, chain or result that has asked for it. Pure."""

import json
from typing import Final

from kiqbridge.errors import PayloadError
from kiqbridge.runtime.records import dataclass

MAX_OUTPUT_BYTES: Final = 262_144
"""Bytes of it as UTF-8, 256 KiB: what Step Functions takes (its quotas)."""

MAX_VALUE_DEPTH: Final = 98
"""Lists and dicts in each other: a result and the arguments of a job hold the value within two more, and
`json_text` reads 100."""

NOT_PERFORMED: Final = object()
"""The return value of a job that was not called, because middleware has skipped it."""


@dataclass(frozen=True, slots=True)
class JobOutput:
    """A return value as JSON text.

    Attributes:
        text: the JSON; empty when it is left out.
        omitted: why it is left out, as a sentence without its subject.
    """

    text: str
    omitted: str = ""


def encode_output(result: object) -> JobOutput:
    """A job's return value as JSON; in the time that its limit bounds, and never an error.

    Args:
        result: the value, or a `JobOutput` that was made in a child process.
    """
    if isinstance(result, JobOutput):
        return result
    if result is None:  # as of most jobs; the encoder takes a third of the time of a whole end
        return JobOutput("null")
    parts: list[str] = []
    size = 0
    try:
        for part in _ENCODER.iterencode(result):
            size += len(part.encode())
            if size > MAX_OUTPUT_BYTES:
                return JobOutput("", f"is longer than {MAX_OUTPUT_BYTES} bytes")
            parts.append(part)
        _check_readable(result)
    except BaseException as error:  # noqa: BLE001 - the job is done, and must not run again because of its result
        why = str(error) if isinstance(error, PayloadError) else type(error).__name__
        return JobOutput("", f"is no JSON ({why}: type {type(result).__name__})")
    return JobOutput("".join(parts))


def _check_readable(result: object) -> None:
    """Refuse what the encoder would alter: keys that are no texts, some of which it would make one and the same.

    Called once a value was encoded, so that it is finite, and as small as its limit.

    Raises:
        PayloadError: that, or it is nested deeper than a reader goes.
    """
    level: list[object] = [result]
    for _ in range(MAX_VALUE_DEPTH + 1):
        containers = [each for each in level if isinstance(each, dict | list | tuple)]
        if not containers:
            return
        for each in containers:
            if isinstance(each, dict) and not all(isinstance(key, str) for key in each):
                raise PayloadError("keys that are no texts")
        level = [
            child
            for each in containers
            for child in (each.values() if isinstance(each, dict) else each)
        ]
    raise PayloadError(f"nested deeper than {MAX_VALUE_DEPTH} levels")


# Not orjson: it turns long integers into floats. In parts, so that a long value is given up early; \uXXXX
# in the place of other characters would make a text that fits too long, so it is not used.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
