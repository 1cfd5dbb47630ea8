"""What a job may change about its whole process, and how it is put back.

Threads share more than memory: working directory, environment, locale, limits, the objects of `sys`.
What a job leaves behind there would be found by all jobs after it. So a worker remembers how all this
was before its first job, and puts back what is different:

- at once what would hold up the engine itself, and what other jobs cannot run without;
- the rest as soon as no job runs, since one that is running may have changed it for a while
  (`with contextlib.chdir(…)`).

What a job adds stays: variables of the environment, entries of `sys.path`. The engine itself depends on
none of it. `docs/explanation/engine.md` has the list.
"""

import builtins
import contextlib
import gc
import locale
import logging
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kiqbridge.client.registry import Registry
from kiqbridge.runtime import threads
from kiqbridge.runtime.role import Role

logger = logging.getLogger(__name__)

EVERY_S = 1.0
"""Seconds between two looks: a tenth of a millisecond each."""

_EXHAUSTED_LOOKS = 3
"""How many looks in a row without a free file descriptor end the process; a short shortage does not."""

_CLOCKS = ("time", "monotonic", "perf_counter", "sleep", "time_ns", "monotonic_ns")
_LIMITS = tuple(f"RLIMIT_{each}" for each in ("NOFILE", "NPROC", "AS", "DATA", "FSIZE", "CPU"))


class Start(NamedTuple):
    """How the process was before its first job; what its children are started with.

    Attributes:
        folder: the working directory; None when it was gone.
        umask: None where /proc does not say.
    """

    folder: str | None
    umask: int | None
    environment: dict[str, str]
    interpreter: str


def look_at_start() -> Start:
    """How this process is now."""
    return Start(_folder(), _umask(), _variables(), sys.executable)


class Aspect(NamedTuple):
    """Something that a job may change.

    Attributes:
        name: for the log.
        read: how it is now, comparable.
        put_back: makes it as it was, given what `read` answered then.
        at_once: also while jobs run.
        is_well: whether it need not be put back, given how it was and how it is.
    """

    name: str
    read: Callable[[], Any]
    put_back: Callable[[Any], object]
    at_once: bool = False
    is_well: Callable[[Any, Any], bool] = lambda was, now: bool(was == now)


class ProcessState:
    """How the process was, and what puts it back; used by one thread at a time.

    Args:
        registry: the declared jobs.
        level: of the line that says what was put back.
    """

    def __init__(self, registry: Registry, *, level: int = logging.WARNING) -> None:
        self._level = level
        self._was = [(each, each.read()) for each in (*_ASPECTS, _declared(registry))]
        self._failed: set[str] = set()

    def look(self, *, is_idle: bool) -> list[str]:
        """Put back what is different; returns the names of what was.

        Args:
            is_idle: no job runs in this process.
        """
        restored = []
        for aspect, was in self._was:
            if not (is_idle or aspect.at_once):
                continue
            try:
                if aspect.is_well(was, aspect.read()):
                    continue
                aspect.put_back(was)
            except Exception as error:  # noqa: BLE001 - what cannot be put back must not hold up the rest
                self._warn(aspect.name, error)
            else:
                restored.append(aspect.name)
        if restored:
            logger.log(
                self._level,
                "a job has changed what all jobs of this process share, and it was put back: %s; declare "
                "such a job with pool='process'",
                ", ".join(restored),
            )
        return restored

    def _warn(self, name: str, error: Exception) -> None:
        if name not in self._failed:
            self._failed.add(name)
            logger.warning(
                "a job has changed %s of this process, and it cannot be put back: %s", name, error
            )


class StateKeeper:
    """The thread that puts back what jobs change, a second after it was changed or after the last job.

    Args:
        state: how it was.
        is_idle: whether no job runs.
        give_up: called with the reason when the process can open nothing any more.
    """

    def __init__(
        self, state: ProcessState, *, is_idle: Callable[[], bool], give_up: Callable[[str], object]
    ) -> None:
        self._state = state
        self._is_idle = is_idle
        self._give_up = give_up
        self._exhausted = 0
        self._stopping = threading.Event()
        self._thread = Role("state", self._loop, stopping=self._stopping)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End; nothing is put back any more."""
        self._stopping.set()

    def _loop(self) -> None:
        while True:
            threads.rest()
            if self._stopping.wait(EVERY_S):
                return
            threads.beat()
            self._state.look(is_idle=self._is_idle())
            why = out_of_descriptors()
            self._exhausted = self._exhausted + 1 if why else 0
            if self._exhausted == _EXHAUSTED_LOOKS:
                self._give_up(f"it can open nothing any more ({why})")


def out_of_descriptors() -> str | None:
    """Why this process can open nothing any more, None while it can."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return str(error)
    return None


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - a text, for children
    except OSError:
        return None


def _variables() -> dict[str, str]:
    """The variables, with the real paths of folders on PYTHONPATH: a link among them may be turned by a deploy."""
    variables = dict(os.environ)
    if path := variables.get("PYTHONPATH"):
        folders = (os.path.realpath(each) if each else each for each in path.split(os.pathsep))
        variables["PYTHONPATH"] = os.pathsep.join(folders)
    return variables


def _umask() -> int | None:
    # os.umask can only be asked by changing it, which another thread would notice.
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_bytes().decode(errors="replace").splitlines()
        return int(next(line for line in lines if line.startswith("Umask:")).split()[1], 8)
    return None


def _go_to(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)


def _set_umask(mask: int | None) -> None:
    if mask is not None:
        os.umask(mask)


def _environment() -> tuple[Any, dict[str, str]]:
    return os.environ, dict(os.environ)


def _keeps_variables(was: tuple[Any, dict[str, str]], now: tuple[Any, dict[str, str]]) -> bool:
    return (
        was[0] is now[0] and was[1].keys() <= now[1].keys() and was[1].get("TZ") == now[1].get("TZ")
    )


def _put_variables_back(was: tuple[Any, dict[str, str]]) -> None:
    os.environ, before = was
    for name in before.keys() - os.environ.keys():
        os.environ[name] = before[name]
    if before.get("TZ") != os.environ.get("TZ"):
        os.environ.pop("TZ", None)
        if "TZ" in before:
            os.environ["TZ"] = before["TZ"]


def _zone() -> tuple[Any, ...]:
    return time.tzname, time.timezone


def _imports() -> tuple[Any, list[str]]:
    return sys.path, list(sys.path)


def _put_imports_back(was: tuple[Any, list[str]]) -> None:
    added = [each for each in sys.path if each not in was[1]]
    sys.path = was[0]
    sys.path[:] = [*was[1], *added]


def _streams() -> tuple[Any, Any]:
    return sys.stdout, sys.stderr


def _are_same_and_open(was: tuple[Any, Any], now: tuple[Any, Any]) -> bool:
    """Whether both are open, and those of before unless these were closed: then others took their place."""
    if any(each and each.closed for each in now):
        return False
    return all(
        new is old or (old and old.closed and new) for old, new in zip(was, now, strict=True)
    )


def _put_streams_back(was: tuple[Any, Any]) -> None:
    sys.stdout, sys.stderr = (_opened(stream, number) for number, stream in enumerate(was, start=1))


def _opened(stream: Any, number: int) -> Any:
    if stream is None or not stream.closed:
        return stream
    try:
        os.fstat(number)
    except OSError:
        # Whatever is opened next would get the number, and what a job prints.
        os.open(os.devnull, os.O_WRONLY)
    return builtins.open(number, "w", errors="backslashreplace", closefd=False, buffering=1)


def _clocks() -> tuple[Any, ...]:
    return tuple(getattr(time, name) for name in _CLOCKS)


def _put_clocks_back(was: tuple[Any, ...]) -> None:
    for name, function in zip(_CLOCKS, was, strict=True):
        setattr(time, name, function)


def _logging() -> tuple[Any, ...]:
    root = logging.getLogger()
    ours = [
        name
        for name in sorted(logging.root.manager.loggerDict)
        if name.partition(".")[0] == "kiqbridge" and logging.getLogger(name).disabled
    ]
    return tuple(root.handlers), root.level, logging.root.manager.disable, ours


def _logs_the_same(was: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    return set(was[0]) <= set(now[0]) and was[1:] == now[1:]


def _put_logging_back(was: tuple[Any, ...]) -> None:
    handlers, level, disable, disabled = was
    root = logging.getLogger()
    for handler in handlers:
        if handler not in root.handlers:
            root.addHandler(handler)
    root.setLevel(level)
    logging.disable(disable)
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "kiqbridge":
            logging.getLogger(name).disabled = name in disabled


def _limits() -> dict[str, tuple[int, int]]:
    return {name: resource.getrlimit(getattr(resource, name)) for name in _LIMITS}


def _are_as_high(was: dict[str, tuple[int, int]], now: dict[str, tuple[int, int]]) -> bool:
    return all(_rank(now[name][0]) >= _rank(was[name][0]) for name in was)


def _rank(limit: int) -> float:
    return float("inf") if limit == resource.RLIM_INFINITY else limit


def _raise_limits(was: dict[str, tuple[int, int]]) -> None:
    for name, (soft, hard) in was.items():
        if _rank(resource.getrlimit(getattr(resource, name))[0]) < _rank(soft):
            resource.setrlimit(getattr(resource, name), (soft, hard))


def _set_collector(was: bool) -> None:  # noqa: FBT001 - what `read` answered
    (gc.enable if was else gc.disable)()


def _declared(registry: Registry) -> Aspect:
    return Aspect(
        "the declared jobs",
        lambda: list(registry),
        lambda was: [each for each in was if each.name not in registry and _add(registry, each)],
        at_once=True,
        is_well=lambda was, now: len(now) >= len(was),
    )


def _add(registry: Registry, definition: Any) -> bool:
    registry.register(definition)
    return True


_ASPECTS = (
    Aspect("the working directory", _folder, _go_to),
    # Not known while no descriptor is left.
    Aspect("the umask", _umask, _set_umask, is_well=lambda was, now: now is None or was == now),
    Aspect("the environment", _environment, _put_variables_back, is_well=_keeps_variables),
    Aspect("the time zone", _zone, lambda _was: time.tzset()),
    Aspect(
        "the locale",
        lambda: locale.setlocale(locale.LC_ALL),
        lambda was: locale.setlocale(locale.LC_ALL, was),
    ),
    Aspect(
        "sys.path",
        _imports,
        _put_imports_back,
        is_well=lambda was, now: was[0] is now[0] and set(was[1]) <= set(now[1]),
    ),
    Aspect("sys.stdout or sys.stderr", _streams, _put_streams_back, is_well=_are_same_and_open),
    Aspect("the functions of the module time", _clocks, _put_clocks_back),
    Aspect("the configuration of logging", _logging, _put_logging_back, is_well=_logs_the_same),
    Aspect("the default timeout of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout),
    Aspect("the garbage collector", gc.isenabled, _set_collector),
    Aspect(
        "the recursion limit",
        sys.getrecursionlimit,
        sys.setrecursionlimit,
        at_once=True,
        is_well=lambda was, now: now >= was,
    ),
    Aspect(
        "the switch interval",
        sys.getswitchinterval,
        sys.setswitchinterval,
        at_once=True,
        is_well=lambda was, now: now <= was,
    ),
    Aspect("a resource limit", _limits, _raise_limits, at_once=True, is_well=_are_as_high),
)
