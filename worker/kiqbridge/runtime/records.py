"""`dataclass` for the modules that a worker or a function loads at its start: made in a tenth of the time.

The standard library writes and compiles the text of up to six methods for each class, nearly a millisecond of it:
with a hundred classes that was a third of what loading our code took. Here `__init__` is compiled when it is first
looked up, as for an object or a signature, which for most classes is never; the others are plain functions over the
names of the fields.

Objects behave as those of the standard library, which still collects the fields and makes the slots:
`fields`, `replace`, `asdict`, `copy`, `pickle` and `match` work. They are compared as tuples, on each Python. Not supported: `InitVar`, `order`. A class
that inherits from another one with fields is made by the standard library.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:  # type checkers know what this one does
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
        eq: bool = True,
        repr: bool = True,  # noqa: A002 - the standard library's name
    ) -> Any:
        """Make a dataclass, as `dataclasses.dataclass` does, with the parameters that are used here.

        Raises:
            TypeError: of the standard library, when the fields cannot be those of a class.
        """

        def make(cls: type) -> type:
            if any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:]):
                return dataclasses.dataclass(
                    frozen=frozen, slots=slots, kw_only=kw_only, eq=eq, repr=repr
                )(cls)
            # Else it works out a signature for the text.
            cls.__doc__ = cls.__doc__ or cls.__name__
            bare = dataclasses.dataclass(
                init=False, repr=False, eq=False, slots=slots, kw_only=kw_only
            )
            made = bare(cls)
            _complete(made, frozen=frozen, slots=slots, eq=eq, repr_=repr)
            # What a class that inherits from this one is checked against.
            params = made.__dataclass_params__
            params.init, params.repr, params.eq, params.frozen = True, repr, eq, frozen
            return made

        return make if cls is None else make(cls)


def _complete(cls: Any, *, frozen: bool, slots: bool, eq: bool, repr_: bool) -> None:
    """Add the methods, except those that the class has itself."""
    names = [each.name for each in dataclasses.fields(cls) if each.compare]
    # As a tuple, which takes an object for equal to itself (NaN), as a list does.
    cls.__record_values__ = (
        attrgetter(*names)
        if len(names) > 1
        else lambda self: tuple([getattr(self, name) for name in names])
    )
    methods: dict[str, Any] = {"__init__": _LateInit(cls, frozen=frozen)}
    if repr_:
        methods["__repr__"] = _repr
    if eq:
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if frozen and slots:
        methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
    for name, method in methods.items():
        if vars(cls).get(name) is None:  # `__hash__` is, of a class with an `__eq__` of its own
            setattr(cls, name, method)


class _MadeHere:
    def __repr__(self) -> str:
        return "<factory>"  # as the standard library shows it in a signature


_MADE_HERE = _MadeHere()


class _LateInit:
    """An `__init__` in whose place the compiled one is put when somebody asks for it, such as for its signature."""

    __slots__ = ("_cls", "_frozen")

    def __init__(self, cls: type, *, frozen: bool) -> None:
        self._cls, self._frozen = cls, frozen

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        made = _compiled_init(self._cls, frozen=self._frozen)
        self._cls.__init__ = made  # type: ignore[misc]
        return made.__get__(instance, owner)


def _compiled_init(cls: type, *, frozen: bool) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": object.__setattr__, "_made_here": _MADE_HERE}
    positional, named, body = ["self"], list[str](), list[str]()
    has_slots = "__slots__" in vars(cls)
    for each in dataclasses.fields(cls):
        name = each.name
        value = name
        text = name
        if each.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = each.default_factory
            text = f"{name}=_made_here"
            value = f"_make_{name}()" + (
                f" if {name} is _made_here else {name}" if each.init else ""
            )
        elif each.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = each.default
            text = f"{name}=_default_{name}"
            value = name if each.init else f"_default_{name}"
        elif not each.init:
            continue  # its `__post_init__` sets it
        if each.init:
            (named if each.kw_only else positional).append(text)
        if not frozen:
            body.append(f"self.{name} = {value}")
        elif has_slots:  # in three quarters of the time
            known[f"_set_{name}"] = vars(cls)[name].__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *named] if named else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), known)  # noqa: S102 - names of fields alone
    made: Callable[..., None] = known["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    made.__annotations__ = {each.name: each.type for each in dataclasses.fields(cls) if each.init}
    made.__annotations__["return"] = None
    return made


@recursive_repr()
def _repr(self: Any) -> str:
    fields = [each.name for each in dataclasses.fields(self) if each.repr]
    shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in fields])
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    values = type(self).__record_values__
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(type(self).__record_values__(self))


def _refuse_set(self: Any, name: str, value: object) -> None:
    _check_added(type(self), name, "assign to")
    object.__setattr__(self, name, value)


def _refuse_delete(self: Any, name: str) -> None:
    _check_added(type(self), name, "delete")
    object.__delattr__(self, name)


def _check_added(kind: Any, name: str, what: str) -> None:
    """Refuse to change an object that is frozen, but for what a subclass adds to it."""
    if "__dataclass_fields__" in vars(kind) or name in kind.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")


# For `pickle` and `copy`, which would else set what is frozen.


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
