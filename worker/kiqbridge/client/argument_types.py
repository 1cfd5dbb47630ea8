"""What an annotation means for an argument: its form in JSON, and the way back.

For each kind of annotation there is a method that makes its `Converter`. What is already in the form of JSON is
accepted when a job is enqueued, if it can be read: a `UUID` parameter takes a `UUID` or its text.

Libraries are not loaded for this: a class of pydantic or msgspec is recognized if its library is loaded, as it is
wherever such a class is annotated.
"""

import collections.abc
import contextlib
import dataclasses
import enum
import inspect
import logging
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Union, get_args, get_origin

from kiqbridge.client.argument_scalars import Converter, Mismatch, scalar_of
from kiqbridge.wire import json_text

__all__ = ["Compiler", "Converter", "Mismatch", "namespace_of"]

logger = logging.getLogger(__name__)

_LISTS: Final = frozenset(
    {list, *(getattr(collections.abc, f"{prefix}Sequence") for prefix in ("", "Mutable"))}
    | {collections.abc.Collection, collections.abc.Iterable}
)
_SETS: Final = {
    set: set,
    frozenset: frozenset,
    collections.abc.Set: frozenset,
    collections.abc.MutableSet: set,
}
_DICTS: Final = frozenset({dict, collections.abc.Mapping, collections.abc.MutableMapping})
_TRANSPARENT: Final = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")
_CHOICES: Final = 8
"""So many values of an enum are named in a message."""


def namespace_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The names that an annotation of a function, given as text, may use."""
    found = getattr(inspect.unwrap(function), "__globals__", {})
    return found if isinstance(found, dict) else {}


class Compiler:
    """Makes converters out of annotations.

    Args:
        namespace: for annotations that are texts.
        owner: whose they are, for a log line.
    """

    def __init__(self, namespace: Mapping[str, Any], owner: str) -> None:
        self._namespace = dict(namespace)
        self._owner = owner
        self._known: dict[Any, Converter] = {}

    def compiled(self, annotation: Any) -> Converter | None:
        """The converter of an annotation; None: values pass as they are."""
        if annotation is inspect.Parameter.empty:
            return None
        return self._of(self._resolved(annotation, self._namespace))

    def _resolved(self, annotation: Any, namespace: Mapping[str, Any]) -> Any:
        """An annotation without texts; Any where it has a name that cannot be found."""
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        try:
            return typing.get_type_hints(
                holder, globalns=dict(namespace), localns={}, include_extras=True
            )["it"]
        except Exception as error:  # noqa: BLE001 - an annotation is code, evaluated here for the first time
            logger.debug(
                "%s: annotation %r cannot be resolved here (%s: %s), so that its values are not checked",
                self._owner,
                annotation,
                type(error).__name__,
                error,
            )
            return Any

    def _of(self, hint: Any) -> Converter | None:  # noqa: PLR0911 - a line for each kind of annotation
        if hint is None:
            hint = type(None)
        origin = get_origin(hint)
        if origin in (Union, types.UnionType):
            return self._union(get_args(hint))
        if origin is Literal:
            return _literal(get_args(hint))
        if origin is typing.Annotated:
            return self._of(get_args(hint)[0])
        inner = getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)
        if inner is not None and not isinstance(hint, type):  # a NewType, a `type` statement
            return self._of(inner)
        if origin is not None and getattr(origin, "_name", None) in _TRANSPARENT:
            return self._of(get_args(hint)[0])
        kind = origin or hint
        if not isinstance(kind, type):
            return None
        return self._class(kind, get_args(hint))

    def _class(  # noqa: C901, PLR0911 - a line for each kind of class
        self, kind: type, args: tuple[Any, ...]
    ) -> Converter | None:
        if (found := scalar_of(kind)) is not None:
            return found
        if kind in _LISTS:
            kinds = (list,) if kind is list else (list, tuple)
            return self._array("list", args, kinds, list, exact=list)
        if kind in _SETS:
            return self._array("set", args, (set, frozenset, list), _SETS[kind])
        if kind in _DICTS:
            return self._dict(kind, args)
        if kind is tuple:
            return self._tuple(args)
        if kind in self._known:
            return self._known[kind]
        if typing.is_typeddict(kind):
            return self._typed_dict(kind)
        if issubclass(kind, enum.Enum):
            return _enum(kind)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._named_tuple(kind)
        if dataclasses.is_dataclass(kind):
            return self._dataclass(kind)
        return _foreign(kind)

    def _union(self, members: tuple[Any, ...]) -> Converter:
        found = [self._of(each) for each in members]
        expected = " or ".join(each.expected if each else "anything" for each in found)

        def encode(value: Any) -> Any:
            own = [each for each in found if each is None or isinstance(value, each.kinds)]
            others = [each for each in found if each not in own]
            return first([*own, *others], "to_wire", value)

        def first(converters: list[Converter | None], way: str, value: Any) -> Any:
            refused: list[Mismatch] = []
            for each in converters:
                if each is None:
                    return value
                try:
                    return getattr(each, way)(value)
                except Mismatch as mismatch:
                    refused.append(mismatch)
            # What is wrong within a value says more than that it is wrong.
            raise next((each for each in refused if each.path), Mismatch(expected, value))

        return Converter(
            expected, (object,), encode, lambda value: first(found, "from_wire", value)
        )

    def _array(
        self,
        name: str,
        args: tuple[Any, ...],
        kinds: tuple[type, ...],
        make: Callable[[list[Any]], Any],
        exact: type | None = None,
    ) -> Converter:
        """Of a class with any number of items of one kind; `make` takes a list of them."""
        item = self._of(args[0]) if args else None
        expected = f"{name} of {item.expected}" if item else name

        def encode(value: Any) -> Any:
            written = _each(item, "to_wire", value)
            if name == "set":
                with contextlib.suppress(TypeError):
                    return sorted(written)  # the same set has the same text
            return written

        def decode(value: Any) -> Any:
            if not isinstance(value, list):
                raise Mismatch(expected, value)
            items = _each(item, "from_wire", value)
            try:
                return make(items)
            except TypeError:
                raise Mismatch(f"{expected}, which can be hashed", value) from None

        return Converter(expected, kinds, encode, decode, exact=None if item else exact)

    def _dict(self, kind: type, args: tuple[Any, ...]) -> Converter:
        keys, values = (self._key(args[0]), self._of(args[1])) if args else (None, None)
        expected = "dict" if kind is dict else "mapping"

        def convert(value: Any, way: str) -> Any:
            if not isinstance(value, Mapping):
                raise Mismatch(expected, value)
            written = {}
            for key, each in value.items():
                name = _within(str(key), keys, way, key)
                written[name] = _within(str(key), values, way, each)
            return written

        return Converter(
            expected,
            (Mapping,),
            lambda value: convert(value, "to_wire"),
            lambda value: convert(value, "from_wire"),
            exact=dict if kind is dict and keys is None and values is None else None,
        )

    def _key(self, hint: Any) -> Converter | None:
        """Keys are texts in JSON: numbers get their digits."""
        found = self._of(hint)
        if found is None or found.exact is not int:
            return found

        def decode(value: Any) -> int:
            try:
                return int(value)
            except (TypeError, ValueError):
                raise Mismatch("int, or its digits as text", value) from None

        return Converter("int", (int,), str, decode)

    def _tuple(self, args: tuple[Any, ...]) -> Converter:
        if args and args[-1] is not ...:
            return _row("tuple", tuple, [self._of(each) for each in args])
        return self._array("tuple", args, (tuple, list), tuple)

    def _named_tuple(self, kind: Any) -> Converter:
        hints = self._hints(kind)
        fields = [self._of(hints.get(name, Any)) for name in kind._fields]
        least = len(kind._fields) - len(kind._field_defaults)
        return _row(kind.__name__, lambda values: kind(*values), fields, least)

    def _typed_dict(self, kind: Any) -> Converter:
        return self._fields(
            kind,
            read=None,
            names=lambda hints: (
                dict.fromkeys(hints, False) | dict.fromkeys(kind.__required_keys__, True)
            ),
            make=dict,
        )

    def _dataclass(self, kind: Any) -> Converter:
        fields = [each for each in dataclasses.fields(kind) if each.init]

        def is_required(field: "dataclasses.Field[Any]") -> bool:
            return (
                field.default is dataclasses.MISSING
                and field.default_factory is dataclasses.MISSING
            )

        return self._fields(
            kind,
            read=getattr,
            names=lambda _hints: {each.name: is_required(each) for each in fields},
            make=lambda values: kind(**values),
        )

    def _fields(
        self,
        kind: Any,
        *,
        read: Callable[[Any, str], Any] | None,
        names: Callable[[Mapping[str, Any]], Mapping[str, bool]],
        make: Callable[[dict[str, Any]], Any],
    ) -> Converter:
        """Of a class with named fields; `names` are those of an object in JSON, and whether each must be there."""
        expected = kind.__name__
        found: dict[str, Converter | None] = {}
        required: dict[str, bool] = {}

        def each_field(values: Mapping[str, Any], way: str) -> dict[str, Any]:
            if not isinstance(values, Mapping):
                raise Mismatch(f"{expected}, or an object with its fields", values)
            unknown = [str(name) for name in values if name not in required]
            missing = [name for name, must in required.items() if must and name not in values]
            if unknown or missing:
                what = f"without {unknown[0]}" if unknown else f"with {missing[0]}"
                raise Mismatch(f"{expected} {what}", values)
            return {name: _within(name, found[name], way, value) for name, value in values.items()}

        def encode(value: Any) -> Any:
            if read is None:
                return each_field(value, "to_wire")
            return each_field({name: read(value, name) for name in required}, "to_wire")

        def decode(value: Any) -> Any:
            fields = each_field(value, "from_wire")
            try:
                return make(fields)
            except (TypeError, ValueError) as error:
                raise Mismatch(f"{expected} ({error})", value) from None

        converter = Converter(
            expected,
            (dict,) if read is None else (kind,),
            encode,
            decode,
            accept=lambda value: each_field(value, "to_wire"),
        )
        self._known[kind] = converter  # before its fields: one of them may be of the same class
        hints = self._hints(kind)
        required.update(names(hints))
        found.update({name: self._of(hints.get(name, Any)) for name in required})
        return converter

    def _hints(self, kind: Any) -> dict[str, Any]:
        """The annotations of a class, without texts."""
        found: dict[str, Any] = {}
        for each in reversed(kind.__mro__):
            namespace = {**vars(sys.modules.get(each.__module__, types)), each.__name__: each}
            own = _annotations(each).items()
            found |= {name: self._resolved(hint, namespace) for name, hint in own}
        return found


def _annotations(kind: type) -> Mapping[str, Any]:
    """Those of a class itself."""
    if sys.version_info >= (3, 14):
        import annotationlib  # noqa: PLC0415 - of this version on

        return annotationlib.get_annotations(kind, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(kind)


def _within(place: str | int, converter: Converter | None, way: str, value: Any) -> Any:
    """A value within another one, converted; a mismatch names its place."""
    try:
        return getattr(converter, way)(value) if converter else value
    except Mismatch as mismatch:
        raise mismatch.within(place) from None


def _each(item: Converter | None, way: str, values: Any) -> list[Any]:
    if item is None:
        return list(values)
    convert, converted = getattr(item, way), []
    for place, value in enumerate(values):
        try:
            converted.append(convert(value))
        except Mismatch as mismatch:
            raise mismatch.within(place) from None
    return converted


def _row(
    name: str,
    make: Callable[[list[Any]], Any],
    items: list[Converter | None],
    least: int | None = None,
) -> Converter:
    """Of a tuple with a value for each place."""
    least = len(items) if least is None else least
    expected = f"{name} of {len(items)} values"

    def convert(values: Any, way: str) -> list[Any]:
        if not isinstance(values, list | tuple) or not least <= len(values) <= len(items):
            raise Mismatch(expected, values)
        return [_within(place, items[place], way, value) for place, value in enumerate(values)]

    def decode(value: Any) -> Any:
        if not isinstance(value, list):
            raise Mismatch(expected, value)
        return make(convert(value, "from_wire"))

    return Converter(expected, (tuple, list), lambda value: convert(value, "to_wire"), decode)


def _literal(values: tuple[Any, ...]) -> Converter:
    written = [each.value if isinstance(each, enum.Enum) else each for each in values]
    expected = f"one of {', '.join(map(repr, written))}"

    def found(value: Any, among: Any, given: Any) -> Any:
        for each, answer in zip(among, given, strict=True):
            if type(each) is type(value) and each == value:
                return answer
        raise Mismatch(expected, value)

    def encode(value: Any) -> Any:
        own = isinstance(value, enum.Enum)
        return found(value, values if own else written, written)

    return Converter(expected, (object,), encode, lambda value: found(value, written, values))


def _enum(kind: Any) -> Converter:
    choices = [repr(each.value) for each in kind]
    shown = ", ".join(choices[:_CHOICES]) + (", …" if len(choices) > _CHOICES else "")
    expected = f"{kind.__name__}: {shown}"

    def decode(value: Any) -> Any:
        try:
            return kind(value)
        except Exception:  # noqa: BLE001 - `_missing_` is the user's
            raise Mismatch(expected, value) from None

    return Converter(expected, (kind,), lambda value: value.value, decode)


def _foreign(kind: Any) -> Converter | None:
    """A model of pydantic or a Struct of msgspec; None: a class that says nothing here."""
    pydantic, msgspec = sys.modules.get("pydantic"), sys.modules.get("msgspec")
    if pydantic is not None and issubclass(kind, pydantic.BaseModel):
        return _pydantic(kind, pydantic.ValidationError)
    if msgspec is not None and issubclass(kind, msgspec.Struct):
        return _msgspec(kind, msgspec)
    return None


def _pydantic(kind: Any, refused: type[Exception]) -> Converter:
    def decode(value: Any) -> Any:
        try:
            text = json_text.dumps(value)
        except (TypeError, ValueError):
            raise Mismatch(kind.__name__, value) from None
        try:
            # As JSON, also where the model is strict: a text is then right for a UUID.
            return kind.model_validate_json(text)
        except refused as error:
            first = error.errors(include_input=False, include_url=False)[0]  # type: ignore[attr-defined]
            place = ".".join(map(str, first["loc"]))
            raise Mismatch(
                f"{kind.__name__} ({f'{place}: ' if place else ''}{first['msg']})", value
            ) from None

    def encode(value: Any) -> Any:
        return value.model_dump(mode="json", by_alias=True)

    return Converter(kind.__name__, (kind,), encode, decode)


def _msgspec(kind: Any, msgspec: Any) -> Converter:
    def decode(value: Any) -> Any:
        try:
            return msgspec.convert(value, type=kind)
        except msgspec.ValidationError as error:
            raise Mismatch(f"{kind.__name__} ({error})", value) from None

    return Converter(kind.__name__, (kind,), msgspec.to_builtins, decode)
