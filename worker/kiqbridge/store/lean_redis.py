"""redis-py without what nobody here uses: its front loads an asyncio side, clusters and all commands.

Of redis-py we use connections and errors. `from redis.connection import …` runs the front of the package first,
`redis/__init__.py`, which imports all the rest. This module imports what we use without the front.

Our modules take `redis` from here and name submodules (`redis.exceptions.RedisError`). Whoever imports `redis` later,
such as a job, gets the whole library as it is documented: the front is run then, in the same module, and finds the
modules that are loaded. Other threads that import it meanwhile wait for the interpreter's import lock, as always. If a
version of redis-py needs its front for these modules, it is run at once.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Final

USED: Final = ("connection", "credentials", "exceptions", "retry", "backoff")

_PACKAGE: Final = "redis"


class _WithoutFront(ModuleType):
    """The package as long as its front has not run; who has it by then finds the names of the front as well."""

    is_loading = True

    def __getattr__(self, name: str) -> object:
        if self.is_loading:
            raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r} yet")
        if sys.modules.get(_PACKAGE) is self:
            del sys.modules[_PACKAGE]
        return getattr(importlib.import_module(_PACKAGE), name)


class _Finder(MetaPathFinder, Loader):
    """Finds the package first without its front, then with it; both times it makes the same module."""

    package: _WithoutFront | None = None
    real: Loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == _PACKAGE else None
        if spec is not None and spec.loader is not None:
            self.real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.package or _WithoutFront(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        if self.package is None and isinstance(module, _WithoutFront):
            self.package = module
            for name in USED:
                importlib.import_module(f"{_PACKAGE}.{name}")
            module.is_loading = False
            return
        sys.meta_path.remove(self)
        vars(module).pop("is_loading", None)
        module.__class__ = ModuleType
        module.__loader__ = self.real
        if module.__spec__ is not None:
            module.__spec__.loader = self.real
        self.real.exec_module(module)


def _load() -> ModuleType:
    """The package with what is used of it; the whole one if somebody has imported it already.

    Raises:
        ImportError: redis-py cannot be imported at all.
    """
    if (found := sys.modules.get(_PACKAGE)) is not None:
        return found
    sys.meta_path.insert(0, _Finder())
    try:
        found = importlib.import_module(_PACKAGE)
    except (ImportError, AttributeError):  # another version
        return importlib.import_module(_PACKAGE)
    if isinstance(found, _WithoutFront):
        del sys.modules[_PACKAGE]
    return found


if TYPE_CHECKING:
    import redis
else:
    redis = _load()

__all__ = ("redis",)
