"""All that is to be edited in an application that moves here, listed when something of it is refused for the first time.

The sources are read, none is imported: those below the folder that holds the package whose line was refused. What is
found is a help; what counts is what is refused when it runs.
"""

import ast
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from kiqbridge.compat.celery.conf import Conf
from kiqbridge.compat.celery.options import (
    IMPLIED,
    INSTEAD,
    OF_REQUEST,
    OF_TASK,
    SENT,
    check_call,
    check_task,
)
from kiqbridge.errors import ConfigError, PayloadError

OURS: Final = "kiqbridge.compat.celery"
_PACKAGE: Final = f"{Path(__file__).parents[2]}{os.sep}"
_WORDS: Final = (b"celery", b"apply_async", b"shared_task", b".s(")
_MOST_FILES: Final = 3_000
_INSTALLED: Final = ("site-packages", "dist-packages")
_MOST_LINES: Final = 100

_MODULES: Final[Mapping[str, str]] = {
    "schedules": "write @app.task(cron=…), see docs/how_to/celery.md#beat",
    "signals": "use server.on of kiqbridge: startup, shutdown, and so on; around each job server.middleware",
    "canvas": "import chain, group, chord and signature from kiqbridge.compat.celery",
    "contrib": "see kiqbridge.contrib and kiqbridge.testing",
    "states": "the states are texts: SUCCESS, FAILURE, REVOKED, PENDING",
}
"""Modules of Celery's that are missing, and what to write."""

_OF_APPLICATION: Final = ("main", "broker", "backend", "include", "task_always_eager")
_OF_CONTROL: Final = (
    "use kiqbridge on the command line, the page, or kiqbridge.api (docs/reference/api.md)"
)

_is_listing: ContextVar[bool] = ContextVar("kiqbridge_celery_listing", default=False)
"""Whether sources are being read here: what that meets is refused without a list of its own."""


def listed(fault: str) -> str:
    """What was refused, and behind it all lines of the application that are to be edited; the fault alone, if it is all."""
    if _is_listing.get() or (root := _root()) is None:
        return fault
    token = _is_listing.set(True)
    try:
        found = list(_edits_below(root))
    finally:
        _is_listing.reset(token)
    if len(found) < 2:  # noqa: PLR2004 - the fault itself
        return fault
    shown = "".join(f"\n  {each}" for each in found[:_MOST_LINES])
    more = f"\n  and {len(found) - _MOST_LINES} more" if len(found) > _MOST_LINES else ""
    return f"{fault}\n{len(found)} lines are to be edited (docs/how_to/celery.md):{shown}{more}"


def check_body(function: Callable[..., Any], name: str) -> None:
    """Refuse a bound task whose body uses what is missing here.

    Raises:
        ConfigError: names the first attribute, its line, and what to write.
    """
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(function))
        tree = _parsed(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return  # a shell, or a function that was made: what is missing raises when it is used
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for line, fault in _faults_of_body(node):
                raise ConfigError(f"task {name}, line {first + line - 1}: {fault}")
            return


class Missing:
    """The last finder of modules: names what is to be written in the place of a module of Celery's."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        """Refuse a module below ours that is not there; others are none of its business.

        Raises:
            ModuleNotFoundError: with the list.
        """
        if name.startswith(f"{OURS}."):
            raise ModuleNotFoundError(listed(_fault_of_module(name)), name=name)


def _root() -> Path | None:
    """The folder of the application whose line is running: that above its topmost package."""
    frame = sys._getframe(1)  # noqa: SLF001 - as inspect.stack, without reading the sources
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_PACKAGE, "<")) and f"{os.sep}importlib{os.sep}" not in file:
            folder, package = Path(file).resolve().parent, None
            while (folder / "__init__.py").is_file():
                folder, package = folder.parent, folder
            if folder.name in _INSTALLED:  # installed packages are not edited
                return package
            return folder if folder.parent != folder else None
        frame = frame.f_back  # type: ignore[assignment] # None at the end
    return None


def _edits_below(root: Path) -> Iterator[str]:
    for file in _sources(root):
        try:
            text = file.read_bytes()
            tree = _parsed(text) if any(word in text for word in _WORDS) else None
        except (OSError, SyntaxError, ValueError):
            continue
        if tree is not None:
            where = file.relative_to(root)
            faults = sorted(
                {(line, fault) for node in ast.walk(tree) for line, fault in _faults(node)}
            )
            yield from (f"{where}:{line}: {fault}" for line, fault in faults)


def _parsed(text: str | bytes) -> ast.Module:
    try:
        return ast.parse(text)
    except (
        SystemError
    ):  # before Python 3.11.8, if a finalizer parsed something meanwhile (gh-106905)
        return ast.parse(text)


def _sources(root: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            each
            for each in folders
            if not each.startswith((".", "__"))
            and each not in ("node_modules", *_INSTALLED)
            and not Path(folder, each, "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            if name.endswith(".py"):
                count += 1
                if count > _MOST_FILES:
                    return
                yield Path(folder, name)


def _faults(node: ast.AST) -> Iterator[tuple[int, str]]:
    """What is to be edited at this node itself: line and fault."""
    if isinstance(node, ast.ImportFrom | ast.Import):
        yield from ((node.lineno, fault) for fault in _faults_of_import(node))
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _faults_of_task(node)
    elif isinstance(node, ast.Call):
        yield from _faults_of_call(node)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and _last(target.value) == "conf":
                yield from _caught(node.lineno, target.attr, _value(node.value), _check_setting)
    elif isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("app.control"):
        yield from _faults_of_control(node)


def _faults_of_control(node: ast.Attribute) -> Iterator[tuple[int, str]]:
    if node.attr != "revoke":
        yield node.lineno, f"control.{node.attr} has no counterpart here: {_OF_CONTROL}"


def _faults_of_task(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[int, str]]:
    for each in node.decorator_list:
        if isinstance(each, ast.Call) and _last(each.func) in ("task", "shared_task"):
            yield from _faults_of_options(each, partial(_check_options, node.name))
            if _literal(each, "bind") is True:
                yield from _faults_of_body(node)


def _faults_of_call(node: ast.Call) -> Iterator[tuple[int, str]]:
    name = _last(node.func)
    holder = _last(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    if name in ("apply_async", "send_task") or (name == "set" and holder in ("s", "si")):
        yield from _faults_of_options(node, _check_known)
    elif name == "Celery" or (name == "update" and holder == "conf"):
        yield from _faults_of_options(node, _check_setting)


def _check_options(task: str, options: Mapping[str, Any]) -> None:
    check_task(task, {name: value for name, value in options.items() if name != "name"})


def _check_known(options: Mapping[str, Any]) -> None:
    """Options of what may be a call of something else."""
    check_call("", {name: value for name, value in options.items() if name in INSTEAD})


def _check_setting(settings: Mapping[str, Any]) -> None:
    Conf().update({name: value for name, value in settings.items() if name not in _OF_APPLICATION})


def _faults_of_import(node: ast.ImportFrom | ast.Import) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for each in node.names:
            if each.name == "celery" or each.name.startswith("celery."):
                yield f"import {each.name}: write {OURS}"
        return
    module = node.module or ""
    if node.level or not (module == "celery" or module.startswith(("celery.", OURS))):
        return
    home = OURS + module.removeprefix(OURS).removeprefix("celery")
    if module != home:
        yield f"from {module} import …: write from {home} import …"
    try:
        found = import_module(home)
    except ImportError:
        yield _fault_of_module(home)
        return
    for each in node.names:
        if each.name != "*" and not hasattr(found, each.name):
            yield _fault_of_module(f"{home}.{each.name}")


def _fault_of_module(name: str) -> str:
    place = name.removeprefix(f"{OURS}.")
    hint = _MODULES.get(place.partition(".")[0], "see docs/how_to/celery.md")
    return f"celery's {place} has no counterpart here: {hint}"


def _faults_of_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[int, str]]:
    """Attributes of a bound task and of its request that are missing."""
    if not function.args.posonlyargs + function.args.args:
        return
    me = (function.args.posonlyargs + function.args.args)[0].arg
    for node in ast.walk(function):
        if not isinstance(node, ast.Attribute):
            continue
        holder = ast.unparse(node.value)
        if holder == me and node.attr in OF_TASK:
            yield node.lineno, f"{me}.{node.attr} has no counterpart here: {OF_TASK[node.attr]}"
        elif holder == f"{me}.request" and node.attr in OF_REQUEST:
            yield node.lineno, f"{me}.request.{node.attr} has no counterpart here: {OF_REQUEST[node.attr]}"  # fmt: skip


def _faults_of_options(
    call: ast.Call, check: Callable[[dict[str, Any]], object]
) -> Iterator[tuple[int, str]]:
    for each in call.keywords:
        if each.arg is not None and each.arg not in SENT:
            yield from _caught(each.value.lineno, each.arg, _value(each.value), check)


def _caught(
    line: int, name: str, value: Any, check: Callable[[dict[str, Any]], object]
) -> Iterator[tuple[int, str]]:
    if isinstance(value, _Unknown) and (name in IMPLIED or name not in INSTEAD):
        return
    try:
        check({name: value})
    except (ConfigError, PayloadError) as error:
        yield line, str(error).removeprefix(": ")
    except Exception:  # noqa: BLE001 - of a value that only the running application has
        return


class _Unknown:
    """A value that is computed."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _value(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        text = ast.unparse(node)
        return _Unknown(text if len(text) < 40 else f"{text[:40]}…")  # noqa: PLR2004 - one line


def _literal(call: ast.Call, name: str) -> Any:
    return next((_value(each.value) for each in call.keywords if each.arg == name), None)


def _last(node: ast.expr) -> str:
    """The last name of `app.conf`, `conf` or `task.s(…)`."""
    if isinstance(node, ast.Call):
        return _last(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def install() -> None:
    """Let a missing module say what to write in its place."""
    if not any(isinstance(each, Missing) for each in sys.meta_path):
        finders: Sequence[Any] = sys.meta_path
        sys.meta_path = [*finders, Missing()]
