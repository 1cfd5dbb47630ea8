"""What serves one capsule: its processor threads, its event loop, and where idle threads wait.

A capsule: queues with their order, and the threads that serve them (protocol §15.4).
"""

import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kiqbridge.client.middleware import Chain, ServerMiddleware
from kiqbridge.client.registry import Registry
from kiqbridge.client.server import CapsuleSetup, LoopResources
from kiqbridge.config.config import Config
from kiqbridge.engine.inflight.claims import Claimer, SpareClaimers
from kiqbridge.engine.perform.fetch import BasicFetcher, Fetcher, Fetches
from kiqbridge.engine.perform.listening import Listening
from kiqbridge.engine.perform.processor import Processor, ProcessorContext
from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.engine.perform.slots import SlotsByKind
from kiqbridge.engine.perform.wakeup import IdleGate
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import POOL_SIZE, RedisPool
from kiqbridge.wire.queues import Mode, QueueOrder, mode_of, queue_order

if TYPE_CHECKING:
    from kiqbridge.engine.perform.event_loop import EventLoop


OWN_CONNECTIONS = 8
"""For what pushes or asks besides jobs: the wire profile, listeners, handlers, diagnostics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capsule:
    """Queues with weights (0 = none) and how many jobs run at once.

    Attributes:
        concurrency: plain jobs, one thread each.
        async_concurrency: `async def` jobs, all on one event loop.
        middleware: around its jobs.
    """

    name: str
    queues: Sequence[tuple[str, int]]
    concurrency: int
    async_concurrency: int
    middleware: Chain[ServerMiddleware]

    @property
    def mode(self) -> Mode:
        """How queues are drawn."""
        return mode_of(weight for _, weight in self.queues)

    @property
    def weights(self) -> Mapping[str, int]:
        """Distinct names with their weights; a name given twice adds up."""
        weights: dict[str, int] = {}
        for name, weight in self.queues:
            weights[name] = weights.get(name, 0) + weight
        return weights

    def order(self, rng: random.Random) -> QueueOrder:
        """A drawer of queue orders for one thread."""
        return queue_order(self.queues, rng)


def capsules_of(
    config: Config, declared: Mapping[str, CapsuleSetup], middleware: Chain[ServerMiddleware]
) -> list[Capsule]:
    """The default capsule, then those declared in code, then those of the file.

    Where both declare the same one, the file's queues and concurrency count and the code's
    middleware. Each gets a copy of the middleware of its own.
    """
    default = Capsule(
        name="default",
        queues=config.queues,
        concurrency=config.concurrency,
        async_concurrency=config.async_concurrency,
        middleware=middleware.copy(),
    )
    capsules = {"default": default}
    for setup in declared.values():
        chain = middleware if setup.middleware is None else setup.middleware
        capsules[setup.name] = replace(
            default,
            name=setup.name,
            queues=setup.queues,
            concurrency=setup.concurrency,
            middleware=chain.copy(),
        )
    for section in config.capsules:
        known = capsules.get(section.name)
        capsules[section.name] = Capsule(
            name=section.name,
            queues=section.queues,
            concurrency=section.concurrency,
            async_concurrency=section.async_concurrency or config.async_concurrency,
            middleware=known.middleware if known else middleware.copy(),
        )
    return list(capsules.values())


def connections_of(capsules: Iterable[Capsule]) -> int:
    """How many connections of a pool may be in use at once: one for each job that runs, and our own."""
    jobs = sum(each.concurrency + each.async_concurrency for each in capsules)
    return max(jobs + OWN_CONNECTIONS, POOL_SIZE)


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
        *,
        context: ProcessorContext,
        config: Config,
        pool: RedisPool,
        declared: Registry,
        resources: LoopResources | None,
    ) -> None:
        self.capsule = capsule
        self.loop: EventLoop | None = None
        self._connect = pool.shared_connection
        self._keys = context.settler.keys
        self._is_basic = config.fetch == "basic"
        if resources is not None:
            from kiqbridge.engine.perform import event_loop  # noqa: PLC0415 - brings asyncio

            self.loop = event_loop.EventLoop(
                name=capsule.name,
                limit=capsule.async_concurrency,
                runner=context.runner,
                keeper=context.keeper,
                bookkeeper=context.bookkeeper,
                handlers=context.handlers,
                runtime=context.runtime,
                resources=resources,
            )
            self.loop.blocked_s = config.loop_blocked_s
        self.listening = Listening(
            list(capsule.weights),
            self._keys,
            pool.raw_connection,
            is_tight=lambda: self._by_kind.is_tight,
            troubles=context.runtime.troubles,
        )
        # Who pops jobs by BRPOP waits there.
        self.gate = IdleGate(
            None if self._is_basic else self.listening, shares=lambda: context.revoker.shares
        )
        by_kind = {kind: each.slots for kind, each in context.pools.items()}
        if self.loop is not None:
            by_kind["async"] = self.loop.slots
        for slots in by_kind.values():
            slots.on_free(self.gate.wake_one)
        self._by_kind = SlotsByKind(declared, by_kind)
        self._context = context._replace(loop=self.loop)
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
        return Processor(_tid(), self._fetcher(self._spare), self._context)

    def _fetcher(self, spare: SpareClaimers) -> Fetches:
        connection, outage = self._connect(), self._context.outage
        order = self.capsule.order(random.Random())  # noqa: S311 - spreads load over queues
        if self._is_basic:
            return BasicFetcher(connection, self._keys, order, outage, self._by_kind)
        claimer = spare.lend(connection)
        return Fetcher(claimer, order, self.gate, outage, spare, by_kind=self._by_kind)

    def _claimer(self, connection: RedisConnection) -> Claimer:
        return Claimer(_tid(), self._context.keeper, connection, self._keys)


def _tid() -> str:
    return os.urandom(3).hex()
