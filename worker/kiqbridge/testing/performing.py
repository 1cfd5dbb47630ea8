"""Performing recorded jobs by a worker's own parts, on the calling thread.

1. `perform` gets a job's text and its queue, as a fetch would.
2. `JobRunner` reads it, asks the gate, finds the class and calls it within `server.middleware` (of its capsule, if
   the queue belongs to one), with the resources of `server.lifespan` open, within `timeout_s`; `async def` jobs
   run on an event loop. Jobs of the process pool run here, too.
3. `Failures` decides about one that did not simply succeed.
4. What a worker would write is written: by `MemoryPerformer` to the memory of a fake, the retry set, the dead set
   or its queue again; by `RealJobs` (server_jobs.py) to a server. Then the error and death handlers are called.
"""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from kiqbridge import seams
from kiqbridge.client.bridge import LOOP
from kiqbridge.client.client import Client
from kiqbridge.client.current import RUNTIME, Runtime
from kiqbridge.client.inline import limits
from kiqbridge.client.middleware import Chain, ServerMiddleware
from kiqbridge.client.registry import default_registry
from kiqbridge.client.server import ProcessResources, server
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.engine.perform.execution import Execution, JobRunner
from kiqbridge.engine.perform.failure import Failures
from kiqbridge.engine.perform.gate import Gate, asks_of
from kiqbridge.engine.perform.invocation import Invoker
from kiqbridge.engine.settle.ending import Refusal, Settlement, Target
from kiqbridge.engine.settle.notifications import Handlers
from kiqbridge.engine.settle.output import NOT_PERFORMED
from kiqbridge.engine.settle.retry import PutOff, RetryPolicy
from kiqbridge.errors import KiqbridgeError
from kiqbridge.store.effects import Effect
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.testing.loop_thread import LoopThread
from kiqbridge.testing.memory import Memory
from kiqbridge.testing.recorded import Outcome, PerformedJob, RecordedJob, read_job
from kiqbridge.testing.virtual_clock import VirtualClock
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import tick_mark_of

if TYPE_CHECKING:
    from kiqbridge.store.redis_connection import RedisConnection

MAX_RETRIES = 25
TIMEOUT_S = 25.0
"""A worker's defaults, `max_retries` and `timeout_s`."""


class EndlessJobs(KiqbridgeError):  # noqa: N818 - as the other names of errors
    """More jobs than a test can intend; the message names them."""


def _barriers(client: Client, now: float) -> Any:
    """What holds jobs back now."""
    made = [make(client.keys) for make in seams.functions("barrier")]
    return SimpleNamespace(up=[each for each in made if each.look(client.pool, now)])


class _Outcomes(Failures):
    """Decides as a worker does, and keeps what the job raised."""

    error: BaseException | None = None
    result: Any = None
    left_out: Literal["", "expired", "skipped"] = ""

    def malformed(self, text: bytes, queue: str, error: Exception) -> Settlement:
        self.error = error
        return super().malformed(text, queue, error)

    def refused(
        self, refusal: Refusal, payload: dict[str, Any], text: bytes, queue: str
    ) -> Settlement:
        self.error = refusal.error
        if refusal.expired or refusal.skipped:
            self.left_out = "expired" if refusal.expired else "skipped"
        return super().refused(refusal, payload, text, queue)

    def failed(self, execution: Execution, error: BaseException) -> Settlement:
        self.error = error
        return super().failed(execution, error)

    def put_off(self, execution: Execution, error: BaseException, later: PutOff) -> Settlement:
        self.error = error
        return super().put_off(execution, error, later)


class Ran(NamedTuple):
    """One execution, before what becomes of the job is written; without a settlement it simply succeeded."""

    settlement: Settlement | None
    error: BaseException | None
    left_out: Literal["", "expired", "skipped"] = ""
    result: Any = None

    @property
    def outcome(self) -> Outcome:
        """What became of the job, in a word."""
        if self.left_out:
            return self.left_out
        if self.settlement is None:
            return "done"
        if self.settlement.target is Target.DISCARD:
            return "discarded" if self.settlement.failed else "done"
        return _OUTCOMES[self.settlement.target]

    def record(self, job: RecordedJob) -> PerformedJob:
        """For who asks what was performed."""
        return PerformedJob(job=job, outcome=self.outcome, result=self.result, error=self.error)


class JobPerformer:
    """Performs jobs by a worker's parts; the resources stay open until it is closed, as in a worker.

    Args:
        now: epoch seconds; decides when retries are due.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._rng = random.Random(0)  # noqa: S311 - jitter, the same in each run of a test
        self._opening = threading.RLock()
        self._opened: ExitStack | None = None
        self._loops: list[LoopThread] = []
        self._resources = ProcessResources(())

    def perform(self, client: Client, job: RecordedJob) -> Ran:
        """Perform a job that was taken out of its queue; `client` is that of the worker around it."""
        self._open()
        outcomes = _Outcomes(
            keys=client.keys,
            registry=default_registry,
            policy=lambda: RetryPolicy(
                max_retries=MAX_RETRIES,
                profile=client.wire_profile(),
                backtrace_cleaner=server.backtrace_cleaner,
            ),
            handlers=Handlers(server),
            rng=self._rng,
            wall_now=self._now,
        )
        late = self._late(job)
        if late is not None:
            refusal = Refusal(expired=late)
            expired = outcomes.refused(refusal, dict(job.payload), job.text, job.queue)
            return Ran(expired, None, "expired")
        settlement = self._run(client, job.queue, job.text, outcomes)
        return Ran(settlement, outcomes.error, outcomes.left_out, outcomes.result)

    def client(self, keys: Keys, pool: RedisPool) -> Client:
        """What a worker of this namespace pushes with, as when it moves a job that is due."""
        client = Client(namespace=keys.prefix, pool=pool)
        client.middleware = server.client_middleware.copy()
        return client

    def close(self) -> None:
        """Close what is open; raises what that raised."""
        with self._opening:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()

    def _run(
        self, client: Client, queue: str, text: bytes, outcomes: _Outcomes
    ) -> Settlement | None:
        middleware = self._middleware(queue)
        runner = JobRunner(
            registry=default_registry,
            invoker=Invoker(middleware, timekeeper=limits(), loop=self._running_loop),
            outcomes=outcomes,
            gate=Gate(
                paused=cast("Any", SimpleNamespace(classes=frozenset())),
                declared=default_registry,
                foreign_jobs="refuse",
                unknown_class="retry",
                rng=self._rng,
                wall_now=self._now,
                barriers=_barriers(client, self._now()),
                asks=asks_of(client.keys),
            ),
            max_payload_bytes=client.max_payload_bytes,
        )
        runtime = Runtime(
            client=client,
            redis=client.pool,
            is_stopping=lambda: False,
            timeout_s=TIMEOUT_S,
            max_iteration_runtime_s=None,
        )
        token = RUNTIME.set(runtime)
        loop = LOOP.set(self._running_loop()) if middleware.is_partly_async else None
        try:
            read = runner.read(text, queue)
            if not isinstance(read, Execution):
                return read
            # It has all of the methods that are called here.
            left = runner.begin(read, cast("RedisConnection", client.pool), "")
            if left is not None:
                return left
            # It is not interrupted.
            thread: Any = SimpleNamespace(tid="testing", performing=False, interrupted=False)
            settlement = runner.perform(read, thread)
            if outcomes.error is None and read.result is not NOT_PERFORMED:
                outcomes.result = read.result
            return settlement
        finally:
            if loop is not None:
                LOOP.reset(loop)
            RUNTIME.reset(token)

    def _middleware(self, queue: str) -> Chain[ServerMiddleware]:
        for setup in server.capsules.values():
            if setup.middleware is not None and queue in dict(setup.queues):
                return setup.middleware
        return server.middleware

    def _late(self, job: RecordedJob) -> str | None:
        """Why a job of a schedule is not begun any more."""
        tick = tick_mark_of(job.payload)
        if tick is None or tick.max_age_s is None or job.retry_count is not None:
            return None
        late_s = self._now() - tick.at
        if late_s <= tick.max_age_s:
            return None
        return f"begun {late_s:.0f} s after its instant, more than max_age_s of {tick.max_age_s:g}"

    def _open(self) -> None:
        """Open what jobs share, once, unless this process has it open already."""
        with self._opening:
            if self._opened is not None:
                return
            with ExitStack() as opening:
                if not any(each.is_open for each in server.resources):
                    resources = ProcessResources(list(server.resources))
                    resources.open()
                    opening.callback(resources.close)
                    self._resources = resources
                opening.callback(self._close_loops)
                self._opened = opening.pop_all()

    def _running_loop(self) -> LoopThread:
        with self._opening:
            loop = next((each for each in self._loops if not each.is_busy), None)
            if loop is None:
                loop = LoopThread(self._resources.for_loop())
                self._loops.append(loop)
            return loop

    def _close_loops(self) -> None:
        with ExitStack() as closing:
            for loop in self._loops:
                closing.callback(loop.close)
            self._loops = []


class MemoryPerformer:
    """Performs jobs out of a memory, and writes there what becomes of them.

    Args:
        memory: what stands in for Redis.
        clock: what is now.
        pool: what jobs push through; default: one that asks what stands in for Redis.
    """

    def __init__(self, memory: Memory, clock: VirtualClock, pool: RedisPool | None = None) -> None:
        self._memory = memory
        self._jobs = JobPerformer(clock.now)
        self._pool = pool or RedisPool("redis://fake.invalid:6379/0")
        self.close = self._jobs.close

    def client(self, keys: Keys) -> Client:
        """The client of the jobs that are performed."""
        return self._jobs.client(keys, self._pool)

    def perform(self, keys: Keys, queue: str, text: bytes) -> PerformedJob:
        """Perform a job that was taken out of its queue; what it raised is in the answer."""
        job = read_job(text, queue)
        ran = self._jobs.perform(self.client(keys), job)
        if ran.settlement is not None:
            memory, target = self._memory, ran.settlement.target
            with memory.lock:
                if target in _SETS:
                    key = getattr(keys, _SETS[target])
                    memory.run_one("ZADD", key, repr(ran.settlement.score), ran.settlement.text)
                elif target in (Target.REPUSH, Target.ROUTE):
                    memory.push(keys, ran.settlement.queue or queue, ran.settlement.text)
                add_effects(memory, ran.settlement.effects)
            self.apply_ends()
            if ran.settlement.notify is not None:
                ran.settlement.notify()
        return ran.record(job)

    def apply_ends(self) -> None:
        """Apply the ends of jobs in all namespaces."""
        for keys in self._memory.namespaces():
            if self._memory.sorted_set(keys.flow_ends):
                apply_ends(self.client(keys))


def add_effects(memory: Memory, effects: Sequence[Effect]) -> None:
    """The effects of a job's end: each adds a member to a sorted set. Nothing is reported to Step Functions here."""
    for effect in effects:
        if effect.name == "add" and not FlowEnd.from_text(bytes(effect.args[1])).flow:  # type: ignore[arg-type] # the text of an end
            continue
        memory.run_one("ZADD", effect.keys[0], *effect.args)


def apply_ends(client: Client) -> None:
    """Let the ends of jobs under flow control have their consequences, as the thread of a worker does."""
    outbox = Outbox(client, client.pool)
    while outbox.look():
        pass


_SETS = {Target.RETRY: "retry", Target.DEAD: "dead", Target.SCHEDULE: "schedule"}
_OUTCOMES: dict[Target, Outcome] = {
    Target.RETRY: "retry",
    Target.DEAD: "dead",
    Target.SCHEDULE: "put off",
    Target.DISCARD: "discarded",
    Target.REPUSH: "interrupted",
    Target.ROUTE: "put off",
}
