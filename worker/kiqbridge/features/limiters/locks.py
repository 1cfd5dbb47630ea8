"""The locks of concurrent limiters that this process holds, and the thread that looks after them.

1. `hold`: a lock was taken. One without an owner, outside a worker or in a child process, is renewed by the
   thread as long as the process lives.
2. `give_back`: at once. Where Redis is away the thread gives it back later: the job is done, and must not
   fail because of it, and no lock may stay while its worker lives.

A process that is killed gives nothing back: its locks become void (docs/how_to/limiters.md).
"""

import logging
import os
import queue
import threading
import time
from dataclasses import dataclass
from typing import Final

from kiqbridge.client.current import CONTEXT
from kiqbridge.errors import JobTimeout, KiqbridgeError
from kiqbridge.features.limiters.store import Lock, give_back_lock, renew_lock
from kiqbridge.runtime.role import OF_PROCESS, LazyRole

logger = logging.getLogger(__name__)

RENEWALS: Final = 3
"""How often a lock is renewed while it is valid: two may fail."""

RETRY_S: Final = 1.0

LONGEST_JOB: Final = 200
"""Characters of jid and class that a lock carries."""

_WORK: Final = "renewing and giving back locks of limiters"


@dataclass(slots=True, eq=False)
class Held:
    """A lock of this process.

    Attributes:
        pid: of the process that took it; what that has forked does not give it back.
        renew_at: on `time.monotonic`; infinite for a worker's own.
        is_over: to be given back, or given back already.
    """

    lock: Lock
    pid: int
    renew_at: float
    is_over: bool = False


def new_token() -> str:
    """A name for a lock that no other has; for operators with jid and class of the job that runs here."""
    running, token = CONTEXT.get(), os.urandom(12).hex()
    if running is None:
        return token
    words = f"{running[0].get('jid')} {running[0].get('class')}"
    return f"{token} {words}" if words.isascii() and len(words) <= LONGEST_JOB else token


def hold(lock: Lock) -> Held:
    """A lock was taken."""
    step_s = lock.valid_s / RENEWALS
    held = Held(lock, os.getpid(), float("inf") if lock.owner else time.monotonic() + step_s)
    if not lock.owner:
        _keeper().put(held)
    return held


def give_back(held: Held) -> None:
    """Give a lock back; never raises what Redis does. Nothing in a process that was forked since."""
    if held.is_over or held.pid != os.getpid():
        return
    held.is_over = True
    try:
        give_back_lock(held.lock)
    except BaseException as error:
        _keeper().put(held)  # also after an interruption: a second time does nothing
        if isinstance(error, JobTimeout) or not isinstance(error, KiqbridgeError):
            raise
        logger.warning(
            "a lock of %s is given back later, and counts until then: %s", held.lock.key, error
        )


class Keeper:
    """Renews locks, and gives back what could not be; one thread, started with the first of them."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[Held] = queue.SimpleQueue()
        self._renewed: set[Held] = set()
        self._late: set[Held] = set()
        self._refused = ""
        self._thread = LazyRole(
            "limiter locks",
            self._look_on,
            without="locks of limiters are neither renewed nor given back later",
        )

    def put(self, held: Held) -> None:
        """Renew this one until it is over; give one that is over back as soon as Redis is there."""
        self._inbox.put(held)
        self._thread.wake()

    def look(self, now: float) -> None:
        """Renew what is due, and give back what is over."""
        for held in list(self._renewed):
            if held.is_over:
                self._renewed.discard(held)
            elif now >= held.renew_at:
                self._renew(held, now)
        for held in list(self._late):
            try:
                give_back_lock(held.lock)
            except KiqbridgeError as error:
                self._report(error)
                return
            self._late.discard(held)
            self._worked()
        if not self._renewed:  # none is late, either: nothing is left that could be refused
            self._worked()

    def next_s(self, now: float) -> float | None:
        """Seconds until there is something to do; None: not before another lock comes."""
        if self._late:
            return RETRY_S
        if not self._renewed:
            return None
        return max(min(held.renew_at for held in self._renewed) - now, 0.0)

    def receive(self, held: Held) -> None:
        """Look after this one."""
        (self._late if held.is_over else self._renewed).add(held)

    def _report(self, error: KiqbridgeError) -> None:
        if error.may_pass or str(error) == self._refused:
            logger.debug("locks of limiters wait for Redis: %s", error)
            return
        self._refused = str(error)  # once, not at each try
        text = f"locks of limiters are neither renewed nor given back: {error}"
        OF_PROCESS.set(_WORK, text)
        logger.warning("%s; it is tried again", text)

    def _worked(self) -> None:
        if self._refused:
            self._refused = ""
            OF_PROCESS.clear(_WORK)
            logger.warning("%s works again", _WORK)

    def _renew(self, held: Held, now: float) -> None:
        step_s = held.lock.valid_s / RENEWALS
        try:
            is_held = renew_lock(held.lock)
        except KiqbridgeError as error:
            self._report(error)
            held.renew_at = now + min(step_s, RETRY_S)
            return
        self._worked()
        held.renew_at = now + step_s
        if not is_held and not held.is_over:
            self._renewed.discard(held)
            logger.warning(
                "a lock of %s was lost, since it was not renewed in time or the limiter was reset: its job continues, and is not counted any more",
                held.lock.key,
            )

    def _look_on(self) -> None:
        while True:
            try:
                held = self._inbox.get(timeout=self.next_s(time.monotonic()))
            except queue.Empty:
                self.look(time.monotonic())
            else:
                self.receive(held)


_making = threading.Lock()
_current: Keeper | None = None


def _keeper() -> Keeper:
    """That of this process."""
    global _current  # noqa: PLW0603 - one thread for the process
    with _making:
        if _current is None:
            _current = Keeper()
        return _current


def _begin_anew() -> None:
    """In a process that was forked: the locks are its parent's."""
    global _current, _making
    _current, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)
