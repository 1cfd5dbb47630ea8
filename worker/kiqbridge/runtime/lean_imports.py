"""Loads a package without its front and without what its modules import but do not use here.

`from package.module import …` runs the front of the package first, `package/__init__.py`, which imports all the rest.
`load` imports the modules that are used without it.

Code that imports the package later, such as a job, gets the whole library as it is documented: the front is run then,
in the same module, and finds the modules that are loaded. Other threads that import it meanwhile wait for the
interpreter's import lock, as always. If a version of the package needs its front for these modules, it is run at once.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import FrameType, ModuleType
from typing import Any, Final, Union

_OF_A_FUNCTION: Final = 1
"""`inspect.CO_OPTIMIZED`: code that is neither a module's nor a class's own."""


def load(package: str, used: Sequence[str], late: Sequence[str] = ()) -> ModuleType:
    """The package with the modules that are used; the whole one if somebody has imported it already.

    Args:
        package: its name.
        used: its modules, without the name of the package.
        late: modules of others that the used ones import. Each is loaded when it is used: by the package,
            by anybody else, or by the front of the package. One that is not installed is left alone.

    Raises:
        ImportError: the package cannot be imported at all.
    """
    if (found := sys.modules.get(package)) is not None:
        return found
    sys.meta_path.insert(0, _Finder(package, used, late))
    try:
        found = importlib.import_module(package)
    except Exception:  # noqa: BLE001 - another version, which does with them what cannot be put off
        return importlib.import_module(package)
    if isinstance(found, _WithoutFront):
        del sys.modules[package]
    return found


class _WithoutFront(ModuleType):
    """The package as long as its front has not run; who has it by then finds the names of the front as well."""

    is_loading = True

    def __getattr__(self, name: str) -> object:
        if self.is_loading:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} yet")
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


class _Finder:
    """Finds the package first without its front, then with it; both times it makes the same module."""

    # `importlib.abc`, which has a base class for it, loads 20 modules.

    def __init__(self, package: str, used: Sequence[str], late: Sequence[str]) -> None:
        self._package = package
        self._used = used
        self._late = _LateModules(package, late)
        self._made: _WithoutFront | None = None
        self._real: Any = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == self._package else None
        if spec is not None and spec.loader is not None:
            self._real, spec.loader = spec.loader, self  # type: ignore[assignment]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._made or _WithoutFront(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if self._made is None and isinstance(module, _WithoutFront):
            self._made = module
            try:
                self._late.begin()
                for name in self._used:
                    importlib.import_module(f"{self._package}.{name}")
            finally:
                self._late.end()
            module.is_loading = False
            return
        sys.meta_path.remove(self)
        vars(module).pop("is_loading", None)
        module.__class__ = ModuleType
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._late.load()
        self._real.exec_module(module)


class _LateModules:
    """Modules that others stand for, from `begin` to `end`, for code that imports them meanwhile."""

    def __init__(self, package: str, names: Sequence[str]) -> None:
        self._within = f"{package}."
        self._names = names
        self._stand_ins: list[_Late] = []
        self._is_over = False

    def begin(self) -> None:
        for name in self._names:
            if name not in sys.modules and _is_installed(name):
                self._stand_ins.append(_Late(name, self))
                sys.modules[name] = self._stand_ins[-1]

    def end(self) -> None:
        self._is_over = True
        for each in self._stand_ins:
            each.make_way()

    def load(self) -> None:
        """Put all of them in the place of their stand-ins."""
        for late in self._stand_ins:
            self.put(late)

    def put(self, late: "_Late") -> None:
        """Put a module, and what was taken from it, where something stands for it in the package."""
        modules = [each for name, each in [*sys.modules.items()] if name.startswith(self._within)]
        stand_ins = {id(late): "", **{id(each): name for name, each in late.taken.items()}}

        def real(value: Any) -> Any:
            if (name := stand_ins.get(id(value))) is not None:
                return late.real(name)
            if type(value) is tuple and any(id(each) in stand_ins for each in value):
                return tuple(each for each in map(real, value) if each is not None)
            if type(value) is dict:
                for key in [each for each in value if id(each) in stand_ins]:
                    value[real(key)] = value.pop(key)
            return value

        for names in map(vars, modules):
            for name, value in [*names.items()]:
                if not name.startswith("__") and (found := real(value)) is not value:
                    names[name] = found

    def is_awaited_by(self, frame: FrameType) -> bool:
        """Whether a module of the package is being loaded, and what it takes there can come later."""
        return (
            not self._is_over
            and not frame.f_code.co_flags & _OF_A_FUNCTION  # which is called now
            and str(frame.f_globals.get("__name__")).startswith(self._within)
        )


class _Late(ModuleType):
    """Stands for a module until something of it is used; code that got it meanwhile can use it for good.

    A module of the package that takes a name while it is loaded, for an annotation, for an `except`, or for a function
    that is not called here, gets a `_Reference` to it, or an error that is never raised. The first use in a function of
    the package puts the real things everywhere in it.
    """

    def __init__(self, name: str, modules: _LateModules) -> None:
        super().__init__(name)
        self._modules = modules
        self._is_put = False
        self.taken: dict[str, object] = {}

    def __getattr__(self, name: str) -> object:
        if self._modules.is_awaited_by(sys._getframe(1)):  # noqa: SLF001 - as `typing` does
            if name.startswith("__"):
                raise AttributeError(name)
            found = f"__import__({self.__name__!r}, fromlist=[{name!r}]).{name}"
            is_error = name.endswith("Error")
            return self.taken.setdefault(name, _error(name) if is_error else _Reference(found))
        self.make_way()
        if not self._is_put:
            self._is_put = True
            self._modules.put(self)
        return getattr(importlib.import_module(self.__name__), name)

    def make_way(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]

    def real(self, name: str) -> object:
        """The module, or what it has of this name; None where it cannot be imported, as those write who do without."""
        try:
            module = importlib.import_module(self.__name__)
        except ImportError:
            return None
        return getattr(module, name) if name else module


class _Reference(str):
    """A name of such a module as an annotation in text, which `typing` resolves; who derives from it fails at once."""

    __slots__ = ()

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007 - which this is for

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007 - as above


def _error(name: str) -> type[Exception]:
    """A class for `except`, which is never raised; a class that derives from it fails at once."""

    def refuse(_cls: type, /, **_more: object) -> None:
        raise TypeError(name)

    return type(name, (Exception,), {"__init_subclass__": classmethod(refuse)})


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # not even what it is in
        return False
