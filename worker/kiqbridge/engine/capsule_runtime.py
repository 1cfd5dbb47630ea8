"""What serves one capsule: its processor threads, its event loop, and where idle threads wait."""

import random
import secrets
from collections.abc import Callable, Mapping

from redis.connection import AbstractConnection

from kiqbridge.client.current import Runtime
from kiqbridge.client.registry import Registry
from kiqbridge.client.server import LoopResources
from kiqbridge.engine.inflight.claims import Claimer, SpareClaimers
from kiqbridge.engine.inflight.lease import LeaseKeeper
from kiqbridge.engine.inflight.outage import Outage
from kiqbridge.engine.perform.basic_fetch import BasicFetcher
from kiqbridge.engine.perform.capsule import Capsule
from kiqbridge.engine.perform.event_loop import EventLoop
from kiqbridge.engine.perform.execution import JobRunner
from kiqbridge.engine.perform.fetch import Fetcher, Fetches
from kiqbridge.engine.perform.listening import Listening
from kiqbridge.engine.perform.look_ahead import PrefetchRevoker
from kiqbridge.engine.perform.processor import Processor, ProcessorContext
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.engine.perform.slots import JobPool, SlotsByKind
from kiqbridge.engine.perform.wakeup import IdleGate
from kiqbridge.engine.settle.bookkeeping import Bookkeeper
from kiqbridge.engine.settle.ending import Settlement
from kiqbridge.engine.settle.notifications import Handlers
from kiqbridge.engine.settle.settling import Settler
from kiqbridge.runtime.limits import Timekeeper
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.troubles import Troubles
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """What all capsules of a process share."""

    keys: Keys
    connect: Callable[[], RedisConnection]
    keeper: LeaseKeeper
    revoker: PrefetchRevoker
    outage: Outage
    settler: Settler
    bookkeeper: Bookkeeper
    timekeeper: Timekeeper
    handlers: Handlers
    runtime: Runtime
    pools: Mapping[str, JobPool]
    declared: Registry
    look_ahead: int
    fetch: str
    loop_blocked_s: float
    troubles: Troubles | None = None


class CapsuleRuntime:
    """The threads and the event loop of one capsule.

    Attributes:
        processors: its threads.
        loop: its event loop, if anything asynchronous is declared.
        gate: where idle threads wait.
        listening: its part in who of the fleet sees a push first.
    """

    def __init__(
        self,
        capsule: Capsule,
        runner: JobRunner[Settlement],
        context: EngineContext,
        track: Callable[..., AbstractConnection],
        resources: LoopResources | None,
    ) -> None:
        self.capsule = capsule
        self.loop: EventLoop | None = None
        self._context = context
        if resources is not None:
            self.loop = EventLoop(
                name=capsule.name,
                limit=capsule.async_concurrency,
                runner=runner,
                keeper=context.keeper,
                bookkeeper=context.bookkeeper,
                handlers=context.handlers,
                runtime=context.runtime,
                resources=resources,
            )
            self.loop.blocked_s = context.loop_blocked_s
        self.listening = Listening(
            list(capsule.weights),
            context.keys,
            track,
            is_tight=lambda: self._by_kind.is_tight,
            troubles=context.troubles,
        )
        # Who pops jobs by BRPOP waits there.
        self.gate = IdleGate(
            self.listening if context.fetch != "basic" else None,
            shares=lambda: context.revoker.shares,
        )
        by_kind = {kind: pool.slots for kind, pool in context.pools.items()}
        if self.loop is not None:
            by_kind["async"] = self.loop.slots
        for slots in by_kind.values():
            slots.on_free(self.gate.wake_one)
        self._by_kind = SlotsByKind(context.declared, by_kind)
        self._processor_context = ProcessorContext(
            keeper=context.keeper,
            runner=runner,
            timekeeper=context.timekeeper,
            handlers=context.handlers,
            revoker=context.revoker,
            outage=context.outage,
            keys=context.keys,
            settler=context.settler,
            look_ahead=context.look_ahead,
            loop=self.loop,
            bookkeeper=context.bookkeeper,
            runtime=context.runtime,
            pools=context.pools,
        )
        self._spare = SpareClaimers(self._claimer)
        self.processors = [self._processor() for _ in range(capsule.concurrency)]

    def __str__(self) -> str:
        """For the line that says what this process serves."""
        capsule = self.capsule
        name = "" if capsule.name == "default" else f"capsule {capsule.name}: "
        tasks = f" and {self.loop.limit} tasks" if self.loop else ""
        queues = ", ".join(
            f"{queue},{weight}" if weight else queue for queue, weight in capsule.queues
        )
        return f"{name}{capsule.concurrency} threads{tasks}, queues {queues} ({capsule.mode})"

    def running(self) -> Mapping[str, RunningJob]:
        """The running jobs by the id of their thread or task."""
        busy = {processor.tid: job for processor in self.processors if (job := processor.current)}
        return {**busy, **self.loop.running()} if self.loop else busy

    def replace(self, lost: Processor) -> Processor:
        """Another thread, not started yet, in the place of one that does not come back."""
        other = self._processor()
        self.processors[self.processors.index(lost)] = other
        return other

    def _processor(self) -> Processor:
        return Processor(_tid(), self._fetcher(self._spare), self._processor_context)

    def _fetcher(self, spare: SpareClaimers) -> Fetches:
        context = self._context
        connection = context.connect()
        order = self.capsule.order(random.Random())  # noqa: S311 - spreads load over queues
        if context.fetch == "basic":
            return BasicFetcher(connection, context.keys, order, context.outage, self._by_kind)
        claimer = spare.lend(connection)
        return Fetcher(claimer, order, self.gate, context.outage, spare, by_kind=self._by_kind)

    def _claimer(self, connection: RedisConnection) -> Claimer:
        context = self._context
        return Claimer(_tid(), context.keeper, connection, context.keys)


def _tid() -> str:
    return secrets.token_hex(3)
