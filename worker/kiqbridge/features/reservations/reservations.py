"""Taking away jobs that run longer than the `max_run_s` of their class.

A worker whose job hangs goes on beating, so no other worker would ever get the job. After `max_run_s`:

1. It leaves the worker's in-flight list, by a script that does nothing if it is not there any more: for
   its queue, where it is next, or for the dead set. What its thread says of it later is ignored.
2. Its run is interrupted: `Shutdown` in a thread, cancellation on the event loop, the end of a child
   process.
3. A thread that does not come back from it (it hangs in C) is replaced, so that capacity stays.

That it overran counts like being found orphaned: the third time (`orphan_limit`) it runs alone in a
child process (feature suspects), where running too long is an ordinary failure. So it cannot go round for
ever, and no field of it changes.

Nothing here is done for each job: twice a second those that run are looked at, if any class has a limit.
"""

import logging
import time
from collections.abc import Iterable
from typing import Any

from kiqbridge.client.registry import Handling
from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import take_away
from kiqbridge.engine.inflight.reaping import orphan_id
from kiqbridge.engine.parts import EngineParts
from kiqbridge.engine.perform.running_job import Holder, RunningJob
from kiqbridge.engine.settle.ending import dead
from kiqbridge.errors import JobOverran
from kiqbridge.runtime import threads
from kiqbridge.runtime.clock import wall_now
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.role import Role, Until
from kiqbridge.wire import json_text

logger = logging.getLogger(__name__)

LOOK_S = 0.5


@dataclass(slots=True, kw_only=True)
class _Run:
    """A running job; times on `time.monotonic`."""

    holder: Holder
    tid: str
    chunk: Chunk
    job: RunningJob
    seen_at: float
    handling: Handling | None = None
    taken_at: float | None = None
    is_lost: bool = False


def longest(registry: Iterable[Any]) -> float | None:
    """The shortest limit of all classes; None = no class has one."""
    limits = [each.handling.max_run_s for each in registry if each.handling.max_run_s is not None]
    return min(limits, default=None)


def roles(parts: EngineParts) -> "tuple[Reservations, ...]":
    """What looks how long the jobs of a worker run."""
    reservations = parts.overruns = Reservations(parts)
    return (reservations,)


class Reservations(Role):
    """The thread that looks how long the jobs of a worker run.

    Attributes:
        overran: how many jobs were taken away.
        lost: how many threads did not come back.
    """

    def __init__(self, parts: EngineParts) -> None:
        super().__init__(
            "reservations",
            self._look_on,
            work="taking away jobs that run too long",
            until=Until.STOP,
            join_s=0,
        )
        self.overran = 0
        self.lost = 0
        self._parts = parts
        self._registry = parts.registry
        self._keys = parts.keys
        self._connection = parts.connect()
        self._runs: dict[int, _Run] = {}

    @property
    def alive(self) -> bool:
        """Whether the thread runs, or has nothing to do."""
        return super().alive or longest(self._registry) is None

    def start(self) -> None:
        """Begin to look, if any class has a limit."""
        if longest(self._registry) is not None:
            super().start()

    def look(self, now: float) -> None:
        """Take away what has run for too long; `now` is on `time.monotonic`.

        Raises:
            KiqbridgeError: Redis did not take one; the next look tries again.
        """
        least = longest(self._registry) or float("inf")
        before, self._runs = self._runs, {}
        for holder in self._parts.holders():
            for tid, chunk, job in holder.holding():
                run = before.get(id(job))
                if run is None or run.job is not job:
                    run = _Run(holder=holder, tid=tid, chunk=chunk, job=job, seen_at=now)
                self._runs[id(job)] = run
        for run in list(self._runs.values()):
            if now - run.seen_at >= least:
                self._judge(run, now)

    def _judge(self, run: _Run, now: float) -> None:
        handling = run.handling = run.handling or self._handling_of(run.job.text)
        limit = handling.max_run_s
        if limit is None or now - run.seen_at < limit or run.chunk.is_popped:
            return
        if run.taken_at is None:
            self._take(run, limit, handling)
            run.taken_at = now
            run.holder.end_one(run.tid, run.job)
        elif now - run.taken_at >= self._parts.config.stuck_after_s and not run.is_lost:
            run.is_lost = True
            if not hasattr(run.holder, "current"):  # an event loop, which serves others
                logger.error("job %s does not end though it was cancelled", orphan_id(run.job.text))
                return
            self.lost += 1
            logger.error(
                "thread %s does not come back from job %s: it hangs in C, or catches the interruption; "
                "another thread takes its place",
                run.tid,
                orphan_id(run.job.text),
            )
            self._parts.on_lost(run.holder)

    def _take(self, run: _Run, limit: float, handling: Handling) -> None:
        job = run.job
        name = orphan_id(job.text)
        if handling.on_max_run == "dead":
            is_ours, what = self._bury(run, limit), "it is in the dead set"
        else:
            is_ours, what = self._requeue(run)
        if not is_ours:
            logger.warning(
                "job %s ran longer than its max_run_s, and belongs to another worker now", name
            )
            return
        self._parts.run_marks.taken(job.text)
        self.overran += 1
        logger.warning(
            "job %s of queue %s ran longer than its max_run_s of %g s: %s, and its run here is interrupted",
            name,
            job.queue,
            limit,
            what,
        )

    def _requeue(self, run: _Run) -> tuple[bool, str]:
        """Give it to another worker; it runs alone once it has been orphaned or overran too often."""
        limit = self._parts.config.orphan_limit
        count = take_away(self._connection, self._keys, run.chunk, run.job.text, orphan_limit=limit)
        if count >= limit:
            return True, f"that was the {count}. time, so it runs alone in a child process next"
        return count > 0, "it is next in its queue again"

    def _bury(self, run: _Run, limit: float) -> bool:
        text, queue, now = run.job.text, run.job.queue, wall_now()
        error = JobOverran(f"ran longer than its max_run_s of {limit:g} s, and was taken away")
        job = json_text.loads(text)
        kept = self._parts.policy().failed(job, error, queue=queue, now=now)
        took_s = time.monotonic() - run.seen_at
        death = dead(self._keys, text, job, kept, error, now=now, took_s=took_s)
        is_ours = self._parts.settler.write(self._connection, run.chunk, text, death)
        if is_ours:
            self._parts.call_death_handlers(kept, error)
        return is_ours

    def _handling_of(self, text: bytes) -> Handling:
        try:
            payload = json_text.loads(text)
        except json_text.MalformedJSON:
            return Handling()
        name = str(payload.get("wrapped") or payload.get("class"))
        definition = self._registry.find(name)
        return definition.handling if definition else Handling()

    def _look_on(self) -> None:
        while not self._stopping.wait(LOOK_S):
            threads.beat()
            self.tried(lambda: self.look(time.monotonic()))
