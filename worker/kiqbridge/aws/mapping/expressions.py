"""JMESPath expressions of mappings: compiled once, evaluated over an event.

Besides JMESPath's own functions there are those of AWS Lambda Powertools: `powertools_json`,
`powertools_base64` and `powertools_base64_gzip`. jmespath is loaded by the first expression.
"""

import functools
from typing import Any, Final

from kiqbridge.errors import EventError, did_you_mean

LARGEST_UNZIPPED: Final = 10_000_000
"""Bytes that a compressed text of an event may have: no payload can be larger."""
_LONGEST_REASON: Final = 200


class ExpressionFault(Exception):  # noqa: N818 - an answer of `fault_of` in the form of an error
    """An expression cannot be compiled; the text says why, and what to write."""


class Expression:
    """One expression; compiled when it is first used.

    Args:
        text: JMESPath.
    """

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._compiled: Any = None

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def search(self, value: Any) -> Any:
        """What the expression finds; None = nothing.

        Raises:
            EventError: it cannot be evaluated over this value, such as a function over another type.
        """
        try:
            if self._compiled is None:
                self._compiled = compiled(self.text)
            return self._compiled.search(value, _options())
        except ExpressionFault as fault:
            raise EventError(str(fault)) from fault
        except Exception as error:  # a function over a value of a foreign event: whatever is raised, the event is refused
            raise EventError(
                f"{self.text} cannot be evaluated over this event: {_in_a_line(error)}"
            ) from error


def compiled(text: str) -> Any:
    """A compiled expression.

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
    import jmespath  # noqa: PLC0415 - as above

    from kiqbridge.aws.mapping.functions import EventFunctions  # noqa: PLC0415 - as above

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
