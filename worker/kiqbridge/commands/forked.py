"""What a fork of a process with loaded code needs: checks before it, repairs after it, and a link to its parent.

Before: no thread and no connection may be there. A thread does not exist in the child, and a lock
that it held stays locked for ever; a connection would be shared, each reading the other's replies.
After: signals and pipes are made the child's own. CPython itself renews `random` and the locks of
`logging`; a `RedisPool` and the log's writer notice the fork; `secrets` and `uuid` never repeat.
"""

import ctypes
import json
import logging
import os
import signal
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from kiqbridge.errors import ConfigError
from kiqbridge.runtime import descriptors
from kiqbridge.wire.amounts import count_text

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_OWN_THREADS = "kiqbridge-"
"""The log's writer, which pauses during a fork and starts again after it."""

_LONGEST_MESSAGE = 600
"""Characters of an error, each at most 6 bytes as JSON: a report longer than PIPE_BUF (4096 bytes)
might not be written whole."""


class SupervisorLink:
    """A child's ends of the two pipes between it and its supervisor.

    Args:
        supervisor: its pid.
        reports: the descriptor that the child writes its reports to, one JSON object a line.
        lifeline: a descriptor to which nothing is written: reading it ends when the supervisor does.
        has_reached_redis: a process of this supervisor has reached Redis.
    """

    def __init__(
        self, *, supervisor: int, reports: int, lifeline: int, has_reached_redis: bool
    ) -> None:
        self.supervisor = supervisor
        self.has_reached_redis = has_reached_redis
        self._reports = reports
        self._end = descriptors.Descriptor(reports)
        self._lifeline = lifeline

    def registered(self, incarnation: str) -> None:
        """Report under which incarnation this process holds its jobs; repeated with each beat."""
        self._report({"pid": os.getpid(), "incarnation": incarnation})

    def failed(self, message: str) -> None:
        """Report why this process ends."""
        self._report({"pid": os.getpid(), "error": message[:_LONGEST_MESSAGE]})

    def watch(self, on_end: Callable[[], None]) -> None:
        """Call `on_end` on a thread of its own when the supervisor has ended, for whatever reason."""

        def watch() -> None:
            os.read(self._lifeline, 1)
            logger.warning("the supervisor has ended: this process stops as after TERM")
            on_end()

        threading.Thread(target=watch, name="kiqbridge-supervisor-link", daemon=True).start()

    def _report(self, report: dict[str, object]) -> None:
        # Never waited for: a supervisor that is stopped must not hold up the lease's beat.
        if descriptors.is_watching:
            self._end.check()
        with suppress(OSError):
            text = json.dumps(report, ensure_ascii=False)
            os.write(self._reports, text.encode(errors="replace") + b"\n")


def check_before_fork(ceiling_mb: int) -> None:
    """Log what a fork does not carry over.

    Args:
        ceiling_mb: how much memory each process may hold, in MB; 0 = any amount.

    Raises:
        ConfigError: the loaded code alone exceeds the ceiling.
    """
    for sentence in odd_before_fork():
        logger.warning("%s", sentence)
    natives = native_threads()
    if natives:
        logger.info(
            "%d threads of native libraries are not forked; most libraries cope with that, and one "
            "that hangs in a job must be imported in the job instead",
            natives,
        )
    used_mb = resident_mb(os.getpid())
    if ceiling_mb and used_mb >= ceiling_mb:
        raise ConfigError(
            f"max_memory_mb: {ceiling_mb} is less than the {used_mb:.0f} MB that the loaded code "
            "takes before any job has run; give at least twice that"
        )


def odd_before_fork() -> Iterator[str]:
    """Sentences about what the loaded code has done that a fork does not carry over."""
    names = [
        each.name
        for each in threading.enumerate()
        if each is not threading.main_thread() and not each.name.startswith(_OWN_THREADS)
    ]
    if names:
        yield (
            f"the code that -r loads has started {count_text(len(names), 'thread')} ({', '.join(names)}): "
            "the worker processes are forked without them, and a lock that one holds at that instant "
            'stays locked for ever; start them in @server.on("startup"), which runs in each process'
        )
    peers = list(_connected_to())
    if peers:
        yield (
            f"the code that -r loads has opened {count_text(len(peers), 'connection')} "
            f"({', '.join(peers)}): all worker processes would share it and read each other's answers; "
            'open it in @server.lifespan or @server.on("startup"), which run in each process'
        )


def native_threads() -> int:
    """Threads that Python knows nothing of, such as those of a numeric library; 0 without /proc."""
    with suppress(OSError):
        return max(len(os.listdir("/proc/self/task")) - threading.active_count(), 0)  # noqa: PTH208
    return 0


def settle_in_child(supervisor: int) -> None:
    """Make a new child's own what it got from its supervisor; signals are blocked until it is done.

    Raises:
        SystemExit: the supervisor has ended already.
    """
    # Besides the pipe: this reaches also a child whose threads cannot run at that moment, as soon as they can.
    with suppress(OSError, AttributeError):  # not Linux: the pipe alone must do
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != supervisor:
        raise SystemExit(0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Sent to all of a process group it would end the children; not SIG_IGN, which what a job starts
    # would inherit.
    signal.signal(signal.SIGUSR2, lambda *_: None)


def can_run(pid: int) -> bool:
    """Whether a process is neither dead nor stopped (by a signal or a debugger)."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    # The name, in parentheses, may hold anything.
    return status.rpartition(")")[2].split()[0] not in ("T", "t", "Z", "X")


def resident_mb(pid: int) -> float:
    """Resident memory in MB, pages that it shares with others included; 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _connected_to() -> Iterator[str]:
    """Peers of all connected sockets but standard input, output and error."""
    try:
        handles = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208
    except OSError:
        return
    for handle in sorted(handles):
        if handle <= 2:  # noqa: PLR2004 - a journal may stand there
            continue
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(handle).st_mode):
                continue
            with socket.socket(fileno=os.dup(handle)) as copy:
                peer = copy.getpeername()
            if isinstance(peer, tuple):
                yield f"{peer[0]}:{peer[1]}"
            elif peer:  # a socket pair inside this process has no name
                yield peer if isinstance(peer, str) else repr(peer)
