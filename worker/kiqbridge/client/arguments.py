"""Arguments by the annotations of a job's parameters: values to JSON when it is enqueued, and back when it runs.

1. `@job def remind(user: UUID, day: date)` is declared: nothing is looked at yet.
2. At the first `remind.perform_async(user, date(2026, 1, 1))` the annotations become converters, once
   (argument_types.py), and the job is written with `["5d0a54ab-…", "2026-01-01"]`, which Ruby reads as well.
3. A worker, also for a job that Ruby wrote, calls `remind(UUID("5d0a54ab-…"), date(2026, 1, 1))`.

A value that does not fit is a `PayloadError` in step 2, and an `ArgumentMismatch` in step 3, by which the job is
dead at once. What has no annotation, or one that says nothing here, passes as it is; so does an annotation
with a name that cannot be found, such as one imported under `TYPE_CHECKING`, which is logged at debug.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from kiqbridge.errors import ArgumentMismatch, PayloadError
from kiqbridge.runtime import redaction
from kiqbridge.runtime.redaction import shorten_argument

if TYPE_CHECKING:
    from kiqbridge.client.argument_types import Converter, Mismatch

if sys.version_info >= (3, 14):
    from annotationlib import Format

Way = Callable[[list[Any]], list[Any]]

_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class JobArguments:
    """Converts the arguments of one job.

    Args:
        name: of the job, for messages.
        function: whose annotations count; strings are looked up where it is defined.
        signature: what the job takes.

    Attributes:
        function: whose annotations count.
        to_wire: arguments → as they are written; raises PayloadError for a value that is not what its
            parameter is annotated with.
        from_wire: arguments as written → as the job is called with them; raises ArgumentMismatch.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], signature: inspect.Signature
    ) -> None:
        self._name = name
        self.function = function
        parameters = signature.parameters.values()
        self._parameters = [each for each in parameters if each.kind in _PLACED]
        self._keywords = [each for each in parameters if each.kind is each.KEYWORD_ONLY]
        self._rest = next((each for each in parameters if each.kind is each.VAR_POSITIONAL), None)
        self._converters: list[Converter | None] | None = None
        self._by_name: dict[str, tuple[inspect.Parameter, Converter | None]] = {}
        self._mismatch: type[Mismatch]
        self.to_wire: Way = partial(self._first, "to_wire")
        self.from_wire: Way = partial(self._first, "from_wire")

    def __repr__(self) -> str:
        return f"<arguments of {self._name}>"

    def _first(self, way: str, args: list[Any]) -> list[Any]:
        self._compile()
        return getattr(self, way)(args)  # type: ignore[no-any-return] # one of both, compiled

    def json_of(self, parameter: str) -> str:
        """The type in JSON of a parameter, in the words of a contract."""
        if self._converters is None:
            self._compile()
        _, converter = self._by_name.get(parameter, (None, None))
        return "any" if converter is None else converter.json

    def written(self, args: Sequence[Any], *, parameter: str | None = None) -> list[Any]:
        """The arguments as JSON has them, for a comparison: values that do not fit, such as `mock.ANY`, stay.

        Args:
            args: those of a call, or one value for `parameter`.
            parameter: its name; default: they begin at the first one.
        """
        if self._converters is None:
            self._compile()
        names = [each.name for each in self._parameters]
        first = names.index(parameter) if parameter in names else 0
        if parameter is not None and parameter not in names:
            return list(args)
        found = []
        for place, value in enumerate(args, first):
            try:
                found.append(self._converted(place, value, "to_wire"))
            except PayloadError:
                found.append(value)
        return found

    def _compile(self) -> None:
        # A process that only declares jobs, or has none with annotations, starts sooner.
        from kiqbridge.client.argument_types import (  # noqa: PLC0415
            Compiler,
            Mismatch,
            namespace_of,
        )

        self._mismatch = Mismatch
        compiler = Compiler(namespace_of(self.function), f"job {self._name}")
        rest = [] if self._rest is None else [self._rest]
        placed = [*self._parameters, *rest]
        self._by_name = {
            each.name: (each, compiler.compiled(each.annotation))
            for each in (*placed, *self._keywords)
        }
        found = [self._by_name[each.name][1] for each in placed]
        exact = [each.exact for each in found if each is not None and each.exact is not None]
        self._converters = converters = found if any(found) else []
        # One with `*rest` is looked at value by value: its types are not known beforehand.
        plain = tuple(exact) if len(exact) == len(found) and not rest else None
        self.to_wire, self.from_wire = (
            _passing_plain(plain, partial(self._convert, way)) if converters else _same
            for way in ("to_wire", "from_wire")
        )

    def from_values(
        self, args: list[Any], kwargs: Mapping[str, Any], as_json: Callable[[Any], Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Arguments that are more than JSON already, as the job is called with them.

        Each is held against its annotation in the form that it has in JSON, as if Sidekiq had written it. What is
        then the same value stays as it was meant: a `Symbol`, a datetime with its zone.

        Args:
            args: as Active Job serialized them, read.
            kwargs: the same of keyword arguments.
            as_json: makes the form in JSON; the same object if it has it.

        Raises:
            ArgumentMismatch: one is not what its parameter is annotated with.
        """
        if self._converters is None:
            self._compile()
        labels = map(self._label, range(len(args)))
        read = partial(self._read_value, as_json)
        return list(map(read, labels, args)), {name: read(name, kwargs[name]) for name in kwargs}

    def _read_value(self, as_json: Callable[[Any], Any], label: str, value: Any) -> Any:
        name = label.partition("[")[0]
        parameter, converter = self._by_name.get(name, (None, None))
        if parameter is None or converter is None or type(value) is converter.exact:
            return value
        written = as_json(value)
        try:
            read = converter.from_wire(written)
        except self._mismatch as mismatch:
            if _is_default(value, parameter.default):
                return value
            self._refuse(label, mismatch, "from_wire")
        return value if written is not value and read == value else read

    def _convert(self, way: str, args: Sequence[Any]) -> list[Any]:
        return [self._converted(place, value, way) for place, value in enumerate(args)]

    def _converted(self, place: int, value: Any, way: str) -> Any:
        converters, named = self._converters or [], len(self._parameters)
        at = min(place, named)
        converter = converters[at] if at < len(converters) else None
        if converter is None or type(value) is converter.exact:
            return value
        try:
            return getattr(converter, way)(value)
        except self._mismatch as mismatch:
            if at < named and _is_default(value, self._parameters[at].default):
                return value
            self._refuse(self._label(place), mismatch, way)

    def _label(self, place: int) -> str:
        if place < len(self._parameters):
            return self._parameters[place].name
        return f"{self._rest.name if self._rest else ''}[{place - len(self._parameters)}]"

    def _refuse(self, name: str, mismatch: "Mismatch", way: str) -> NoReturn:
        hidden = any(map(redaction.current().hides, (name, *mismatch.names)))
        shown = redaction.HIDDEN if hidden else shorten_argument(mismatch.value)
        text = (
            f"{name}{mismatch.path} of {self._name}: expected {mismatch.expected}, got {shown} of type "
            f"{type(mismatch.value).__qualname__}"
        )
        if way == "to_wire":
            raise PayloadError(f"args: {text}") from None
        raise ArgumentMismatch(
            f"{text}; correct it where the job is enqueued, or the annotation of the parameter"
        ) from None


def _same(args: list[Any]) -> list[Any]:
    return args


def _passing_plain(plain: tuple[type, ...] | None, convert: Way) -> Way:
    """`convert`, which is left out where all arguments are of these types.

    Nearly all arguments are plain, and this is passed by each job: so it is written for each number of them.
    """
    if plain is None:
        return convert
    if len(plain) == 1:
        [only] = plain

        def one(args: list[Any]) -> list[Any]:
            return args if len(args) == 1 and type(args[0]) is only else convert(args)

        return one
    if len(plain) == 2:  # noqa: PLR2004 - of two arguments
        first, second = plain

        def two(args: list[Any]) -> list[Any]:
            if len(args) == 2 and type(args[0]) is first and type(args[1]) is second:  # noqa: PLR2004 - as above
                return args
            return convert(args)

        return two

    def many(args: list[Any]) -> list[Any]:
        return args if tuple(map(type, args)) == plain else convert(args)

    return many


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, also where names of its annotations are not there yet."""
    if sys.version_info >= (3, 14):
        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _is_default(value: object, default: object) -> bool:
    """A default may be of another type than its parameter: `def send(copies: int = None)`."""
    return type(value) is type(default) and value == default


def takes(signature: inspect.Signature, args: Iterable[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a function can be called like this."""
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True
