"""A role: one thread of the process that does one thing for as long as the process lives.

Every thread of the engine that is there once is a `Role`: it is started, woken, quieted, stopped and started again in
the same way. `EngineParts.roles` lists those of a worker in their order; the launcher and the health walk that list.
A new thread is a subclass and an entry there.
"""

import threading
from collections.abc import Callable
from enum import Enum, auto

from kiqbridge.runtime.threads import keep_running
from kiqbridge.runtime.troubles import Troubles


class Until(Enum):
    """How long a role is needed: its thread may end once that has come, and is stopped then."""

    QUIET = auto()
    """Until no more jobs are taken."""
    JOBS = auto()
    """Until the last job has ended."""
    ENDS = auto()
    """Until what the last jobs have left is applied and reported."""
    LAST = auto()
    """Until the process signs off."""


class Role:
    """A thread that runs its loop by `keep_running`, and can be started again.

    A loop ends when `_stopping` is set, and waits for `_some` if it can be woken.

    Args:
        name: for the log and for `threads.kept`.
        loop: the thread's work; it does by `tried` what may fail.
        work: what that is, as the subject of a sentence, for the log and `Troubles`.
        until: how long it is needed.
        join_s: seconds for which `stop` waits for its end; None: for any time.
        stopping: set when the thread is to end; None: an event of its own.

    Attributes:
        name, until: see above.
        troubles: what it cannot do until somebody changes something.
    """

    def __init__(
        self,
        name: str,
        loop: Callable[[], object],
        *,
        work: str = "",
        until: Until = Until.LAST,
        join_s: float | None = None,
        stopping: threading.Event | None = None,
    ) -> None:
        self.name = name
        self.until = until
        self.troubles = Troubles()
        self._work = work or f"the work of thread {name}"
        self._loop = loop
        self._join_s = join_s
        self._stopping = stopping or threading.Event()
        self._some = threading.Event()
        self._thread = self._new()

    @property
    def alive(self) -> bool:
        """Whether the thread runs, or has nothing to do."""
        return self._thread.is_alive()

    @property
    def is_refused(self) -> bool:
        """Whether its work was refused at the last try, and somebody must change something."""
        return self._work in self.troubles

    def start(self) -> None:
        """Start it, once."""
        self._thread.start()

    def restart(self) -> None:
        """Start it again, after it has ended though it should run."""
        self._thread = self._new()
        self._thread.start()

    def wake(self) -> None:
        """There is something to do. From any thread, at once."""
        self._some.set()

    def quiet(self) -> None:
        """The process takes no more jobs: end, if that is how long this role is needed."""
        if self.until is Until.QUIET:
            self._stopping.set()
            self._some.set()

    def stop(self, timeout_s: float | None = None) -> None:
        """End it, and wait for that for so many seconds, else for `join_s`."""
        self._stopping.set()
        self._some.set()
        self.join(self._join_s if timeout_s is None else timeout_s)

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until it has ended, or for so many seconds; not if it does not run."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def tried(self, act: Callable[[], object], work: str = "") -> bool:
        """Call this, as `Troubles.tried`; False: it failed, and is to be called again.

        Args:
            act: one round of the thread, or a part of it.
            work: what a part is for, if it may fail by itself.
        """
        return self.troubles.tried(work or self._work, act, self._stopping.is_set)

    def _new(self) -> threading.Thread:
        name = f"kiqbridge-{self.name.replace(' ', '-')}"
        return threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        keep_running(
            self.name, self._loop, is_ending=self._stopping.is_set, wait=self._stopping.wait
        )
