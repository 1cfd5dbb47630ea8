"""Loads a package without its front and without what its modules import but do not use here.

`from package.module import …` runs the front of the package first, `package/__init__.py`, which imports all the rest.
`load` imports the modules that are used without it.

Whoever imports the package later, such as a job, gets the whole library as it is documented: the front is run then,
in the same module, and finds the modules that are loaded. Other threads that import it meanwhile wait for the
interpreter's import lock, as always. If a version of the package needs its front for these modules, it is run at once.
"""

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


def load(package: str, used: Sequence[str], late: Sequence[str] = ()) -> ModuleType:
    """The package with the modules that are used; the whole one if somebody has imported it already.

    Args:
        package: its name.
        used: its modules, without the name of the package.
        late: modules that the used ones import, and that are loaded when something of them is first asked for.

    Raises:
        ImportError: the package cannot be imported at all.
    """
    if (found := sys.modules.get(package)) is not None:
        return found
    sys.meta_path.insert(0, _Finder(package, used, late))
    try:
        found = importlib.import_module(package)
    except (ImportError, AttributeError):  # another version
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
        self._late = late
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
            with _loaded_late(self._late):
                for name in self._used:
                    importlib.import_module(f"{self._package}.{name}")
            module.is_loading = False
            return
        sys.meta_path.remove(self)
        vars(module).pop("is_loading", None)
        module.__class__ = ModuleType
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)


class _Late(ModuleType):
    """Stands for a module until something of it is asked for; whoever got it meanwhile can use it for good."""

    def __getattr__(self, name: str) -> object:
        _forget(self)
        return getattr(importlib.import_module(self.__name__), name)


@contextlib.contextmanager
def _loaded_late(names: Sequence[str]) -> Iterator[None]:
    stand_ins = [_Late(name) for name in names if name not in sys.modules]
    sys.modules.update({each.__name__: each for each in stand_ins})
    try:
        yield
    finally:
        for each in stand_ins:
            _forget(each)


def _forget(stand_in: _Late) -> None:
    if sys.modules.get(stand_in.__name__) is stand_in:
        del sys.modules[stand_in.__name__]
