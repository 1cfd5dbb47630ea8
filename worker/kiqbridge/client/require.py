"""Loading the code that declares jobs: what `-r` takes (dotted module, package, file, directory)."""

import importlib
import importlib.util
import itertools
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from kiqbridge.errors import ConfigError

_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_IMPORTLIB = Path(importlib.__file__).parent
_FRAMES = 10
"""The last ones are shown."""

_later: list[Callable[[], object]] = []


def after_loading(load: Callable[[], object]) -> None:
    """Call this once `load_all` has imported a target: for what imports modules that import the caller's."""
    _later.append(load)


def load_all(targets: tuple[str, ...]) -> None:
    """Import each target; the current directory is first on the path.

    Raises:
        ConfigError: there is no such thing, or importing it failed; the cause says where.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    for target in targets:
        try:
            _load(target)
            while _later:
                _later.pop(0)()
        except ConfigError as error:  # also of a declaration in what is being imported
            place = _place_of(error)
            if not place:
                raise
            raise ConfigError(f"-r {target}: {error}{place}") from error
        except (Exception, SystemExit) as error:
            text = traceback.format_exception_only(error)[-1].strip()
            if isinstance(error, SystemExit):
                text = f"it ended the program by sys.exit({error.code!r})"
            from kiqbridge.client.import_hints import hint_after  # noqa: PLC0415 - only after an error

            hint = hint_after(error)
            raise ConfigError(
                f"-r {target}: importing it failed: {text}{_place_of(error)}{hint and chr(10)}{hint}"
            ) from error


def _place_of(error: BaseException) -> str:
    """Lines with file, line and source of what was being imported, without our own frames."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_OURS, "<frozen "))
        and Path(frame.filename).parent != _IMPORTLIB
    ]
    lines = traceback.format_list(frames[-_FRAMES:])
    if isinstance(error, SyntaxError):  # which names its own place
        lines += traceback.format_exception_only(error)[:-1]
    text = "".join(lines).rstrip()
    return f"\n{text}" if text else ""


def _load(target: str) -> None:
    path = Path(target)
    if path.is_dir() and (target.startswith(".") or "/" in target or not _is_module(target)):
        _load_directory(path)
    elif path.suffix == ".py":
        if not path.is_file():
            raise ConfigError(f"-r {target}: there is no such file{_near(target)}")
        _load_file(path)
    elif _is_module(target):
        _load_module(target)
    else:
        raise ConfigError(
            f"-r {target}: there is no such file or directory, and no module of this name on the path; "
            f"write a dotted module, a .py file or a directory{_near(target)}"
        )


def _near(target: str) -> str:
    from kiqbridge.client.import_hints import near_targets  # noqa: PLC0415 - only after an error

    return near_targets(target)


def _is_module(name: str) -> bool:
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return False
    # A plain folder is found as a namespace package; its files are loaded as a directory instead.
    return spec is not None and spec.origin is not None


def _load_module(name: str) -> None:
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
        importlib.import_module(found.name)


def _load_directory(folder: Path) -> None:
    """Each file of a folder; one that is a package is imported as such."""
    if (folder / "__init__.py").is_file():
        parent = str(folder.resolve().parent)
        if parent not in sys.path:
            sys.path.insert(0, parent)
        _load_module(folder.resolve().name)
        return
    files = sorted(folder.glob("*.py"))
    if not files:
        raise ConfigError(f"-r {folder}: there is no .py file in this directory")
    for file in files:
        _load_file(file)


def _load_file(path: Path) -> ModuleType:
    """A file under its own name, with its folder on the path so that siblings import each other."""
    path = path.resolve()
    name = path.stem
    # When another module has this name, this one is not put in its place.
    for number in itertools.count(2):
        loaded = sys.modules.get(name)
        if loaded is None:
            break
        if getattr(loaded, "__file__", None) == str(path):
            return loaded
        name = f"{path.stem}_{number}"
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"-r {path}: cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
