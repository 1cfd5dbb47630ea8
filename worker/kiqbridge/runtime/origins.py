"""Whose code a file holds: a user's, ours, the standard library's, or that of an installed package.

Users' own code is what lies neither in the standard library nor among installed packages, and the
packages that declare jobs, wherever they are installed (`trust`).
"""

import os
import sys
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache


class Origin(Enum):
    """Whose code a file is."""

    USER = "user"
    OURS = "ours"
    LOGGING = "logging"
    LOCKING = "locking"
    """It takes locks that the whole process shares: modules of the standard library, the Redis client."""
    LIBRARY = "library"


OURS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")  # noqa: PTH118, PTH120, PTH100 - compared as texts
_STANDARD = os.path.join(os.path.dirname(os.__file__), "")  # noqa: PTH118, PTH120 - as above
_OF_LOGGING = os.path.join(OURS, "runtime", "logs", "handler_guard.py")  # noqa: PTH118 - as above
"""What a worker puts in the place of two methods of `logging.Logger`."""
_FROZEN = "<frozen "
_INSTALLED = ("/site-packages/", "/dist-packages/")

_LOCKING = frozenset(
    """
    logging threading queue importlib concurrent weakref _weakrefset contextlib functools
    multiprocessing tempfile linecache traceback warnings zipimport runpy _pydatetime
    _strptime sched socketserver dummy_threading _threading_local atexit signal
    """.split()  # noqa: SIM905 - one word a place
)
"""Modules of the standard library that hold locks, or run inside of those that do."""

_LOCKING_PACKAGES = frozenset({"redis", "hiredis", "valkey"})

_homes: set[str] = set()
"""Installed packages, or single modules, that declare jobs: users' own code, wherever they lie."""


def trust(names: Iterable[str]) -> None:
    """Count the packages of these dotted names, which are those of jobs, as users' own code."""
    for name in names:
        home = _home_of(name)
        if home is not None and home not in _homes:
            _homes.add(home)
            origin_of.cache_clear()


def _home_of(name: str) -> str | None:
    """The folder of the outermost package in a dotted name, or the file of a single module."""
    parts = name.split(".")
    if parts[0] == __name__.partition(".")[0]:
        return None
    for count in range(1, len(parts) + 1):
        file = getattr(sys.modules.get(".".join(parts[:count])), "__file__", None)
        if file is not None:
            folder, _, base = file.rpartition("/")
            return f"{folder}/" if base == "__init__.py" else str(file)
    return None


@lru_cache(maxsize=10_000)
def origin_of(file_name: str) -> Origin:
    """Whose code a file is; code without a file (`<string>`) counts as a library's."""
    if file_name.startswith(OURS):
        return Origin.LOGGING if file_name == _OF_LOGGING else Origin.OURS
    if any(file_name.startswith(home) for home in _homes):
        return Origin.USER
    for folder in _INSTALLED:
        if folder in file_name:
            top = file_name.rpartition(folder)[2].partition("/")[0]
            return Origin.LOCKING if top in _LOCKING_PACKAGES else Origin.LIBRARY
    module = standard_module(file_name)
    if module == "logging":
        return Origin.LOGGING
    if module:
        return Origin.LOCKING if module in _LOCKING else Origin.LIBRARY
    return Origin.LIBRARY if is_generated(file_name) else Origin.USER


def is_generated(file_name: str) -> bool:
    """Whether code was compiled from a text and has no file, such as `<string>`."""
    return file_name.startswith("<") and not file_name.startswith(_FROZEN)


def standard_module(file_name: str) -> str:
    """The outermost module of the standard library that a file belongs to, or ""."""
    if file_name.startswith(_STANDARD):
        path = file_name[len(_STANDARD) :]
    elif file_name.startswith(_FROZEN):
        path = file_name[len(_FROZEN) : -1].replace(".", "/")
    else:
        return ""
    return path.partition("/")[0].removesuffix(".py")
