"""Which Python files of a user have changed since a worker was started, and whether they can be compiled.

By their times and sizes, looked at about twice a second: that needs no package, works on every file system, also
on those that containers share with their host, where notifications get lost. A look may take a tenth of the
time at most, so that a large folder costs no more.
"""

import importlib.machinery
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOK_S: Final = 0.4
_SHARE: Final = 10
"""A look that takes one second is followed by ten without one."""

MAX_FILES: Final = 10_000
_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
_NAMED: Final = 3

State = dict[str, tuple[int, int]]
"""Path → time of change in nanoseconds, and size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Files that have changed since the start, and are not being written any more.

    Attributes:
        files: their paths.
        fault: what is wrong with one that cannot be compiled; "" = all can be.
    """

    files: Sequence[str]
    fault: str

    def __str__(self) -> str:
        """`2 files changed (jobs/mail.py, jobs/bill.py)`."""
        inside = f"{os.getcwd()}{os.sep}"  # noqa: PTH109 - compared as texts
        names = ", ".join(path.removeprefix(inside) for path in self.files[:_NAMED])
        more = ", …" if len(self.files) > _NAMED else ""
        count = len(self.files)
        return f"{count} file{'s' if count > 1 else ''} changed ({names}{more})"


class SourceWatch:
    """Compares the files below some folders with what they were when the worker was started.

    Args:
        folders: looked at with all folders in them, without hidden ones, environments and installed packages.
        files: others, such as the settings.
        monotonic: a clock, for how long a look takes.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        files: Sequence[Path] = (),
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folders = folders
        self._files = files
        self._monotonic = monotonic
        self._started: State = {}
        self._last: State = {}
        self._reported: State = {}
        self._next = 0.0
        self.pause_s = LOOK_S
        """Seconds until the next look makes sense."""

    @property
    def is_complete(self) -> bool:
        """Whether there are no more files than are looked at."""
        return len(self._last) < MAX_FILES

    def mark_start(self) -> None:
        """The worker is started now, with the files as they are."""
        self._started = self._last = self._reported = self._scan()
        self._next = self._monotonic() + self.pause_s

    def look(self) -> Change | None:
        """What has changed since the start; None: nothing, or it was reported, or it is still being written."""
        began = self._monotonic()
        if began < self._next:
            return None
        found = self._scan()
        ended = self._monotonic()
        self.pause_s = max(LOOK_S, _SHARE * (ended - began))
        self._next = ended + self.pause_s
        is_stable = found == self._last
        self._last = found
        if not is_stable or found == self._reported:
            return None
        self._reported = found
        changed = sorted(
            path
            for path in found.keys() | self._started.keys()
            if found.get(path) != self._started.get(path)
        )
        if not changed:  # changed, and changed back
            return None
        faults = (fault_of(path) for path in changed if path in found and path.endswith(".py"))
        return Change(files=changed, fault=next(filter(None, faults), ""))

    def _scan(self) -> State:
        found: State = {}
        for path in self._paths():
            try:
                status = os.stat(path)  # noqa: PTH116 - thousands of them
            except OSError:  # deleted meanwhile
                continue
            found[path] = (status.st_mtime_ns, status.st_size)
            if len(found) >= MAX_FILES:
                break
        return found

    def _paths(self) -> Iterator[str]:
        yield from map(str, self._files)
        for folder in self._folders:
            for place, names, files in os.walk(folder):
                names[:] = sorted(name for name in names if not _is_left_out(place, name))
                for name in files:
                    if name.endswith(".py"):
                        yield f"{place}{os.sep}{name}"


def folders_of(targets: Sequence[str]) -> list[Path]:
    """The folders of what `-r` names, then the current one; none lies in another."""
    here = Path.cwd()
    found = [*filter(None, map(_folder_of, targets)), here]
    return [
        folder
        for index, folder in enumerate(found)
        if not any(
            folder.is_relative_to(other) and (folder != other or place < index)
            for place, other in enumerate(found)
        )
    ]


def fault_of(path: str) -> str:
    """What Python says of a file that cannot be compiled, or ""."""
    try:
        compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    except OSError:  # deleted meanwhile
        return ""
    except (SyntaxError, ValueError) as error:
        return "".join(traceback.format_exception_only(error)).rstrip()
    return ""


def _folder_of(target: str) -> Path | None:
    path = Path(target)
    if path.is_dir():
        return path.resolve()
    if path.is_file():
        return path.resolve().parent
    top = target.partition(".")[0]
    spec = importlib.machinery.PathFinder.find_spec(top, [str(Path.cwd()), *sys.path])
    if spec is None or spec.origin is None or _LEFT_OUT & set(Path(spec.origin).parts):
        return None
    return Path(spec.origin).resolve().parent


def _is_left_out(place: str, name: str) -> bool:
    if name.startswith(".") or name in _LEFT_OUT:
        return True
    return os.path.exists(os.path.join(place, name, "pyvenv.cfg"))  # noqa: PTH110, PTH118 - thousands of them
