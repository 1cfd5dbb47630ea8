"""Letting jobs that may kill their process run alone, one at a time in the whole fleet.

A job that was found orphaned too often (recovery.py) is a suspect, not a culprit: neighbours of a
killer, and jobs that were running at three deploys, look the same. So each suspect runs once in a
child process of its own, where it can harm no other job. Then it is known:

1. it succeeds: it was innocent, and its count is forgotten;
2. it raises: that is an ordinary failure, with the ordinary retries;
3. its child dies while its parent lives: it is the killer, and goes to the dead set with the signal's
   name;
4. the parent dies too: nothing is known, and the reaper makes it a suspect again.

A suspect is claimed as any job is, so it lies in a registered in-flight list while it runs. Only the
child parses it: a text may kill by the memory that it takes as objects, and then it kills the child.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import Claimer, give_back
from kiqbridge.engine.inflight.lease import Lease
from kiqbridge.engine.inflight.outage import retry_until_written
from kiqbridge.engine.inflight.reaping import forget_orphan, orphan_id
from kiqbridge.engine.parts import EngineParts
from kiqbridge.engine.perform.execution import NotBegun
from kiqbridge.engine.perform.job_logger import TID
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.engine.settle.ending import Settlement
from kiqbridge.errors import KiqbridgeError, ProcessDied, Shutdown
from kiqbridge.features.process_pool.child import Child, TimeLimitReached, stacks_of
from kiqbridge.features.process_pool.pool import ProcessPool
from kiqbridge.features.suspects.runner import SuspectRunner
from kiqbridge.runtime import threads
from kiqbridge.runtime.clock import lease_now, wall_now
from kiqbridge.runtime.hints import Hint
from kiqbridge.runtime.role import Role, Until
from kiqbridge.store.leadership import Lead

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_S = 5.0
"""Seconds between two looks for suspects, while there are any."""

HEAR_S = 1.0
"""Seconds between two times that this thread asks whether there are any, as the beat of the lease has it."""

LOCK_S = 10.0
RENEW_S = 3.0
RETRY_S = 1.0

TURN_S = 600.0
"""One that has run alone for so long has ended nothing yet: another worker may run the next one beside it."""

GRACE_S = 1.0
"""Who kills a whole group kills the parent in the same breath: it must outlive the child by so much
before the job is blamed."""


class Isolation(Role):
    """The thread that looks for suspects and runs them.

    `runner` gives, for the name of a queue, what orders are made of and what answers become.

    Attributes:
        tid: as a processor's, for the heartbeat and the log.
        current: the suspect that runs, if one does.
        processed, failed: how many so far; only ever counted up, and only by this thread.
        runs_jobs: it is waited for as the jobs are.
        suspects: how many waited at the last look, by queue; `suspects_since`: for how long this
            process has seen some, on `lease_now`.
    """

    runs_jobs = True

    def __init__(
        self,
        parts: EngineParts,
        *,
        tid: str,
        queues: Sequence[str],
        pool: ProcessPool,
        runner: Callable[[str], SuspectRunner],
        look_s: float = LOOK_S,
    ) -> None:
        super().__init__(
            "isolation", self._look_on, work="running suspects alone", until=Until.QUIET
        )
        self.tid = tid
        self.current: RunningJob | None = None
        self.processed = 0
        self.failed = 0
        self.suspects: Mapping[str, int] = {}
        self.suspects_since = 0.0
        self._queues = queues
        self._keys = keys = parts.keys
        self._connection = parts.connect()
        self._lead = Lead(self._connection, keys.isolation, parts.identity, LOCK_S)
        self._other_connection = parts.connect()
        self._keeper = parts.keeper
        self._claimer = Claimer(tid, parts.keeper, self._connection, keys, source=keys.suspects)
        self._pool = pool
        self._settler = parts.settler
        self._runner = runner
        self._outage = parts.outage
        self._look_s = look_s
        self._look_at = 0.0
        self._hint = Hint()
        self._child: Child | None = None
        self._chunk: Chunk | None = None
        self._renew_at = self._turn_ends_at = 0.0
        self._abandoned = threading.Event()

    def __repr__(self) -> str:
        return f"<Isolation {self.tid} {'busy' if self.current else 'idle'}>"

    def running(self) -> Mapping[str, RunningJob]:
        """The suspect that runs, by the id of this thread."""
        current = self.current
        return {} if current is None else {self.tid: current}

    def stacks(self) -> Mapping[str, str]:
        """Where it is in its code, by the id of this thread."""
        child = self._child if self.current is not None else None
        return {} if child is None else stacks_of({self.tid: child})

    def quiet(self) -> None:
        """Take no further suspect; the running one may finish."""
        super().quiet()
        child = self._child
        if child is not None:
            child.send_stopping()

    def note(self, is_some: bool, /) -> None:  # noqa: FBT001 - as `LeaseKeeper.watch` calls it
        """Whether there are suspects, as the beat of the lease has found out. From any thread, at once."""
        self._hint.give(is_some=is_some)

    def stop(self, timeout_s: float | None = None) -> None:
        """Wait for the running suspect for so many seconds, else not at all, then give it back.

        It goes back to the suspects, and its child is killed after that.
        """
        self.quiet()
        if not self.alive:
            return
        self.join(timeout_s or 0)
        chunk, current = self._chunk, self.current
        if chunk is not None and current is not None and self.alive:
            try:
                with chunk.writing:
                    chunk.revoke_unfinished()
                    give_back(self._other_connection, self._keys, chunk)
            except KiqbridgeError as error:
                logger.warning(
                    "a suspect stays in flight, another process gives it back: %s", error
                )
        self._abandoned.set()
        child = self._child
        if child is not None:
            child.kill()
        self.join(RETRY_S)

    def look(self) -> bool:
        """Look once, and run one suspect if there is one and no other process does; whether one ran.

        Raises:
            KiqbridgeError: Redis is away; nothing is lost.
            NotBegun: the child could not start; nothing is lost.
        """
        if not self._may_claim() or not self._lock():
            return False
        self._turn_ends_at = time.monotonic() + TURN_S
        self._child = child = self._pool.start_child()
        try:
            # Before the claim: a child that cannot start says nothing about a job.
            self._wait_ready(child)
            return self._run_one()
        finally:
            child, self._child = self._child, None
            child.let_go()
            child.wait_end(RETRY_S)
            self._unlock()

    def _wait_ready(self, child: Child) -> None:
        self._pool.wait_ready(
            child,
            is_given_up=lambda: self._abandoned.is_set() or self._stopping.is_set(),
            while_waiting=self._renew,
        )

    def _may_claim(self) -> bool:
        """Whether a claim would find a suspect now: a child that is started for nothing is dear.

        One of a queue that is paused waits, and so does what lies under a key of a foreign type.
        """
        lists = [self._keys.suspects(name) for name in self._queues]
        if not self._connection.call("EXISTS", *lists):
            self.suspects = {}
            return False
        paused, *kinds = self._connection.run(
            ("SMISMEMBER", self._keys.paused, *self._queues), *(("TYPE", name) for name in lists)
        )
        names = [name for name, kind in zip(self._queues, kinds, strict=True) if kind == b"list"]
        counts = self._connection.run(*(("LLEN", self._keys.suspects(name)) for name in names))
        if not self.suspects:
            self.suspects_since = lease_now()
        self.suspects = {name: count for name, count in zip(names, counts, strict=True) if count}
        return any(
            kind == b"list" and not is_paused for is_paused, kind in zip(paused, kinds, strict=True)
        )

    def _look_on(self) -> None:
        TID.set(self.tid)
        self._look_at = time.monotonic() + self._look_s
        while not self._stopping.wait(min(self._look_s, HEAR_S)):
            threads.beat()
            if self._hint.says_nothing:
                self.suspects = {}
                self.troubles.worked(self._work)
                continue
            if time.monotonic() < self._look_at:
                continue
            self._look_at = time.monotonic() + self._look_s
            try:
                while not self._stopping.is_set() and self.look():
                    pass
                self.troubles.worked(self._work)
            except Shutdown:
                return
            except NotBegun:
                pass  # the pool has logged it, and tries again
            except ProcessDied as error:
                logger.warning("suspects wait: %s", error)
            except KiqbridgeError as error:
                self.troubles.failed(self._work, error)
            except Exception:
                logger.exception("letting a suspect run alone failed; it is tried again")

    def _run_one(self) -> bool:
        before = self._claimer.last
        try:
            # Until it is confirmed: after a lost reply the suspect is ours, and in no list that a look would see.
            chunk = self._until_written(lambda: self._claimer.claim(self._queues, 1))
            text = None if chunk is None else chunk.take()
            if chunk is None or text is None:
                return False
            self._chunk, self.current = chunk, RunningJob(chunk.queue, text, wall_now())
            if self._stopping.is_set():
                self._give_back(chunk)
                return False
            if not self._may_begin(chunk.lease):
                return False
            logger.warning(
                "a job was found orphaned too often, so it runs alone now: %s of queue %s",
                orphan_id(text),
                chunk.queue,
            )
            self._finish(chunk, text, self._run_alone(chunk.queue, text))
        except Shutdown:
            raise
        except BaseException:
            # Ours, not the job's; the next claim would acknowledge it. One that was cut short is answered again.
            if self._claimer.last is before:
                self._until_written(lambda: self._claimer.claim((), 0))
            if self._claimer.last is not None:
                self._give_back(self._claimer.last)
            raise
        finally:
            self._chunk = self.current = None
        return True

    def _may_begin(self, lease: Lease) -> bool:
        """Whether what was claimed is still ours.

        Raises:
            Shutdown: Redis is away and the process ends; nothing may be acknowledged any more.
        """
        if not lease.in_doubt() or self._keeper.confirm(lease):
            return True
        if not lease.lost:
            raise Shutdown
        return False

    def _run_alone(self, queue: str, text: bytes) -> Settlement | None:
        """Let the child parse, run and settle it: here nothing of it may be parsed.

        Raises:
            Shutdown: it was given back.
        """
        runner = self._runner(queue)
        try:
            settlement = self._ask_child(runner, queue, text)
        except ProcessDied as died:
            if not died.is_verdict:
                raise
            # A kill of the whole group, or a job given back, must not count against the job.
            if self._abandoned.wait(GRACE_S):
                raise Shutdown from None
            logger.warning(
                "job %s of queue %s is what killed its processes: it ran alone, and %s; it is in the dead "
                "set, fix it before you retry it",
                orphan_id(text),
                queue,
                died,
            )
            settlement = runner.condemned(text, queue, died)
        self.processed += settlement is None or settlement.counted
        self.failed += settlement is not None and settlement.counted and settlement.failed
        return settlement

    def _ask_child(self, runner: SuspectRunner, queue: str, text: bytes) -> Settlement | None:
        """What becomes of the suspect.

        Raises:
            Shutdown: it was given back.
            ProcessDied: the child died of it, which is a verdict.
            NotBegun: the child could not begin it, or another one could not start.
        """
        timed_out_s: float | None = None
        while True:
            child = self._child
            if child is None:
                raise Shutdown
            order = runner.order(queue, self.tid, timed_out_s)
            try:
                answer, kept = child.ask("suspects", order, text, while_waiting=self._renew)
            except NotBegun as error:
                raise self._pool.not_begun(error) from error
            except TimeLimitReached as reached:
                if self._abandoned.is_set():
                    raise Shutdown from None
                # It failed, and what that means only who parses it can say: another child.
                timed_out_s = reached.timeout_s
                child.let_go()
                child.wait_end(RETRY_S)
                self._child = child = self._pool.start_child()
                self._wait_ready(child)
            except ProcessDied as died:
                died.is_verdict = True
                raise
            else:
                return runner.settlement(answer, kept, text)

    def _finish(self, chunk: Chunk, text: bytes, settlement: Settlement | None) -> None:
        """Settle what is to be settled, and acknowledge.

        Raises:
            Shutdown: Redis is away and the process ends: the reaper of another worker gives the job back.
        """
        if settlement is None:
            self._until_written(lambda: self._claimer.claim((), 0))
            forget_orphan(self._connection, self._keys, orphan_id(text))
            return
        connection = self._connection
        if self._until_written(lambda: self._settler.write(connection, chunk, text, settlement)):
            if settlement.notify is not None:
                settlement.notify()
        else:
            logger.warning("a suspect belongs to another worker now; that one decides about it")
        self._until_written(lambda: self._claimer.claim((), 0))
        if not settlement.failed:
            forget_orphan(self._connection, self._keys, orphan_id(text))

    def _give_back(self, chunk: Chunk) -> None:
        def attempt() -> None:
            with chunk.writing:
                chunk.revoke_unfinished()
                give_back(self._connection, self._keys, chunk)

        self._until_written(attempt)

    def _until_written(self, write: Callable[[], T]) -> T:
        return retry_until_written(write, outage=self._outage, wait=self._abandoned.wait)

    def _lock(self) -> bool:
        self._renew_at = time.monotonic() + RENEW_S
        return self._lead.take()

    def _renew(self) -> None:
        """Keep the lock; when it is lost two suspects may run at once, each still alone in its child."""
        threads.beat()
        if time.monotonic() < self._renew_at or time.monotonic() > self._turn_ends_at:
            return
        try:
            self._lock()
        except KiqbridgeError as error:
            logger.debug("the lock of the isolation waits for Redis: %s", error)

    def _unlock(self) -> None:
        try:
            self._lead.release()
        except KiqbridgeError as error:
            logger.debug("the lock of the isolation expires in %.0f s: %s", LOCK_S, error)
