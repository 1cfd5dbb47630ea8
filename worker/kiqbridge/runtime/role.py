"""A role: one thread of the process that does one thing for as long as the process lives.

Every thread of the engine that is there once is a `Role`: it is started, woken, quieted, stopped and started again in
the same way. `EngineParts.roles` lists those of a worker in their order; the launcher and the health walk that list.
A new thread is a subclass and an entry there. One that most processes never need is a `LazyRole`.

What a process cannot do until somebody changes something: the reasons why it is not ready.
"""

import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import Final

from kiqbridge.errors import KiqbridgeError, PushNotReplicated, PushOutcomeUnknown, QueueTooDeep
from kiqbridge.runtime.threads import CANNOT_START, keep_running

logger = logging.getLogger(__name__)

_OF_PUSHES: Final = (PushNotReplicated, PushOutcomeUnknown, QueueTooDeep)

HINDERED_S: Final = 15.0
"""Seconds for which a reason counts that is found anew with each try; it may be that none follows."""

MOST_LOGGED: Final = 5
"""Different reasons that are logged under one name until it works again: they may take turns."""


class Troubles:
    """Reasons by name. From any thread, at once; takes no lock, since the status of the process is made of it.

    `kiqbridge health --ready` fails with each of them, the page and the doctor show them. The caller that sets one logs it.
    """

    def __init__(self) -> None:
        self._texts: dict[str, tuple[str, float]] = {}
        self._logged: dict[str, set[str]] = {}

    def __repr__(self) -> str:
        return f"Troubles({self._texts})"

    def __iter__(self) -> Iterator[str]:
        """The texts, in the order in which their names were set first."""
        now = time.monotonic()
        return iter([text for text, until in list(self._texts.values()) if now < until])

    def __contains__(self, name: object) -> bool:
        """Whether something is set under this name."""
        found = self._texts.get(name)  # type: ignore[call-overload] # any object
        return found is not None and time.monotonic() < found[1]

    def set(self, name: str, text: str, *, for_s: float = math.inf) -> None:
        """Something cannot be done until it is changed.

        Args:
            name: what cannot be done, such as "poller"; a text that was set under it before is replaced.
            text: what happened, and what to do; one line without a full stop, and without a secret.
            for_s: seconds after which it counts no more, unless it is set again.
        """
        self._texts[name] = text, time.monotonic() + for_s

    def hindered(self, name: str, text: str) -> None:
        """Set a reason that each further try finds anew: it counts for `HINDERED_S` seconds, and a warning is logged once."""
        is_new = name not in self
        self.set(name, text, for_s=HINDERED_S)
        if is_new:
            logger.warning("%s; it is tried again, and until then this worker is not ready", text)

    def clear(self, name: str) -> bool:
        """It can be done again; False: nothing was set."""
        return self._texts.pop(name, None) is not None

    def failed(self, name: str, error: KiqbridgeError) -> None:
        """A try failed, and follows another one: warn once, and set it, if that may not pass by itself.

        Args:
            name: what is tried, as the subject of a sentence, such as "moving due jobs".
            error: why.
        """
        if error.may_pass:
            # An outage is reported once, by those who take jobs.
            level = logging.WARNING if isinstance(error, _OF_PUSHES) else logging.DEBUG
            logger.log(level, "%s waits: %s; it is tried again", name, error)
            return
        text = f"{name} fails: {error}"
        self.set(name, text)
        logged = self._logged.setdefault(name, set())
        if text not in logged and len(logged) < MOST_LOGGED:
            logged.add(text)
            logger.warning("%s; it is tried again, and until then this worker is not ready", text)

    def worked(self, name: str) -> None:
        """A try succeeded: log it if the last one did not."""
        if name in self._texts:
            self.clear(name)
            self._logged.pop(name, None)
            logger.warning("%s works again", name)

    def tried(
        self, name: str, act: Callable[[], object], is_ending: Callable[[], bool] = lambda: False
    ) -> bool:
        """Call this; False: it failed, which is logged and set as `failed` says.

        An unexpected error is logged with its traceback each time, unless `is_ending`.
        """
        try:
            act()
        except KiqbridgeError as error:
            self.failed(name, error)
            return False
        except Exception as error:
            if not is_ending():
                logger.exception("%s failed; it is tried again", name)
                self.set(
                    name, f"{name} fails with {type(error).__name__}; its log has the traceback"
                )
            return False
        self.worked(name)
        return True


OF_PROCESS: Final = Troubles()
"""Of what belongs to the process itself, such as the locks of limiters that it holds."""


def fields_of(texts: Sequence[str]) -> dict[str, str]:
    """For the hash of a process: a JSON list; empty if there are none."""
    return {"kb_troubles": json.dumps(texts, separators=(",", ":")) if texts else ""}


class Until(Enum):
    """How long a role is needed: its thread may end once that has come, and is stopped then."""

    QUIET = auto()
    """Until no more jobs are taken."""
    STOP = auto()
    """Until running jobs are to end."""
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
        runs_jobs: the end of the process waits for it as long as for jobs.
        troubles: what it cannot do until somebody changes something.
    """

    runs_jobs = False

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


class LazyRole(Role):
    """A role whose thread starts when it is needed first, with `wake`: most processes go without it.

    A thread that cannot start, as at a limit of pids, is never an error of the caller: that is logged once, the
    role is among `unstarted()`, and the next `wake` tries again. In a worker the watch over threads does so as well
    (engine/health.py), and the worker is not ready meanwhile.

    Args:
        name, loop, work, until, join_s: as of `Role`.
        without: what does not happen without it, as a sentence.
        from_start: whether it is known to be needed, so that it begins with the process.

    Attributes:
        without: see above.
    """

    def __init__(
        self,
        name: str,
        loop: Callable[[], object],
        *,
        without: str,
        work: str = "",
        from_start: Callable[[], bool] = lambda: False,
        until: Until = Until.LAST,
        join_s: float | None = None,
    ) -> None:
        super().__init__(name, loop, work=work, until=until, join_s=join_s)
        self.without = without
        self._from_start = from_start
        self._starting = threading.Lock()
        self._has_begun = False

    @property
    def alive(self) -> bool:
        """Whether the thread runs, or has not begun so far."""
        return not self._has_begun or self.runs

    @property
    def runs(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin if that is needed from the start; else `wake` does."""
        if self._from_start():
            super().start()
            self._has_begun = True

    def restart(self) -> None:
        """Start it unless it runs."""
        self.wake()

    def wake(self) -> None:
        """There is something to do: start the thread unless it runs. From any thread."""
        if not self._some.is_set():
            self._some.set()
        if self._thread.is_alive():
            return
        error = self._begin()
        if error is None:
            if self in _unstarted:
                _unstarted.discard(self)
                logger.warning("thread %s has started", self.name)
        elif self not in _unstarted:
            _unstarted.add(self)
            logger.error(
                "thread %s cannot be started: %s (%s); it is tried again; look at the limits of processes and memory",
                self.name,
                self.without,
                error,
            )

    def stop(self, timeout_s: float | None = None) -> None:
        """End it, as a `Role`; it is not started any more."""
        super().stop(timeout_s)
        _unstarted.discard(self)

    def _begin(self) -> BaseException | None:
        """Start the thread; why it could not be started."""
        with self._starting:
            if self._thread.is_alive() or self._stopping.is_set():
                return None
            try:
                self._thread = self._new()
                self._thread.start()
            except CANNOT_START as error:
                return error
            self._has_begun = True
            return None


_unstarted: set[LazyRole] = set()


def unstarted() -> list[LazyRole]:
    """Those of this process that are needed, and could not be started so far; takes no lock."""
    return list(_unstarted)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unstarted.clear)
