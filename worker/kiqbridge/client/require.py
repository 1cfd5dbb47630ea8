"""Loading the code that declares jobs: what `-r` takes (dotted module, package, file, directory)."""

import importlib
import importlib.util
import itertools
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

from kiqbridge.errors import ConfigError

_OURS = f"{Path(__file__).parents[1]}{os.sep}"
_IMPORTLIB = Path(importlib.__file__).parent
_MISSING_NAME = re.compile(r"cannot import name '([^']+)'")
_FRAMES = 10
"""The last ones are shown."""

_later: list[Callable[[], object]] = []


def after_loading(load: Callable[[], object]) -> None:
    """Call this once `load_all` has imported a target: for what imports modules that import the caller's."""
    _later.append(load)


def load_all(targets: tuple[str, ...]) -> None:
    """Import each target; the current directory is first on the path, and what lies in it counts first.

    Raises:
        ConfigError: there is no such thing, or importing it failed; the cause says where.
    """
    here = str(Path.cwd())
    if sys.path[:1] not in ([here], [""]):  # further behind, an installed module would come first
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
            hint = _hint_after(error)
            raise ConfigError(
                f"-r {target}: importing it failed: {text}{_place_of(error)}{hint and chr(10)}{hint}"
            ) from error


def resolved(targets: tuple[str, ...]) -> tuple[str, ...]:
    """Files and folders by their real paths: they stay these when a link such as `current` is turned."""
    return tuple(
        str(Path(target).resolve()) if "/" in target or Path(target).suffix == ".py" else target
        for target in targets
    )


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
    is_said = target.startswith(".") or "/" in target
    if path.is_dir() and (is_said or _holds_code(path) or not _is_module(target)):
        # Each file of a folder; one that is a package is imported as such.
        if (path / "__init__.py").is_file():
            parent = str(path.resolve().parent)
            if parent not in sys.path:
                sys.path.insert(0, parent)
            _load_module(path.resolve().name, path)
            return
        files = sorted(path.glob("*.py"))
        if not files:
            raise ConfigError(f"-r {path}: there is no .py file in this directory")
        for file in files:
            _load_file(file)
    elif path.suffix == ".py":
        if not path.is_file():
            raise ConfigError(f"-r {target}: there is no such file{_near_targets(target)}")
        _load_file(path)
    elif _is_module(target):
        beside = Path(f"{target}.py")
        spec = _find_spec(target)
        if beside.is_file() and spec is not None and not _is_same(beside, spec.origin):
            _load_file(beside)  # such as ./queue.py, which Python's own module of this name hides
        else:
            _load_module(target)
    else:
        raise ConfigError(
            f"-r {target}: there is no such file or directory, and no module of this name on the path; "
            f"write a dotted module, a .py file or a directory{_near_targets(target)}"
        )


def _is_module(name: str) -> bool:
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return False
    # A plain folder is found as a namespace package; its files are loaded as a directory instead.
    return spec is not None and spec.origin is not None


def _load_module(name: str, folder: Path | None = None) -> None:
    """A module with all that is in it; `folder`: the package that it is to be."""
    module = importlib.import_module(name)
    if folder and not any(_is_same(folder, each) for each in getattr(module, "__path__", ())):
        raise ConfigError(
            f"-r {folder}: a module {name} is loaded already, {getattr(module, '__file__', None) or 'of Python'}, so "
            "that the package in this folder cannot be imported; give the folder another name"
        )
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
        importlib.import_module(found.name)


def _is_same(path: Path, place: str | None) -> bool:
    """Whether a module's place is this file or folder; `place` may be a word such as `built-in`."""
    return place is not None and os.path.exists(place) and path.samefile(place)  # noqa: PTH110 - most are texts


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


def _hint_after(error: BaseException) -> str:
    """A sentence for an error of an import statement; "" if there is nothing to add."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        near = _did_you_mean(error.name, _modules_beside(error.name))
        top = error.name.partition(".")[0]
        if top != error.name and _find_spec(top) is not None:
            return f"the package {top} has no such module{near}"
        return (
            f"{top} is not on the path of {sys.executable}{near or '.'} An installed package: pip install it there. "
            f"Code of your own: start in the directory that holds it; the current one is {Path.cwd()}"
        )
    if isinstance(error, ImportError) and error.name:
        missing = _MISSING_NAME.search(str(error))
        module = sys.modules.get(error.name)
        if missing is not None and module is not None and "Did you mean" not in str(error):
            return _did_you_mean(missing[1], vars(module)).removeprefix("; ")
    return ""


def _near_targets(target: str) -> str:
    """The end of a sentence about a `-r` that leads nowhere: what it might mean, and where it was looked for."""
    if "/" in target or target.endswith(".py"):
        folder, name = Path(target).parent, Path(target).name
        if folder.is_dir():
            beside = folder.iterdir()
            known = [each.name for each in beside if each.suffix == ".py" or _holds_code(each)]
            near = _did_you_mean(name, known, f"{folder}/" if folder != Path() else "")
        else:
            known = [str(each / name) for each in _folders() if (each / name).exists()]
            near = _did_you_mean(target.rstrip("/"), known)
    else:
        near = _did_you_mean(target, _modules_beside(target))
    return f"{near or '.'} The current directory is {Path.cwd()}"


def _modules_beside(name: str) -> list[str]:
    """Modules that can be imported where the first missing part of a dotted name was looked for."""
    package, path = "", None
    parts = name.split(".")
    for count in range(1, len(parts)):
        spec = _find_spec(".".join(parts[:count]))
        if spec is None or spec.submodule_search_locations is None:
            break
        package, path = f"{'.'.join(parts[:count])}.", list(spec.submodule_search_locations)
    found = [f"{package}{each.name}" for each in pkgutil.iter_modules(path)]
    if path is None:
        found += [str(folder) for folder in _folders()]
    return found


def _find_spec(name: str) -> "importlib.machinery.ModuleSpec | None":
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None


def _folders() -> list[Path]:
    here = Path()
    return [each for each in here.iterdir() if _holds_code(each)]


def _holds_code(folder: Path) -> bool:
    return folder.is_dir() and any(folder.glob("*.py"))


def _did_you_mean(name: str, known: Iterable[str], before: str = "") -> str:
    import difflib  # noqa: PLC0415 - few names are wrong

    near = difflib.get_close_matches(name, sorted(set(known)), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(before + each for each in near)}?" if near else ""
