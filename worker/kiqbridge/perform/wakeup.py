"""Waking idle threads within a millisecond of a push, at next to no cost while nothing happens.

One connection per process has Redis report when a queue changes (`store/tracking.py`): `EXISTS queue:a …`
both looks and arms; the invalidation that a push causes wakes one idle thread. Nothing that could be
lost travels here: a job is moved only by a claim. A look every few seconds makes up for anything
that was missed, and where a server refuses tracking, looks come often.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence

from redis.connection import AbstractConnection

from kiqbridge.runtime import frames, threads
from kiqbridge.runtime.threads import keep_running
from kiqbridge.store.tracking import FAILURES, RETRY_S, SAFETY_LOOK_S, TrackingConnection
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of

logger = logging.getLogger(__name__)

TIGHT_LOOK_S = 0.02
"""Pause before a wake while there is no room for some kind of job (rooms.py)."""
FUTILE_WAKES = 3
"""After so many wakes in a row that brought nothing, pause before the next."""


class IdleGate:
    """Where threads without work wait, and where they are woken one at a time.

    Each waits at a lock of its own: waking all to let one through would take longer than its job.

    Args:
        safety_look_s: seconds after which a woken thread that has not called `looked` counts as gone.

    Attributes:
        futile_wakes: how many wakes in a row found no job.
    """

    def __init__(self, *, safety_look_s: float = SAFETY_LOOK_S) -> None:
        self._safety_look_s = safety_look_s
        self._lock = threading.Lock()
        self._for_waker = threading.Condition(self._lock)
        self._idle: list[threading.Lock] = []
        self._waking = 0
        self._open = False
        self.futile_wakes = 0

    @property
    def idle(self) -> int:
        """How many threads wait."""
        return len(self._idle)

    def wait_for_work(self) -> None:
        """Called by an idle thread: block until woken or opened for good.

        After a wake the thread must call `looked` when its claim is done.
        """
        turn = threading.Lock()
        turn.acquire()
        with self._lock:
            if self._open:
                return
            self._idle.append(turn)
            self._for_waker.notify()
        try:
            _wait_for(turn)
        except BaseException:  # raised by another thread: a thread that is gone must not be woken
            with self._lock, contextlib.suppress(ValueError):
                self._idle.remove(turn)
            raise

    def looked(self, *, found: bool) -> None:
        """Called by a woken thread after its claim: whether it found jobs."""
        with self._lock:
            self.futile_wakes = 0 if found else self.futile_wakes + 1
            if self._waking:
                self._waking -= 1
                self._for_waker.notify()

    def wake_one(self) -> None:
        """Let one idle thread look: the last one that came, whose memory is warm."""
        with self._lock:
            if self._idle:
                self._waking += 1
                self._idle.pop().release()

    def wait_for_idle(self) -> bool:
        """Called by the waker: block until a thread is idle and none is looking; False = opened."""
        with self._lock:
            threads.rest()
            while not self._for_waker.wait_for(
                lambda: self._open or (self._idle and not self._waking), self._safety_look_s
            ):
                # The woken thread has not looked in all that time, and may have been interrupted
                # before it called `looked`.
                self._waking = 0
            return not self._open

    def open(self) -> None:
        """Let every thread through from now on: the process stops."""
        with self._lock:
            self._open = True
            for turn in self._idle:
                turn.release()
            self._idle.clear()
            self._for_waker.notify()


@frames.may_take_long
def _wait_for(turn: threading.Lock) -> None:
    turn.acquire()


class Waker:
    """The thread that watches the queues while a thread is idle."""

    def __init__(
        self,
        gate: IdleGate,
        queues: Sequence[str],
        keys: Keys,
        connect: Callable[[], AbstractConnection],
        is_tight: Callable[[], bool] = lambda: False,
    ) -> None:
        self._gate = gate
        self._is_tight = is_tight
        self._queues = queues
        self._keys = keys
        self._tracking = TrackingConnection(connect)
        self._paused: set[str] = set()
        self._is_quiet = False
        self._thread = self._new_thread()
        self._stopping = threading.Event()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End; the gate must be opened by the caller."""
        self._stopping.set()

    def restart(self) -> None:
        """Start its thread anew, after that has ended though it should run."""
        self._thread = self._new_thread()
        self._thread.start()

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name="kiqbridge-waker", daemon=True)

    def _run(self) -> None:
        keep_running(
            "waker",
            self._watch,
            is_ending=self._stopping.is_set,
            wait=self._stopping.wait,
        )

    def _watch(self) -> None:
        while self._gate.wait_for_idle() and not self._stopping.is_set():
            threads.beat()
            try:
                if self._look():
                    futile = self._gate.futile_wakes - FUTILE_WAKES
                    if self._is_tight():
                        # What was found may be what there is no room for; a free place wakes by itself.
                        self._stopping.wait(TIGHT_LOOK_S)
                    elif futile > 0:
                        self._stopping.wait(0.001 * 2 ** min(futile, 8))
                    self._gate.wake_one()
                else:
                    news = self._tracking.wait(SAFETY_LOOK_S)
                    self._is_quiet = self._tracking.tracks and not news
                    # Who got the last job takes the news for a job at once, without a look before;
                    # in a fleet the others look, so that one push does not make all of them claim.
                    if news and not self._gate.futile_wakes and not self._paused:
                        self._gate.wake_one()
            except FAILURES as error:
                logger.debug("watching the queues failed: %s", error)
                self._gate.wake_one()  # its claim reports the outage and waits it out
                self._stopping.wait(RETRY_S)
            except Exception:
                # An answer that makes no sense: the connection is out of step. Without this thread
                # no idle thread would ever begin a job again.
                if self._stopping.is_set():  # closed by the thread that stops it
                    return
                logger.exception("watching the queues failed; it is tried again")
                self._tracking.close()
                self._gate.wake_one()
                self._stopping.wait(RETRY_S)

    def _look(self) -> bool:
        """Whether any queue that is not paused has jobs; arms all of them."""
        is_quiet, self._is_quiet = self._is_quiet, False
        if is_quiet and not self._paused:
            # Then nothing is paused still. Should the news of it have been passed over, what is found
            # here has the next look ask, and claims know it anyway.
            every = [self._keys.queue(name) for name in self._queues]
            return bool(self._tracking.read(("EXISTS", *every))[0])
        members = ("SMEMBERS", self._keys.paused)
        names: set[str] = set()
        while True:
            served = [self._keys.queue(name) for name in self._queues if name not in names]
            if not served:
                return False
            # With the set each time: the news of a change that came between two looks is passed over.
            paused, found = self._tracking.read(members, ("EXISTS", *served))
            seen, names = names, {text_of(name) for name in paused}
            self._paused = names
            if seen == names or not (seen or found):
                return bool(found)
