"""Room for jobs: how many of a kind may run here at once, and which must not be claimed meanwhile.

A thread claims jobs of all kinds; `async def` ones need a place on the event loop, those for the process
pool a child. What has been claimed and cannot begin would be held from idle processes, and its thread
from plain jobs. So a claimed job waits for a place 20 ms at most, as look-ahead lets any job wait; that
is enough while jobs are short. After a wait in vain its kind is *tight*:

1. what cannot begin goes back to its queue, and other processes take it;
2. of that kind only as many jobs are claimed as there are places, and none while there are none: claims
   pass over a queue whose next job is of one of its classes, and go on with other queues;
3. when a place becomes free, an idle thread is woken;
4. the kind is no longer tight once a tenth of many places is free, or a second later if one is.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kiqbridge.client.registry import JobDefinition
    from kiqbridge.engine.perform.execution import Execution, Performing
    from kiqbridge.engine.settle.retry import RetryPolicy
    from kiqbridge.runtime.role import Role

WAIT_S = 0.020
"""How long a claimed job waits for a place: as long as one waits behind a job, see `fetch.SHORT_S`."""

LOOK_S = 0.005
"""How often a waiting thread looks, if less than a tenth of the places is free."""

MANY = 20
"""With fewer places a tenth is no measure: each free place would count."""

RELAX_S = 1.0
"""How long a kind is tight at least, if it has few places or never a tenth of them is free."""


def low_mark(limit: int) -> int:
    """The number of taken places that counts as room again: a tenth is free, and at least one place."""
    return limit - max(limit // 10, 1)


class Slots:
    """Places for jobs of one kind.

    Attributes:
        limit: how many jobs at once.
        taken: how many run, or are about to.
        is_tight: a job has waited for a place in vain.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.is_tight = False
        self._low = low_mark(limit)
        self._relaxed = self._low if limit >= MANY else -1
        self._changed = threading.Condition()
        self._waiting = False
        self._queue: list[object] = []
        self._shut = False
        self._tight_since = 0.0
        self._listeners: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"<Slots {self.taken} of {self.limit} taken{', tight' if self.is_tight else ''}>"

    @property
    def free(self) -> int:
        """How many jobs could begin now."""
        return 0 if self._shut else self.limit - self.taken

    def on_free(self, listener: Callable[[], object]) -> None:
        """Call this when a place becomes free after a job has waited in vain; it must not block."""
        self._listeners.append(listener)

    def enter(self, give_up: threading.Event, wait_s: float = WAIT_S) -> bool:
        """Take a place, waiting so many seconds at most; False: there was none, or it was given up."""
        with self._changed:
            if self._take(len(self._queue)):
                return True
            if self.is_tight:
                return False
            return self._wait(give_up, time.monotonic() + wait_s)

    def leave(self) -> None:
        """Give the place back."""
        with self._changed:
            self.taken -= 1
            # Not for each: notifying costs more than the rest of this.
            if self._waiting and self.taken <= self._low:
                self._waiting = False
                self._changed.notify_all()
            if not self.is_tight:
                return
            self.is_tight = self._shut or self.taken > self._relaxed
        self._announce()

    def relax(self, now: float) -> None:
        """Be tight no longer, if there is a place and that was a while ago; `now` is monotonic."""
        with self._changed:
            if self.free > 0 and now - self._tight_since >= RELAX_S:
                self.is_tight = False

    def shut(self) -> None:
        """Let none in for now, whatever is free."""
        with self._changed:
            self._shut = self.is_tight = True

    def open(self) -> None:
        """Let them in again."""
        with self._changed:
            self._shut = self.is_tight = False
        self._announce()

    def wait_empty(self, deadline: float) -> bool:
        """Wait until no place is taken, or for the deadline on `time.monotonic`; whether none is."""
        with self._changed:
            while self.taken and (left := deadline - time.monotonic()) > 0:
                self._waiting = True
                self._changed.wait(left)
            return not self.taken

    def _wait(self, give_up: threading.Event, until: float) -> bool:
        # In turn: else one of many that wait for short jobs might find no place though all get on.
        turn = object()
        self._queue.append(turn)
        try:
            while (left := until - time.monotonic()) > 0:
                self._waiting = True
                self._changed.wait(min(left, LOOK_S))
                if give_up.is_set():
                    return False
                if self._take(self._queue.index(turn)):
                    return True
        finally:
            self._queue.remove(turn)
        self.is_tight = True
        self._tight_since = time.monotonic()
        return False

    def _take(self, ahead: int) -> bool:
        """Take a place, if there is one besides those for so many who came before."""
        if self._shut or self.limit - self.taken <= ahead:
            return False
        self.taken += 1
        return True

    def _announce(self) -> None:
        for listener in self._listeners:
            listener()


class SlotsByKind:
    """The rooms that the jobs of one capsule need, and what its threads may claim.

    `declared` is asked only while a room is tight. `rooms` are by kind, as in `Handling.pool`; a kind
    without one runs on the thread that claimed it.
    """

    def __init__(self, declared: "Iterable[JobDefinition]", by_kind: Mapping[str, Slots]) -> None:
        self._declared = declared
        self._by_kind = dict(by_kind)
        self._all = list(by_kind.values())

    @property
    def is_tight(self) -> bool:
        """Whether any of them is."""
        for slots in self._all:  # noqa: SIM110 - asked before each claim; a generator takes five times as long
            if slots.is_tight:
                return True
        return False

    def allowance(self, most: int) -> tuple[int, Sequence[str]]:
        """How many jobs to claim instead of `most`, and classes of which none may be claimed."""
        for slots in self._all:
            if slots.is_tight:
                slots.relax(time.monotonic())
        tight = {kind: slots.free for kind, slots in self._by_kind.items() if slots.is_tight}
        if not tight:
            return most, []
        full = [kind for kind, free in tight.items() if free <= 0]
        least = min((free for free in tight.values() if free > 0), default=most)
        names = [each.name for each in self._declared if each.handling.pool in full]
        return min(most, least), [spelling for name in names for spelling in spellings(name)]


def spellings(name: str) -> Sequence[str]:
    """How a class' name may stand in a JSON text, without the quotes."""
    plain = json.dumps(name, ensure_ascii=False)[1:-1]
    escaped = json.dumps(name)[1:-1]
    return (plain,) if plain == escaped else (plain, escaped)


class JobPool(Protocol):
    """Another place where jobs run than the threads of a worker, which a feature brings (the seam `pools`).

    It runs jobs of one kind for the threads that have claimed them, each of which waits for the end.

    Attributes:
        slots: room for these jobs; shut while none can begin.
        starter: the thread that it needs.
    """

    slots: Slots
    starter: "Role"

    def perform_job(
        self,
        definition: "JobDefinition",
        execution: "Execution",
        thread: "Performing",
        *,
        capsule: str,
        policy: "Callable[[], RetryPolicy]",
    ) -> None:
        """Run a job within the middleware of its capsule; what it returned is in the execution.

        Raises:
            Shutdown: interrupted; the job has been given back.
            NotBegun: it could not begin.
            BaseException: what stands for what the job raised.
        """

    def note_start(self) -> None:
        """The process is set up: jobs may change it from now on."""

    def quiet(self) -> None:
        """Let running jobs know that they should come to an end soon."""

    def stacks(self) -> Mapping[str, str]:
        """Where the jobs are in their code, or why that is not known, by the id of the thread that waits for each."""

    def interrupt(self, owner: object) -> None:
        """End the job of this thread, which was given back; it performs none after it."""

    def end_one(self, owner: object) -> None:
        """End the job of this thread, which was taken away; it performs others after it."""

    def stop(self) -> None:
        """End all jobs."""
