"""Where idle threads wait, and how one of them gets to know of a push at next to no cost while nothing happens.

One idle thread of a capsule is the *reader*: it waits on a connection of its capsule for the news of a push
(listening.py) and claims at once, without a change of threads on the way. When it has got a job, another idle
thread becomes the reader. All others wait at locks of their own: waking all to let one through would take
longer than its job. Nothing that could be lost travels here: a job is moved only by a claim.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kiqbridge.runtime import frames

if TYPE_CHECKING:
    from kiqbridge.engine.inflight.chunk import Chunk
    from kiqbridge.engine.perform.listening import Listening, PendingClaim


class IdleGate:
    """Where the threads of a capsule wait while they have no work.

    Args:
        listening: what the reader waits at; None: threads are woken by `wake_one` alone.
        shares: whether few jobs are shared among idle threads now.

    Attributes:
        comes_in_bursts: the last push was of more than one job: a thread found others after what it had been woken for.
    """

    def __init__(
        self, listening: "Listening | None" = None, *, shares: Callable[[], bool] = lambda: False
    ) -> None:
        self._listening = listening
        self._shares = shares
        self._lock = threading.Lock()
        self._idle: list[threading.Lock] = []
        self._reader: threading.Thread | None = None
        self._promised: threading.Lock | None = None
        self._is_read = False
        self._open = False
        self.comes_in_bursts = False

    def __repr__(self) -> str:
        return f"<IdleGate {'open' if self._open else f'{self.idle} idle'}>"

    @property
    def idle(self) -> int:
        """How many threads wait."""
        return len(self._idle) + self._is_read

    def sharers(self) -> int:
        """With how many waiting threads the one that claims is to share; 0: it takes what it may."""
        return len(self._idle) if self._idle and self._shares() else 0

    def most_at_news(self, most: int) -> int:
        """How many jobs the reader takes at a push, which may take `most`: one costs the server the least."""
        return most if self.comes_in_bursts and not self.sharers() else 1

    @property
    def alive(self) -> bool:
        """Whether a thread is the reader, if there are idle ones."""
        reader = self._reader
        if self._listening is None or self._promised is not None or not self._idle:
            return True
        return reader is not None and reader.is_alive()

    def restart(self) -> None:
        """Make an idle thread the reader, if the one that was has ended."""
        with self._lock:
            if self._promised is None and (self._reader is None or not self._reader.is_alive()):
                self._promote()

    def wait_for_work(self, pending: "PendingClaim | None" = None) -> "Chunk | None":
        """Called by an idle thread: block until there may be work, or the gate is opened for good.

        Jobs that were claimed for it already, by its `pending`; None: it is to claim by itself. Afterwards the
        thread must call `looked` when it knows whether there were jobs.
        """
        me = threading.current_thread()
        turn = threading.Lock()
        turn.acquire()
        with self._lock:
            if self._open:
                return None
            if self._listening is not None and self._reader in (None, me) and not self._promised:
                self._reader = me
            else:
                self._idle.append(turn)
        if self._reader is not me:
            try:
                _wait_for(turn)
            except BaseException:  # raised by another thread: one that is gone must not be woken
                with self._lock, contextlib.suppress(ValueError):
                    if self._promised is turn:
                        self._promised = None
                        self._promote()
                    else:
                        self._idle.remove(turn)
                raise
            with self._lock:
                if self._promised is not turn:
                    return None
                self._promised, self._reader = None, me
        return self._read(pending)

    def looked(self, *, found: bool) -> None:
        """Called by a woken thread when it knows whether there were jobs; who found none stays the reader."""
        if self._listening is None or self._reader is not threading.current_thread():
            return
        self._listening.looked(found=found)
        if found:
            self._pass_on()

    def wake_one(self) -> None:
        """Let one idle thread look: the last one that came, whose memory is warm; the reader if it is the only one."""
        with self._lock:
            if self._idle:
                self._idle.pop().release()
            elif self._is_read and self._listening is not None:
                self._listening.interrupt()

    def open(self) -> None:
        """Let every thread through from now on: the process stops."""
        with self._lock:
            self._open = True
            self._promised = None
            for turn in self._idle:
                turn.release()
            self._idle.clear()
            if self._listening is not None:
                self._listening.interrupt()

    def _read(self, pending: "PendingClaim | None") -> "Chunk | None":
        assert self._listening is not None  # noqa: S101 - for the type checker
        try:
            self._is_read = True
            if self._open:
                self._listening.interrupt()
            chunk = self._listening.wait(pending)
            self._is_read = False
            if self._open:
                self._listening.leave()
                self._listening.close()
                self._reader = None
        except BaseException:  # raised by another thread: it may not come back
            self._is_read = False
            self._pass_on()
            raise
        return chunk

    def _pass_on(self) -> None:
        """The reader has something else to do: another idle thread takes its place, if there is one."""
        with self._lock:
            if self._idle or self._open or self._listening is None:
                self._promote()
                return
        # Before others can come to wait on the same connection.
        self._listening.leave()
        with self._lock:
            self._promote()

    def _promote(self) -> None:
        self._reader = None
        if self._idle and not self._open:
            self._promised = self._idle.pop()
            self._promised.release()


@frames.may_take_long
def _wait_for(turn: threading.Lock) -> None:
    turn.acquire()
