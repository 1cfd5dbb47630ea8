"""Raising an error in another thread, only where it can do no harm.

An error that is raised within our own code, or in a library that holds a lock, leaves that
lock taken for ever. `landing.py` decides by the thread's stack whether it may be raised now. What may
not is `PENDING`: the thread is looked at again every few milliseconds (`Timekeeper`), and the error is
raised at the latest at a `checkpoint`, where a call to Redis that user code has caused comes to its end.
Looking and raising happen without the interpreter lock being given away in between (`_raise_at`).

Ending jobs that run longer than their `timeout_s`, or than their worker, where they run on threads.

An error is raised in the job's thread, only where that is safe (interruption.py); where it is not, the
thread is looked at again after 1 ms, then after more, up to 20 ms. A thread that waits in C (a query
without a timeout, a computation in a library) notices it only when it comes back: what must end at
all costs belongs in the process pool.
"""

import heapq
import itertools
import operator
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from types import FrameType, TracebackType
from typing import Self, TypeVar

from kiqbridge.errors import JobTimeout
from kiqbridge.runtime import threads
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.frames import Origin, current_frames, origin_of, trust, without_collection
from kiqbridge.runtime.role import LazyRole

LOOK_AGAIN_S = 0.001

PENDING: "dict[int, Interruption]" = {}
"""By thread: what is to be raised there. Nearly always empty: `if PENDING:` is all that it costs."""


class Interruption:
    """An error that is to be raised in one thread, once.

    Args:
        ident: `threading.get_ident()` of the thread.
        kind: class of the error.
        is_wanted: whether it is still to be raised; asked before each try.

    Attributes:
        is_over: what it was to end has ended; nothing is raised from now on.
        is_raised: it has been raised, though it may not have arrived yet.
    """

    __slots__ = ("_error", "_wanted", "ident", "is_over", "is_raised", "kind")

    def __init__(
        self, ident: int, kind: type[BaseException], is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        self.ident = ident
        self.kind = kind
        self.is_over = False
        self.is_raised = False
        self._error: BaseException | None = None
        self._wanted = is_wanted

    @property
    def is_wanted(self) -> bool:
        """Whether it is still to be raised."""
        return not self.is_over and not self.is_raised and self._wanted()

    def attempt(self) -> bool:
        """Raise it if that is safe now; whether it was raised. For any thread but its own."""
        from kiqbridge.runtime.landing import Landing, landing  # noqa: PLC0415 - few jobs are interrupted

        seen: tuple[int, int] | None = None
        for pause_s in (LOOK_AGAIN_S, 0.0):
            frame = current_frames().get(self.ident)
            if frame is None:
                return False
            where, place = landing(frame), (id(frame), frame.f_lasti)
            if where is Landing.SAFE or (where is Landing.IN_CALL and place == seen):
                # Before, so that a checkpoint which the thread meets meanwhile does not raise it too.
                self.is_raised = True
                self.is_raised = _raise_at(frame, place[1], self.ident, self.kind)
                return self.is_raised
            del frame  # it keeps the job's variables
            if where is Landing.UNSAFE or not pause_s:
                return False
            seen = place
            time.sleep(pause_s)  # whether it waits in this call is seen by a second look
        return False

    def arrive(self) -> None:
        """Raise it on its own thread, if it is wanted, or if it was raised here and our own code has caught it.

        Many functions of ours go on after an error of Redis (`except KiqbridgeError`), and JobTimeout looks like one.
        """
        if self._error is not None and self._is_lost(self._error):
            self.is_raised = False
        if self.is_wanted:
            self.is_raised = True
            self._error = self._error or self.kind()
            raise self._error

    @staticmethod
    def _is_lost(error: BaseException) -> bool:
        """Whether it has ended in our own code: it is not on its way, and has not reached a user's code."""
        handled = sys.exc_info()[1]
        while handled is not None:
            if handled is error:  # this call cleans up
                return False
            handled = handled.__context__
        # The first entry is the outermost function that the error has reached.
        reached = error.__traceback__
        return reached is not None and (
            origin_of(reached.tb_frame.f_code.co_filename) is Origin.OURS
        )

    def end(self) -> None:
        """What it was to end has ended, on its own thread: take it back if it is still under way."""
        self.is_over = True
        self._error = None  # it keeps the job's variables
        forget(self)
        if self.is_raised:
            try:  # noqa: SIM105 - not by a function, in which it could arrive as well
                _take_back(self.ident)
            except self.kind:
                pass  # it arrived here, where it means nothing any more


def forget(interruption: Interruption) -> None:
    """It is pending no longer."""
    if PENDING.get(interruption.ident) is interruption:
        PENDING.pop(interruption.ident, None)


def settle() -> None:
    """End what is pending for this thread: its job has ended. Called under `if PENDING:`."""
    pending = PENDING.get(threading.get_ident())
    if pending is not None:
        pending.end()


def checkpoint() -> None:
    """Raise what is pending for this thread, if a job made the call that ends here.

    Called under `if PENDING:` where nothing of ours is held: at the end of each call to Redis (RedisPool),
    and of a log line. A job that does little but call us would otherwise hardly ever be met in its own
    code, and never while a function of ours waits and asks again.
    """
    pending = PENDING.get(threading.get_ident())
    if pending is None:
        return
    from kiqbridge.runtime.landing import is_called_by_job  # noqa: PLC0415 - as in `attempt`

    if is_called_by_job(sys._getframe(1)):  # noqa: SLF001 - this thread's own stack
        pending.arrive()


def check() -> None:
    """Raise what is pending for this thread: here it does no harm to any caller."""
    pending = PENDING.get(threading.get_ident())
    if pending is not None:
        pending.arrive()


def _raise_at(frame: FrameType, lasti: int, ident: int, kind: type[BaseException]) -> bool:
    """Raise in a thread if this is still its innermost frame, at the same instruction.

    Both in one go: what is called here is written in C, and gives the interpreter lock to no other
    thread before the `for` gets its answer.
    """
    import ctypes  # noqa: PLC0415 - few jobs have a limit, and fewer exceed it

    set_error = ctypes.pythonapi.PyThreadState_SetAsyncExc
    once = itertools.repeat((ctypes.c_ulong(ident), ctypes.py_object(kind)), 1)
    stacks = iter(sys._current_frames, None)  # noqa: SLF001 - the only way to see a stack
    on_top = map(operator.is_, itertools.repeat(frame), map(operator.itemgetter(ident), stacks))
    in_place = map(
        operator.eq,
        itertools.repeat(lasti),
        map(operator.attrgetter("f_lasti"), itertools.repeat(frame)),
    )
    if_there = itertools.compress(itertools.compress(once, on_top), in_place)

    def raise_once() -> bool:
        for changed in itertools.starmap(set_error, if_there):
            return bool(changed)
        return False

    try:
        return without_collection(raise_once)
    except KeyError:  # the thread has ended
        return False


def _take_back(ident: int) -> None:
    import ctypes  # noqa: PLC0415 - as in `_raise_at`

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), None)


T = TypeVar("T")

FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.020
"""Between two looks at a thread where the error could not be raised."""

FORGET_S = 0.5
"""How often one that was raised is looked at, to forget it once what it was to end has ended."""

_SWEEP_AT = 1_000


class _Limit(Interruption):
    """One running job; a context manager around it."""

    __slots__ = ("_seconds", "_timekeeper")

    def __init__(self, timekeeper: "Timekeeper", seconds: float) -> None:
        super().__init__(threading.get_ident(), JobTimeout)
        self._timekeeper = timekeeper
        self._seconds = seconds

    def __enter__(self) -> Self:
        self._timekeeper.raise_after(self._seconds, self)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.end()
        if self.is_raised and isinstance(error, JobTimeout) and not error.args:
            error.args = (f"took longer than its timeout_s of {self._seconds:g} s",)


async def limited(running: Awaitable[T], seconds: float | None) -> T:
    """What is awaited for `seconds` at most; None = without a limit.

    Raises:
        JobTimeout: it took longer, and was cancelled.
    """
    import asyncio  # noqa: PLC0415 - loaded already: this runs in an event loop

    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await running
    except TimeoutError as error:
        if limit.expired():
            raise JobTimeout(f"took longer than its timeout_s of {seconds:g} s") from error
        raise


class Timekeeper:
    """The thread that raises what is due in others.

    In a worker it begins with the process if any job has a limit, else with the first call. A thread of jobs should not
    have to start it: in CPython 3.11 one that has failed to start another cannot be interrupted any more.

    Args:
        jobs: gives the dotted names of the declared jobs: their packages are users' code (frames.py).
        from_start: whether any of them has a limit.

    Attributes:
        thread: its role.
    """

    def __init__(
        self,
        jobs: Callable[[], Iterable[str]] = tuple,
        from_start: Callable[[], bool] = lambda: False,
    ) -> None:
        self._jobs = jobs
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Interruption, float]] = []
        self._numbers = itertools.count()
        self.thread = LazyRole(
            "limits", self._loop, without="no timeout_s is enforced", from_start=from_start
        )
        self._sweep_at = _SWEEP_AT

    def limit(self, seconds: float) -> _Limit:
        """Raise `JobTimeout` in this thread's `with` block when it takes longer than so many seconds."""
        return _Limit(self, seconds)

    def interrupt(
        self, ident: int, kind: type[BaseException], is_wanted: Callable[[], bool]
    ) -> None:
        """Raise an error in a thread as soon as that is safe, unless it is not wanted any more."""
        self.raise_after(0, Interruption(ident, kind, is_wanted))

    def raise_after(self, seconds: float, interruption: Interruption) -> None:
        """Raise it then, or as soon after as is safe, unless it is over before."""
        with self._changed:
            if len(self._due) >= self._sweep_at:  # most jobs end long before their limit
                self._due = [entry for entry in self._due if not entry[2].is_over]
                heapq.heapify(self._due)
                self._sweep_at = max(2 * len(self._due), _SWEEP_AT)
            self._put(seconds, interruption, FIRST_PAUSE_S)
            if self._due[0][2] is interruption:
                self._changed.notify()
        self.thread.wake()

    def _put(self, seconds: float, interruption: Interruption, pause_s: float) -> None:
        heapq.heappush(
            self._due, (lease_now() + seconds, next(self._numbers), interruption, pause_s)
        )

    def _loop(self) -> None:
        while True:
            with self._changed:
                while not self._due or self._due[0][0] > lease_now():
                    threads.rest()
                    self._changed.wait(self._due[0][0] - lease_now() if self._due else None)
                _, _, interruption, pause_s = heapq.heappop(self._due)
            threads.beat()
            try:
                pause_s = self._turn(interruption, pause_s)
            except BaseException:
                with self._changed:
                    self._put(LONGEST_PAUSE_S, interruption, LONGEST_PAUSE_S)
                raise
            if pause_s:
                with self._changed:
                    self._put(pause_s, interruption, min(pause_s * 2, LONGEST_PAUSE_S))

    def _turn(self, interruption: Interruption, pause_s: float) -> float:
        """Raise what is due, if that is safe; seconds until the next look, 0 = never."""
        ident = interruption.ident
        if interruption.is_raised and not interruption.is_over:
            return FORGET_S
        if not interruption.is_wanted:
            forget(interruption)
            return 0
        other = PENDING.get(ident)
        if other is not interruption:
            # One at a time, and the end of the process goes before a job's limit.
            if other is not None and other.is_wanted and issubclass(interruption.kind, Exception):
                return pause_s
            trust(self._jobs())
            PENDING[ident] = interruption
        return FORGET_S if interruption.attempt() else pause_s
