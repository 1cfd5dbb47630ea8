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
from functools import partial
from typing import Any, Final, Literal, Union, get_args, get_origin

from kiqbridge.client.argument_scalars import (
    ANY,
    Converter,
    Mismatch,
    either,
    enum_of,
    literal,
    scalar_of,
)
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
            return literal(get_args(hint))
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
            return self._array("list", args, (list,) if kind is list else (list, tuple), list)
        if kind in _SETS:
            return self._array("set", args, (set, frozenset, list), _SETS[kind])
        if kind in _DICTS:
            return self._dict(kind, args)
        if kind is tuple and args and args[-1] is not ...:
            return _row("tuple", tuple, [self._of(each) for each in args])
        if kind is tuple:
            return self._array("tuple", args, (tuple, list), tuple)
        if kind in self._known:
            return self._known[kind]
        if issubclass(kind, enum.Enum):
            return enum_of(kind)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._named_tuple(kind)
        if typing.is_typeddict(kind) or dataclasses.is_dataclass(kind):
            return self._fields(kind)
        return _foreign(kind)

    def _union(self, members: tuple[Any, ...]) -> Converter:
        found = [self._of(each) for each in members]
        expected = " or ".join(each.expected if each else "anything" for each in found)

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

        def encode(value: Any) -> Any:
            own = [each for each in found if each is None or isinstance(value, each.kinds)]
            others = [each for each in found if each not in own]
            return first([*own, *others], "to_wire", value)

        return Converter(
            expected,
            either(each.json if each else ANY for each in found),
            (object,),
            encode,
            lambda value: first(found, "from_wire", value),
        )

    def _array(
        self, name: str, args: tuple[Any, ...], kinds: tuple[type, ...], make: Any
    ) -> Converter:
        """The kind of a class with any number of items of one kind; `make` takes a list of the items."""
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

        exact = list if kinds == (list,) and item is None else None
        return Converter(expected, "array", kinds, encode, decode, exact)

    def _dict(self, kind: type, args: tuple[Any, ...]) -> Converter:
        keys, values = (self._key(args[0]), self._of(args[1])) if args else (None, None)
        expected = "dict" if kind is dict else "mapping"

        def convert(way: str, value: Any) -> Any:
            if not isinstance(value, Mapping):
                raise Mismatch(expected, value)
            return {
                _within(str(key), keys, way, key): _within(str(key), values, way, each)
                for key, each in value.items()
            }

        return Converter(
            expected,
            "object",
            (Mapping,),
            partial(convert, "to_wire"),
            partial(convert, "from_wire"),
            dict if kind is dict and keys is None and values is None else None,
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

        return Converter("int", "string", (int,), str, decode)

    def _named_tuple(self, kind: Any) -> Converter:
        hints = self._hints(kind)
        fields = [self._of(hints.get(name, Any)) for name in kind._fields]
        least = len(kind._fields) - len(kind._field_defaults)
        return _row(kind.__name__, lambda values: kind(*values), fields, least)

    def _fields(self, kind: Any) -> Converter:
        """The kind of a class with named fields, an object in JSON: a TypedDict, or a dataclass."""
        is_dict = typing.is_typeddict(kind)
        expected = kind.__name__
        found: dict[str, Converter | None] = {}
        required: dict[str, bool] = {}

        def each_field(way: str, values: Any) -> dict[str, Any]:
            if not isinstance(values, Mapping):
                raise Mismatch(f"{expected}, or an object with its fields", values)
            unknown = [str(name) for name in values if name not in required]
            missing = [name for name, must in required.items() if must and name not in values]
            if unknown or missing:
                what = f"without {unknown[0]}" if unknown else f"with {missing[0]}"
                raise Mismatch(f"{expected} {what}", values)
            return {name: _within(name, found[name], way, value) for name, value in values.items()}

        def encode(value: Any) -> Any:
            if not is_dict:
                value = {name: getattr(value, name) for name in required}
            return each_field("to_wire", value)

        def decode(value: Any) -> Any:
            fields = each_field("from_wire", value)
            try:
                return fields if is_dict else kind(**fields)
            except (TypeError, ValueError) as error:
                raise Mismatch(f"{expected} ({error})", value) from None

        kinds = (dict,) if is_dict else (kind,)
        accept = partial(each_field, "to_wire")
        converter = Converter(expected, "object", kinds, encode, decode, accept=accept)
        self._known[kind] = converter  # before its fields: one of them may be of the same class
        hints = self._hints(kind)
        if is_dict:
            required.update(
                dict.fromkeys(hints, False) | dict.fromkeys(kind.__required_keys__, True)
            )
        else:
            absent = dataclasses.MISSING
            required.update(
                {
                    each.name: each.default is absent and each.default_factory is absent
                    for each in dataclasses.fields(kind)
                    if each.init
                }
            )
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
    """The annotations of a class itself, without those that it inherits."""
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
    """The kind of a tuple with a value for each place."""
    least = len(items) if least is None else least
    expected = f"{name} of {len(items)} values"

    def convert(way: str, values: Any) -> list[Any]:
        if not isinstance(values, list | tuple) or not least <= len(values) <= len(items):
            raise Mismatch(expected, values)
        return [_within(place, items[place], way, value) for place, value in enumerate(values)]

    def decode(value: Any) -> Any:
        if not isinstance(value, list):
            raise Mismatch(expected, value)
        return make(convert("from_wire", value))

    return Converter(expected, "array", (tuple, list), partial(convert, "to_wire"), decode)


def _foreign(kind: Any) -> Converter | None:
    """A model of pydantic or a Struct of msgspec; None: a class that says nothing here."""
    pydantic, msgspec = sys.modules.get("pydantic"), sys.modules.get("msgspec")
    encode: Callable[[Any], Any]
    if pydantic is not None and issubclass(kind, pydantic.BaseModel):
        encode, decode = _pydantic(kind, pydantic.ValidationError)
    elif msgspec is not None and issubclass(kind, msgspec.Struct):
        encode, decode = msgspec.to_builtins, _msgspec(kind, msgspec)
    else:
        return None
    return Converter(kind.__name__, "object", (kind,), encode, decode)


def _pydantic(kind: Any, refused: type[Exception]) -> tuple[Any, Any]:
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

    return lambda value: value.model_dump(mode="json", by_alias=True), decode


def _msgspec(kind: Any, msgspec: Any) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        try:
            return msgspec.convert(value, type=kind)
        except msgspec.ValidationError as error:
            raise Mismatch(f"{kind.__name__} ({error})", value) from None

    return decode
