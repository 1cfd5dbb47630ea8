"""What to do when the code that declares jobs cannot be imported; loaded only then."""

import difflib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterable
from pathlib import Path

_MISSING_NAME = re.compile(r"cannot import name '([^']+)'")


def hint_after(error: BaseException) -> str:
    """A sentence for an error of an import statement; "" if there is nothing to add."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _hint_of_module(error.name)
    if isinstance(error, ImportError) and error.name:
        missing = _MISSING_NAME.search(str(error))
        module = sys.modules.get(error.name)
        if missing is not None and module is not None and "Did you mean" not in str(error):
            return _did_you_mean(missing[1], vars(module)).removeprefix("; ")
    return ""


def near_targets(target: str) -> str:
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


def _hint_of_module(name: str) -> str:
    near = _did_you_mean(name, _modules_beside(name))
    top = name.partition(".")[0]
    if top != name and _find_spec(top) is not None:
        return f"the package {top} has no such module{near}"
    return (
        f"{top} is not on the path of {sys.executable}{near or '.'} An installed package: pip install it there. "
        f"Code of your own: start in the directory that holds it; the current one is {Path.cwd()}"
    )


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
    near = difflib.get_close_matches(name, sorted(set(known)), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(before + each for each in near)}?" if near else ""
