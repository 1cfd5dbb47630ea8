"""The jobs of one claim while this process holds them: who has which, and what Redis has not confirmed yet.

Nothing here touches Redis. Who writes (claims.py, settling.py, bookkeeping.py) asks a chunk what is to be
written, and reports what Redis has confirmed.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kiqbridge.engine.inflight.lease import Lease
from kiqbridge.runtime.records import dataclass

NO_LEASE = Lease("")
"""The lease of jobs that were popped (fetch.py): no list holds such a job, so no process can take it away."""
NO_LEASE.valid_until = float("inf")


@dataclass(slots=True, eq=False)
class _Returning:
    """A job on its way back to its queue; `is_fresh`: it was waiting, and no script has been sent for it."""

    text: bytes
    is_fresh: bool


class Chunk:
    """Jobs of one claim; all of them stay in the claimer's list in Redis until something is confirmed.

    Here each job is in one of these states:

        waiting    not begun                                            take → running, revoke → returning
        running    the owner has it                                     finish, end, hand_over, … (below)
        done       finished by the owner, acknowledged with the chunk; in a shared chunk one by one
        pending    handed over to the event loop, where it is settled   gone, release → gone,
                   or acknowledged by itself                            put_back → returning
        ended      what becomes of it is to be written                  written → gone
        returning  being given back to its queue: no thread begins    returned → gone, restore → waiting
                   it any more
        gone       Redis has confirmed what became of it, or the lease is lost and somebody else has it

    Four kinds of threads use a chunk:

    - the owner, one processor thread, takes the oldest job, runs it, and reports its end: `finish` (done),
      `end` (ended), `hand_over` (pending), `put_back_running` (returning) or `settled` (gone: written by
      itself);
    - the prefetch revoker revokes what waits behind a long job, and writes what ended before it;
    - the manager, at the deadline of a stop, revokes all that is not finished, the running job included;
    - the event loop and the bookkeeper put pending jobs back, and release those that are gone.

    Locks, in this order:

    1. `writing` is held by the thread that gives back or writes ends, for one attempt: never while waiting for
       Redis to come back. It also covers `revoke`, `revoke_unfinished` and `restore`, so that jobs are revoked
       and given back in one step for everybody else.
    2. `_lock` guards the lists below; it is held for some instructions, and never while Redis is asked.
    3. `take`, `finish` and `end` are called for each job and take no lock. They rest on single operations of
       `deque` and `list` being atomic, and on their order: a job is announced as running before it leaves the
       waiting ones, and a thread that revokes empties the waiting ones before it looks at the running one. So no job
       is missed, and one that is seen in both places is counted once.

    Invariants:

    - each job is taken by one side only: by the owner, or by the thread that revokes;
    - what is returning is never begun here, unless Redis answered that it was not moved (`restore`);
    - the claim may be acknowledged as a whole (`may_be_acknowledged`) only if no job waits, runs, returns, or
      has ended without being written, and no job is pending;
    - the claimer of a shared chunk is free for another claim (`on_free`, called once) only when the owner has
      left the chunk and each job that was pending is gone.

    Attributes:
        lease: under which they were claimed; `size`: how many; `on_return`: called with how many of them went back.
        queue: its name; `home`: key of the list that they came from and go back to.
        list_key: the claimer's list that holds them in Redis.
        tid, sequence: who claimed them, and the number of that claim. What is written about its jobs
            carries both, so that a call that is delivered late cannot touch a later claim.
        writing: see above.
    """

    __slots__ = (
        "_copies", "_done", "_ended", "_has_left", "_held", "_last_revoked", "_lock",
        "_notifications", "_on_free", "_returning", "_running", "_waiting", "home", "lease",
        "list_key", "on_return", "queue", "sequence", "size", "tid", "writing",
    )  # fmt: skip

    def __init__(
        self,
        *,
        lease: Lease,
        queue: str,
        home: str,
        list_key: str,
        jobs: Iterable[bytes],
        tid: str = "",
        sequence: int = 0,
    ) -> None:
        """`jobs` are the texts, newest first."""
        self.lease = lease
        self.queue = queue
        self.home = home
        self.list_key = list_key
        self.tid = tid
        self.sequence = sequence
        self.writing = threading.Lock()
        self._lock = threading.RLock()  # `hand_over_done` may be answered by `release` at once
        self._waiting = deque(jobs)  # newest on the left
        self.size = len(self._waiting)
        self.on_return: Callable[[int], object] = bool
        self._running: bytes | None = None
        self._done: list[bytes] = []
        self._ended: list[tuple[bytes, Any]] = []
        self._notifications: list[Callable[[], object]] = []
        self._returning: list[_Returning] = []  # newest first, as far as they were waiting
        self._last_revoked: bytes | None = None
        self._on_free: Callable[[], object] | None = None
        self._held = 0
        self._has_left = False
        self._copies: Counter[bytes] | None = None

    def __repr__(self) -> str:
        return (
            f"<Chunk {self.tid}#{self.sequence} of {self.queue}: {len(self._waiting)} waiting, "
            f"{0 if self._running is None else 1} running, {len(self._done)} done, "
            f"{self.pending} pending, {len(self._ended)} ended, {len(self._returning)} returning>"
        )

    @property
    def is_popped(self) -> bool:
        """Whether its jobs were popped, and are in no list that names their owner."""
        return self.lease is NO_LEASE

    @property
    def waiting(self) -> Sequence[bytes]:
        """The jobs that are not begun, newest first."""
        return tuple(self._waiting)

    @property
    def running(self) -> bytes | None:
        """The job that the owner has, unless it was revoked."""
        return self._running

    @property
    def done(self) -> Sequence[bytes]:
        """The jobs that the owner has finished, and that are acknowledged with the chunk."""
        return tuple(self._done)

    @property
    def ended(self) -> Sequence[tuple[bytes, Any]]:
        """Jobs of which is to be written what becomes of them, each with its settlement."""
        return tuple(self._ended)

    @property
    def returning(self) -> Sequence[bytes]:
        """Jobs that are being given back, in the order in which they are to be pushed."""
        return tuple(each.text for each in list(self._returning))

    @property
    def pending(self) -> int:
        """How many jobs were handed over and are not gone yet."""
        return self._held if self._has_left or not self.is_shared else self._held - 1

    @property
    def is_shared(self) -> bool:
        """Whether jobs of it were handed over: all others are acknowledged one by one then."""
        return self._on_free is not None

    def copies_of(self, text: bytes) -> int | None:
        """How many jobs with these bytes the list in Redis holds, as far as that is confirmed.

        None: never more than one, or the chunk is not shared.
        """
        if self._copies is None:  # made before the first job was handed over, or never
            return None
        with self._lock:
            return self._copies.get(text)

    @property
    def has_waiting(self) -> bool:
        """Whether some job is not begun."""
        return bool(self._waiting)

    @property
    def has_ended(self) -> bool:
        """Whether the end of a job is to be written, or to be notified of."""
        return bool(self._ended or self._notifications)

    def may_be_left(self) -> bool:
        """Whether the owner has nothing to do here any more: its next claim would lose no job."""
        with self._lock:
            return not (self._waiting or self._returning or self._ended) and self._running is None

    def may_be_acknowledged(self) -> bool:
        """Whether the whole claim may be acknowledged: Redis then forgets all of its jobs."""
        return not self.is_shared and self.may_be_left()

    def take(self) -> bytes | None:
        """The oldest job that waits, which runs from now on; None: none waits."""
        try:
            # Announced first: an error that is raised in this thread, or a thread that revokes, may come in between.
            self._running = self._waiting[-1]
            return self._waiting.pop()
        except IndexError:
            self._running = None
            return None

    def finish(self) -> None:
        """The running job has succeeded, or was discarded; if it was revoked meanwhile, it runs again."""
        text = self._running
        self._running = None
        if text is not None:
            self._done.append(text)

    def end(self, settlement: Any) -> bool:
        """The running job has ended; what is to be written of it waits. False: it was revoked meanwhile."""
        text = self._running
        if text is None:
            return False
        # First: in between the chunk must not look as if it could be acknowledged.
        self._ended.append((text, settlement))
        self._running = None
        return True

    def hand_over(self) -> None:
        """The running job is on the event loop, which holds it (see `hold`)."""
        self._running = None

    def settled(self) -> None:
        """What becomes of the running job is written by itself."""
        with self._lock:
            text, self._running = self._running, None
            if text is not None:
                self._forget_copies([text])

    def put_back_running(self) -> None:
        """The running job was interrupted, and goes back to its queue, unless it was revoked already."""
        with self._lock:
            text = self._running
            if text is not None:
                # First: an error that is raised in this thread may come in between.
                self._returning.append(_Returning(text, is_fresh=False))
                self._running = None

    def drop(self) -> None:
        """The lease is lost: what is not begun is somebody else's."""
        with self._lock:
            self._waiting.clear()
            self._running = None

    def revoke(self) -> None:
        """Take all that waits from the owner, to be given back."""
        self._require_writing()
        with self._lock:
            self._revoke_waiting()

    def revoke_unfinished(self) -> None:
        """Take all that waits from the owner, and the running job too, which may go on meanwhile."""
        self._require_writing()
        with self._lock:
            self._revoke_waiting()
            text = self._running
            if text is None:
                return
            # The owner may have announced a job that was revoked just before it could take it. (CPython keeps
            # one object for all texts of one byte: there twice is better than not at all.)
            if text is not self._last_revoked or len(text) <= 1:
                self._returning.append(_Returning(text, is_fresh=False))
            self._running = None

    def _revoke_waiting(self) -> None:
        while True:
            try:
                text = self._waiting.popleft()
            except IndexError:
                return
            self._returning.append(_Returning(text, is_fresh=True))
            self._last_revoked = text

    def put_back(self, texts: Iterable[bytes]) -> None:
        """Pending jobs cannot go on here: they are to be given back. Needs no `writing`."""
        with self._lock:
            self._returning += [_Returning(text, is_fresh=False) for text in texts]

    def sent(self, count: int) -> None:
        """A script was sent for the first `count` that are returning, and its answer is unknown."""
        self._require_writing()
        with self._lock:
            for each in self._returning[:count]:
                each.is_fresh = False

    def returned(self, count: int) -> None:
        """Redis has confirmed the first `count` that are returning: they are in the queue, or not ours."""
        self._require_writing()
        with self._lock:
            self._forget_copies([each.text for each in self._returning[:count]])
            del self._returning[:count]

    def restore(self) -> None:
        """Redis answered that it moved nothing: what was revoked waits again, unless it may have been moved before."""
        self._require_writing()
        with self._lock:
            fresh = [each.text for each in self._returning if each.is_fresh]
            self._returning = [each for each in self._returning if not each.is_fresh]
            self._last_revoked = None
            self._waiting.extendleft(reversed(fresh))

    def written(self, count: int, notifications: Iterable[Callable[[], object]]) -> None:
        """Redis has the first `count` ends; `notifications` are to be called for them."""
        self._require_writing()
        with self._lock:
            self._notifications += notifications
            self._forget_copies([text for text, _ in self._ended[:count]])
            del self._ended[:count]

    def take_notifications(self) -> list[Callable[[], Any]]:
        """What is to be called for ends that are written; the caller does so without any lock."""
        with self._lock:
            notifications, self._notifications = self._notifications, []
            return notifications

    def share(self, on_free: Callable[[], object]) -> None:
        """Jobs of it are to be handed over; `on_free` is called when its claimer may claim again."""
        with self._lock:
            if self._on_free is not None:
                return
            self._on_free = on_free
            self._held = 1  # by the owner
            # From now on jobs leave the list in Redis one by one, by their bytes, and a call whose reply was lost
            # is repeated: it must not remove a twin that is still to be finished.
            texts = [*self._waiting, *self._done, *[text for text, _ in self._ended]]
            texts += [each.text for each in self._returning]
            texts += [] if self._running is None else [self._running]
            if len(set(texts)) < len(texts):  # counting takes ten times as long, and twins are rare
                self._copies = Counter({text: n for text, n in Counter(texts).items() if n > 1})

    def hold(self) -> None:
        """One more job is pending."""
        with self._lock:
            if self._on_free is not None:
                self._held += 1

    def gone(self, *texts: bytes) -> None:
        """Note that these pending jobs were acknowledged or settled one by one, or taken away."""
        if self._copies is not None:  # made before the first job was handed over, or never
            with self._lock:
                self._forget_copies(texts)
        self.release(len(texts))

    def release(self, count: int = 1) -> None:
        """Note that `count` pending jobs are gone: given back, or owned by another process; see `gone` for other jobs."""
        with self._lock:
            on_free = self._on_free
            if on_free is None:
                return
            self._held -= count
            is_free = self._held == 0
        if is_free:
            on_free()

    def _forget_copies(self, texts: Iterable[bytes]) -> None:
        if (copies := self._copies) is not None:
            copies.subtract(text for text in texts if text in copies)

    def hand_over_done(self, ended: Callable[[bytes], object]) -> None:
        """Report each job that is done to `ended`; it is pending from then on."""
        with self._lock:
            while self._done:
                self._held += 1
                ended(self._done[0])
                del self._done[0]  # last: after an error up to here it is reported once more

    def leave(self) -> None:
        """The owner goes on with other chunks."""
        with self._lock:
            if self._has_left or self._on_free is None:
                return
            self._has_left = True
        self.release()

    def _require_writing(self) -> None:
        if not self.writing.locked():
            raise RuntimeError("the caller must hold the lock `writing`")
