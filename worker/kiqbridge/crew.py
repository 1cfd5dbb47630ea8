"""Those who serve one capsule: its threads, its event loop and who wakes them."""

import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from redis.connection import AbstractConnection

from kiqbridge.basic_fetch import BasicFetcher
from kiqbridge.bookkeeping import Bookkeeper
from kiqbridge.capsule import Capsule
from kiqbridge.claims import Claimer, SpareClaimers
from kiqbridge.current import Runtime
from kiqbridge.event_loop import EventLoop
from kiqbridge.execution import JobRunner
from kiqbridge.fetch import Fetcher, Fetches, Outage
from kiqbridge.keys import Keys
from kiqbridge.lease import LeaseKeeper
from kiqbridge.look_ahead import Guardian
from kiqbridge.process_pool import ProcessPool
from kiqbridge.processor import Processor, Tools
from kiqbridge.redis_connection import RedisConnection, RedisPool
from kiqbridge.registry import Registry
from kiqbridge.resources import LoopResources
from kiqbridge.rooms import Rooms
from kiqbridge.settling import Settler
from kiqbridge.wakeup import IdleGate, Waker
from kiqbridge.work import UnitOfWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """What all capsules of a process share."""

    keys: Keys
    pool: RedisPool
    keeper: LeaseKeeper
    guardian: Guardian
    outage: Outage
    settler: Settler
    bookkeeper: Bookkeeper
    runtime: Runtime
    processes: ProcessPool
    declared: Registry
    look_ahead: int
    fetch: str


class Crew:
    """One capsule at work.

    Attributes:
        processors: its threads.
        loop: its event loop, if anything asynchronous is declared.
        gate: where idle threads wait.
    """

    def __init__(
        self,
        capsule: Capsule,
        runner: JobRunner,
        company: Company,
        track: Callable[[], AbstractConnection],
        resources: LoopResources | None,
    ) -> None:
        self.capsule = capsule
        self.gate = IdleGate()
        self.loop: EventLoop | None = None
        self._company = company
        if resources is not None:
            self.loop = EventLoop(
                name=capsule.name,
                limit=capsule.async_concurrency,
                runner=runner,
                keeper=company.keeper,
                bookkeeper=company.bookkeeper,
                runtime=company.runtime,
                resources=resources,
            )
        rooms = {"process": company.processes.room}
        if self.loop is not None:
            rooms["async"] = self.loop.room
        for room in rooms.values():
            room.on_room(self.gate.wake_one)
        self._rooms = Rooms(company.declared, rooms)
        self.waker = Waker(
            self.gate,
            list(capsule.weights),
            company.keys,
            track,
            is_tight=lambda: self._rooms.is_tight,
        )
        tools = Tools(
            keeper=company.keeper,
            runner=runner,
            guardian=company.guardian,
            outage=company.outage,
            keys=company.keys,
            settler=company.settler,
            look_ahead=company.look_ahead,
            loop=self.loop,
            bookkeeper=company.bookkeeper,
            runtime=company.runtime,
            processes=company.processes,
        )
        self._tools = tools
        self._spare = SpareClaimers(self._claimer)
        self.processors = [self._processor() for _ in range(capsule.concurrency)]

    def running(self) -> Mapping[str, UnitOfWork]:
        """The running jobs by the id of their thread or task."""
        busy = {processor.tid: unit for processor in self.processors if (unit := processor.current)}
        return {**busy, **self.loop.running()} if self.loop else busy

    def replace(self, lost: Processor) -> Processor:
        """Another thread, not started yet, in the place of one that does not come back."""
        other = self._processor()
        self.processors[self.processors.index(lost)] = other
        return other

    def _processor(self) -> Processor:
        return Processor(_tid(), self._fetcher(self._spare), self._tools)

    def _fetcher(self, spare: SpareClaimers) -> Fetches:
        company = self._company
        connection = company.pool.connection()
        order = self.capsule.order(random.Random())  # noqa: S311 - spreads load over queues
        if company.fetch == "basic":
            return BasicFetcher(connection, company.keys, order, company.outage, self._rooms)
        claimer = spare.lend(connection)
        return Fetcher(claimer, order, self.gate, company.outage, spare, rooms=self._rooms)

    def _claimer(self, connection: RedisConnection) -> Claimer:
        company = self._company
        return Claimer(_tid(), company.keeper, connection, company.keys)


def _tid() -> str:
    return secrets.token_hex(3)
