"""From the declared jobs of this process to a contract."""

import datetime as dt
import decimal
import enum
import inspect
import os
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, Final, Literal, Union, get_args, get_origin

from kiqbridge.client.registry import JobDefinition
from kiqbridge.contract.document import ANY, Contract, JobContract, Parameter

_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

_SCALARS: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    type(None): "null",
    uuid.UUID: "string:uuid",
    dt.datetime: "string:date-time",
    dt.date: "string:date",
    dt.time: "string:time",
    dt.timedelta: "number",
    decimal.Decimal: "string:decimal",
    bytes: "string:base64",
}
_LISTS: Final = (list, tuple, set, frozenset, Sequence, Iterable)


def export(
    definitions: Iterable[JobDefinition], remote: Iterable[JobDefinition] = (), *, app: str
) -> Contract:
    """The contract of declared jobs; `remote` are those that are enqueued for others."""
    return Contract(
        app=app,
        language="python",
        jobs={each.name: contract_of(each) for each in definitions},
        enqueues={each.name: contract_of(each) for each in remote},
    )


def contract_of(definition: JobDefinition) -> JobContract:
    """What one job takes."""
    parameters = definition.signature.parameters.values()
    function = definition.arguments.function if definition.arguments is not None else None
    hints = _hints_of(function) if function is not None else {}
    return JobContract(
        parameters=tuple(
            Parameter(
                name=each.name,
                type=type_of(hints.get(each.name, Any)),
                optional=each.default is not each.empty,
                keyword=each.kind is each.KEYWORD_ONLY,
            )
            for each in parameters
            if each.kind in (*_PLACED, each.KEYWORD_ONLY)
        ),
        takes_more=any(each.kind is each.VAR_POSITIONAL for each in parameters),
        takes_more_keywords=any(each.kind is each.VAR_KEYWORD for each in parameters),
        active_job=definition.active_job,
        queue=str(definition.options.get("queue", "")),
        place=_place_of(function) if function is not None else "",
    )


def type_of(hint: Any) -> str:
    """The type of the JSON that a value of this annotation becomes."""
    if hint is None:
        return "null"
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _union(type_of(each) for each in get_args(hint))
    if origin is Literal:
        return _union(_SCALARS.get(type(each), ANY) for each in get_args(hint))
    if origin is typing.Annotated:
        return type_of(get_args(hint)[0])
    inner = getattr(hint, "__supertype__", None)
    if inner is not None:
        return type_of(inner)
    kind = origin or hint
    return _of_class(kind) if isinstance(kind, type) else ANY


def _of_class(kind: type) -> str:
    for scalar, name in _SCALARS.items():
        if kind is scalar:
            return name
    if issubclass(kind, enum.Enum):
        return _union(_SCALARS.get(type(each.value), ANY) for each in kind)
    if issubclass(kind, tuple | list | set | frozenset) or kind in _LISTS:
        return "array"
    is_object = issubclass(kind, dict) or kind is Mapping or is_dataclass(kind)
    if is_object or typing.is_typeddict(kind) or _is_model(kind):
        return "object"
    return ANY


def _is_model(kind: type) -> bool:
    """Whether it is a model of pydantic or msgspec, which need not be installed."""
    return any(
        each.__module__.partition(".")[0] in ("pydantic", "msgspec") for each in kind.__mro__
    )


def _union(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(part for name in names for part in name.split("|")))
    return ANY if ANY in found or not found else "|".join(found)


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(function))
    except Exception:  # noqa: BLE001 - a name that is not there at run time: its type is any
        return {}


def _place_of(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    path = os.path.relpath(code.co_filename)
    return "" if path.startswith("..") else f"{path}:{code.co_firstlineno}"
