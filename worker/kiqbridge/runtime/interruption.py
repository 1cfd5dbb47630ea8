"""Raising an error in another thread, only where it can do no harm.

An error that is raised within our own code, or in a library that holds a lock, leaves that
lock taken for ever. `landing.py` decides by the thread's stack whether it may be raised now. What may
not is `PENDING`: the thread is looked at again every few milliseconds (limits.py), and the error is
raised at the latest at a `checkpoint`, where a call to Redis that user code has caused comes to its end.
Looking and raising happen without the interpreter lock being given away in between (`_raise_at`).
"""

import itertools
import operator
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from kiqbridge.runtime.frames import current_frames, without_collection
from kiqbridge.runtime.origins import Origin, origin_of

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
        self,
        ident: int,
        kind: type[BaseException],
        is_wanted: Callable[[], bool] = lambda: True,
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
