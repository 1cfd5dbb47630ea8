"""JMESPath expressions of mappings: compiled once, evaluated over an event.

Besides JMESPath's own functions there are those of AWS Lambda Powertools: `powertools_json`,
`powertools_base64` and `powertools_base64_gzip`. jmespath is loaded by the first expression.
"""

import base64
import functools
import zlib
from typing import Any, Final

from kiqbridge.errors import EventError, did_you_mean

LARGEST_UNZIPPED: Final = 10_000_000
"""Bytes that a compressed text of an event may have: no payload can be larger."""
_LONGEST_REASON: Final = 200


class ExpressionFault(Exception):  # noqa: N818 - an answer of `fault_of` in the form of an error
    """An expression cannot be compiled; the text says why, and what to write."""


def search(text: str, value: Any) -> Any:
    """What an expression finds in a value; None = nothing.

    Raises:
        EventError: it cannot be evaluated over this value, such as a function over another type.
    """
    try:
        return compiled(text).search(value, _options())
    except ExpressionFault as fault:
        raise EventError(str(fault)) from fault
    except Exception as error:  # a function over a value of a foreign event: whatever is raised, the event is refused
        raise EventError(
            f"{text} cannot be evaluated over this event: {_in_a_line(error)}"
        ) from error


@functools.cache
def compiled(text: str) -> Any:
    """A compiled expression, remembered: there are as many as a file of mappings has.

    Raises:
        ExpressionFault: it is not JMESPath.
    """
    import jmespath  # noqa: PLC0415 - only where there are mappings

    try:
        return jmespath.compile(text)
    except (jmespath.exceptions.JMESPathError, RecursionError) as error:
        raise ExpressionFault(
            f"{text!r} is not a JMESPath expression: {_in_a_line(error)}{_hint(text)}"
        ) from error


def check_expression(text: str) -> None:
    """Compile an expression, and look up its functions, which JMESPath itself does when it is evaluated.

    Raises:
        ExpressionFault: it is no expression, or calls an unknown function, or one with too few arguments.
    """
    pending = [compiled(text).parsed]
    known = _options().custom_functions.FUNCTION_TABLE
    while pending:
        node = pending.pop()
        pending += [child for child in node["children"] if isinstance(child, dict)]
        if node["type"] != "function_expression":
            continue
        name, count = node["value"], len(node["children"])
        if name not in known:
            raise ExpressionFault(
                f"{text!r}: there is no function {name}{did_you_mean(name, known)}"
            )
        signature = known[name]["signature"]
        if count < len(signature) or (
            count > len(signature) and not (signature and signature[-1].get("variadic"))
        ):
            raise ExpressionFault(
                f"{text!r}: the function {name} takes {len(signature)} arguments, not {count}"
            )


@functools.cache
def _options() -> Any:
    """JMESPath's functions, and those of Powertools; its unzipping has no limit, this one has."""
    import jmespath  # noqa: PLC0415 - as above
    from aws_lambda_powertools.utilities import jmespath_utils  # noqa: PLC0415
    from jmespath.functions import signature  # noqa: PLC0415

    class EventFunctions(jmespath_utils.PowertoolsFunctions):
        @signature({"types": ["string"]})  # type: ignore[untyped-decorator]
        def _func_powertools_base64_gzip(self, value: str) -> str:
            unzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
            text = unzip.decompress(base64.b64decode(value), LARGEST_UNZIPPED)
            if not unzip.eof:  # a sender chooses how much it unzips to
                raise ValueError(
                    f"the unzipped text has more than {LARGEST_UNZIPPED:,} bytes, or is incomplete"
                )
            return text.decode()

    return jmespath.Options(custom_functions=EventFunctions())


def _hint(text: str) -> str:
    if text.startswith("$"):
        return "; a path begins with a name: write detail.id, not $.detail.id"
    if "-" in text:
        return '; a name with a hyphen stands in double quotes: "detail-type"'
    return "; a fixed text stands in single quotes within the expression: 'text'"


def _in_a_line(error: BaseException) -> str:
    """An error's text without its picture of the place, which takes several lines, and without values."""
    import jmespath  # noqa: PLC0415 - as above

    if isinstance(error, jmespath.exceptions.JMESPathTypeError):  # its text quotes the event
        expected = " or ".join(error.expected_types)
        return f"{error.function_name}() got {error.actual_type} instead of {expected}"
    text = " ".join(str(error).split("\n")[0].split()).rstrip(":.") or type(error).__name__
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"
