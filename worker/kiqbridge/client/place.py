"""Where a job is declared, and whether two declarations are the same one, run again.

The same declaration runs again when its module is loaded anew (`importlib.reload`, IPython's autoreload), when
a cell of a notebook or a line of an interactive shell is run again, when `exec` or `%run` runs its file again,
and when `python -m app.jobs` is imported once more under its own name.
"""

import inspect
import os
import sys
from typing import Any

from kiqbridge.records import dataclass
from kiqbridge.runtime.origins import is_generated

_MAIN = "__main__"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """Where a function or class is declared.

    Attributes:
        module: its dotted name.
        qualname: of the function or class in it.
        file: as compiled; "" = unknown. Such as `<stdin>` when it has none.
        line: from 1; 0 = unknown.
        scope: of this run of the module: its spec, or its namespace where it has no spec.
        is_class: whether it is a class.
    """

    module: str
    qualname: str
    file: str = ""
    line: int = 0
    scope: object = None
    is_class: bool = False

    def __str__(self) -> str:
        name = f"{self.module}.{self.qualname}"
        if not self.file or is_generated(self.file):
            return name
        inside = f"{os.getcwd()}{os.sep}"  # noqa: PTH109 - compared as texts
        shown = self.file.removeprefix(inside)
        return f"{name} ({shown}:{self.line})" if self.line else f"{name} ({shown})"

    def is_run_again_by(self, other: "Place") -> bool:
        """Whether `other` is this declaration, run again; the later one counts then."""
        if self.qualname != other.qualname:
            return False
        is_same_line = bool(self.line) and (self.file, self.line) == (other.file, other.line)
        if self.module != other.module:
            # The file is the program itself, and imported as well.
            return is_same_line and _MAIN in (self.module, other.module)
        if self.scope is not other.scope or is_generated(other.file):
            return True
        if other.module != _MAIN:
            return False
        # A cell of a notebook has the name of a file that is not there.
        return is_same_line or bool(other.file and not os.path.exists(other.file))  # noqa: PTH110 - as above

    def is_loaded_twice_as(self, other: "Place") -> bool:
        """Whether both are one function of one file, imported under two names of modules."""
        return (
            self.module != other.module
            and bool(self.line)
            and (self.file, self.line, self.qualname) == (other.file, other.line, other.qualname)
        )


def place_of(declared: Any) -> Place:
    """Where a function or class is declared."""
    module = sys.modules.get(declared.__module__)
    spec = getattr(module, "__spec__", None)
    is_class = isinstance(declared, type)
    if is_class:
        own = [each for each in vars(declared).values() if inspect.isfunction(each)]
        code = own[0].__code__ if own else None
        line = vars(declared).get("__firstlineno__", 0)  # from Python 3.13
        scope = own[0].__globals__ if own else None
    else:
        function = inspect.unwrap(declared)
        code = getattr(function, "__code__", None)
        line = 0
        scope = getattr(function, "__globals__", None)
    return Place(
        module=declared.__module__,
        qualname=declared.__qualname__,
        file=code.co_filename if code is not None else getattr(module, "__file__", None) or "",
        line=line or (code.co_firstlineno if code is not None else 0),
        scope=spec if spec is not None else scope,
        is_class=is_class,
    )


def twice(name: str, first: Place | None, second: Place | None) -> str:
    """What a declaration whose wire name is taken is refused with."""
    said = f"job {name!r} is declared twice: in {first} and in {second}; "
    if first is None or second is None:
        return f"{said}give one of them another name"
    if first.is_loaded_twice_as(second):
        return (
            f"{said}this is one file, loaded as the modules {first.module} and {second.module}: import it, "
            "and name it with -r, in one way only"
        )
    module = second.module.rpartition(".")[2].strip("_")
    if second.is_class:
        named = f'class_name = "{module.title().replace("_", "")}::{name}"'
    else:
        named = f'@job(name="{module}.{name}")'
    if second.qualname.rpartition(".")[2] != name:
        return f"{said}give one of them another name, such as {named}"
    return (
        f"{said}the wire name is that of the {'class' if second.is_class else 'function'} unless you give "
        f"another: write {named}, say, on one of them"
    )
