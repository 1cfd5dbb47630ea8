"""The parts of one worker process: what is there before its capsules, and what it knows of itself.

Nothing here runs code of users, nor starts a thread. compose.py adds what needs open resources, and what needs a
registered process; launcher.py starts and stops all of it.
"""

import logging
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kiqbridge import seams
from kiqbridge.client.client import Client
from kiqbridge.client.registry import Registry
from kiqbridge.client.server import ProcessResources, Server
from kiqbridge.config.config import Config
from kiqbridge.engine.ages import Ages, Suspects, ages_of
from kiqbridge.engine.capsule_runtime import capsules_of, connections_of
from kiqbridge.engine.host.surroundings import hostname
from kiqbridge.engine.inflight.beat import News
from kiqbridge.engine.inflight.lease import LeaseKeeper, LeaseTimes
from kiqbridge.engine.inflight.outage import Outage
from kiqbridge.engine.inflight.taken import Taken
from kiqbridge.engine.leader import OF_THE_KERNEL, Leader, Made
from kiqbridge.engine.missed_watch import MissedWatch
from kiqbridge.engine.numbers import Overruns, ProcessNumbers
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.engine.pause_watch import PauseWatch
from kiqbridge.engine.perform.ended import LastEnded
from kiqbridge.engine.perform.gate import Gate, asks_of
from kiqbridge.engine.perform.look_ahead import PrefetchRevoker
from kiqbridge.engine.perform.run_marks import RunMarks
from kiqbridge.engine.perform.running_job import Holder, RunningJob
from kiqbridge.engine.poller import Poller
from kiqbridge.engine.rights import Rights
from kiqbridge.engine.settle.bookkeeping import Bookkeeper
from kiqbridge.engine.settle.metrics import Metrics
from kiqbridge.engine.settle.notifications import Handlers, Notifications
from kiqbridge.engine.settle.retry import RetryPolicy
from kiqbridge.engine.settle.settling import Settler
from kiqbridge.runtime.clock import lease_now, wall_now
from kiqbridge.runtime.interruption import Timekeeper
from kiqbridge.runtime.role import OF_PROCESS, Role, Troubles
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

if TYPE_CHECKING:
    from kiqbridge.engine.capsule_runtime import CapsuleRuntime
    from kiqbridge.engine.heartbeat import Heartbeat
    from kiqbridge.engine.manager import Manager
    from kiqbridge.engine.perform.event_loop import EventLoop
    from kiqbridge.engine.perform.slots import JobPool
    from kiqbridge.engine.settle.metrics import Counting

logger = logging.getLogger(__name__)


class EngineParts:
    """All parts of one worker process.

    Args:
        config: the settings.
        registry: the declared jobs.
        server: what they run with; its middleware and listeners are copied here.
        is_quiet: whether the process takes no new jobs any more.
        on_registered: called with the incarnation when it is registered, and with each beat of its lease.

    Attributes:
        identity: HOST:PID:NONCE, as Sidekiq names a process.
        by: the same for ledgers.
        notify: called with ticks that were not known as missed.
        connect: makes a connection for a thread of its own, which it may share.
        server_middleware: functions around each job; read when the capsules are made.
        client: what the engine and its jobs push through.
        troubles: what the process cannot do until somebody changes something, beside those of its roles.
        capsules: empty until compose.py makes them.
        brought: the threads of features.
        pools: kind of pool → where such jobs run, of features.
        suspects: what runs jobs that may have killed their process, of a feature.
        overruns: what takes jobs away that run too long, of a feature.
        on_lost: called with what runs a job that was taken away and that does not end.
        on_late: called at the deadline of a stop if jobs run still, before they are given back.
        manager, heartbeat, brought: of compose.py: None and empty until then; `brought` are the roles of features.
        ended: what has ended lately, for a feature that keeps it.
        counters: what counts the jobs that were performed; `taken` those that were taken from queues.
    """

    def __init__(
        self,
        config: Config,
        registry: Registry,
        server: Server,
        *,
        is_quiet: Callable[[], bool],
        on_registered: Callable[[str], None],
    ) -> None:
        self.config = config
        self.registry = registry
        self.server = server
        self.is_quiet = is_quiet
        self.identity = f"{hostname()}:{os.getpid()}:{os.urandom(6).hex()}"
        self.by = f"worker:{self.identity}"
        self.tag = config.tag or Path.cwd().name
        self.server_middleware = server.middleware.copy()
        self.events = server.events.copy()
        self.resources = ProcessResources(server.resources)
        self.keys = Keys(config.namespace)
        self.pool = RedisPool(
            config.redis,
            size=connections_of(capsules_of(config, server.capsules, server.middleware)),
            settle_replicas=config.settle_replicas,
        )
        self.connect = self.pool.shared_connection
        self.troubles = Troubles()
        self.rights = Rights(self.pool, self.keys, self.troubles, self.all_troubles)
        self.client = self._make_client()
        self.keeper = LeaseKeeper(
            identity=self.identity,
            keys=self.keys,
            connect=self.pool.connection,
            times=LeaseTimes(config.recover_after_s),
            orphan_limit=config.orphan_limit,
            on_registered=on_registered,
        )
        self.handlers = Handlers(server)
        self.outbox = Outbox(self.client, self.connect())
        self.settler = Settler(self.keys, on_end=self.outbox.wake)
        self.notifications = Notifications()
        self.revoker = PrefetchRevoker(self.connect(), self.keys, self.settler, self.notifications)
        self.poller = Poller(
            identity=self.identity,
            keys=self.keys,
            client=self.client,
            connection=self.connect(),
            track=self.pool.raw_connection,
            max_payload_bytes=config.max_payload_bytes,
        )
        self.missed_watch = MissedWatch(lambda: seams.brought("missed", self))
        self.notify = self.missed_watch.notify
        self.leader = Leader(
            self._make_chores, connection=self.connect(), leads=lambda: self.poller.leads
        )
        self.pauses = PauseWatch(
            keys=self.keys, connection=self.connect(), track=self.pool.raw_connection
        )
        self.pools: dict[str, JobPool] = {
            kind: make(self) for kind, make in seams.by_name("pools").items()
        }
        self.outage = Outage(self.troubles)
        self.bookkeeper = Bookkeeper(
            self.connect(), self.keys, self.settler, self.outage, self.notifications
        )
        self.run_marks = RunMarks(
            self.keys, connect=self.connect, identity=self.identity, cancel=self.client.cancel
        )
        self.gate = Gate(
            paused=self.pauses,
            declared=registry,
            foreign_jobs=config.foreign_jobs,
            unknown_class=config.unknown_class,
            rng=random.Random(),  # noqa: S311 - jitter
            barriers=self.outbox,
            asks=(*asks_of(self.keys), self.run_marks.ask),
        )
        self.timekeeper = Timekeeper(
            lambda: [each.origin for each in registry],
            lambda: any(each.handling.timeout_s is not None for each in registry),
        )
        self.metrics = Metrics(
            self.keys,
            identity=self.identity,
            forms=config.metrics,
            kept=config.reports_numbers or bool(config.keep_done),
        )
        self.ended = LastEnded(self.metrics)
        self.counters: list[Counting] = []
        self.taken = Taken()
        self.capsules: list[CapsuleRuntime] = []
        self.manager: Manager | None = None
        self.heartbeat: Heartbeat | None = None
        self.suspects: Suspects | None = None
        self.overruns: Overruns | None = None
        self.on_lost: Callable[[Holder], object] = lambda _holder: None
        self.on_late: Callable[[], object] = lambda: None
        self.brought: list[Role] = []

    @property
    def roles(self) -> list[Role]:
        """The threads that are there once, in the order in which they are started, quieted and stopped.

        The lease begins before them, with the registration; the bookkeeper with the threads that perform.
        """
        made = (
            *(pool.starter for pool in self.pools.values()),
            self.timekeeper.thread,
            self.heartbeat,
            self.revoker,
            self.poller,
            self.leader,
            self.pauses,
            self.outbox,
            *self.brought,
        )
        return [role for role in made if role is not None]

    def all_troubles(self) -> list[str]:
        """What the process cannot do until somebody changes something."""
        roles = (*self.roles, self.keeper.thread, self.bookkeeper, self.run_marks)
        sources = [
            self.troubles,
            OF_PROCESS,
            self.gate.troubles,
            *(role.troubles for role in roles),
        ]
        return [text for source in sources for text in source]

    def numbers(self) -> ProcessNumbers:
        """What the process has done and does now."""
        counters, heartbeat, overruns = list(self.counters), self.heartbeat, self.overruns
        return ProcessNumbers(
            processed=sum(each.processed for each in counters),
            failed=sum(each.failed for each in counters),
            busy=len(self.running_jobs()),
            concurrency=self.concurrency,
            is_quiet=self.is_quiet(),
            round_trip_s=heartbeat.round_trip_s if heartbeat is not None else 0.0,
            lost_threads=overruns.lost if overruns is not None else 0,
            leads=self.poller.leads,
            classes=self.metrics.totals(),
        )

    def replace_processor(self, lost: Holder) -> None:
        """Put another thread in the place of one that has ended or does not end."""
        for capsule in self.capsules:
            if self.manager is not None and lost in capsule.processors:
                other = capsule.replace(lost)
                self.counters.append(other)
                self.manager.let_go(lost, other)

    @property
    def concurrency(self) -> int:
        """How many threads perform jobs."""
        return sum(capsule.capsule.concurrency for capsule in self.capsules)

    def served_queues(self) -> set[str]:
        """Names of the queues that this process serves."""
        return {name for capsule in self.capsules for name in capsule.capsule.weights}

    def running_jobs(self) -> dict[str, RunningJob]:
        """The running jobs by the id of their thread or task."""
        running = {tid: job for capsule in self.capsules for tid, job in capsule.running().items()}
        return running if self.suspects is None else {**running, **self.suspects.running()}

    def stacks_elsewhere(self) -> dict[str, str]:
        """Where jobs are that run in other processes or on an event loop, by the ids of `running_jobs`."""
        loops = [capsule.loop for capsule in self.capsules]
        asked: list[JobPool | Suspects | EventLoop | None]
        asked = [*self.pools.values(), self.suspects, *loops]
        return {tid: text for each in asked if each for tid, text in each.stacks().items()}

    def ages(self) -> Ages:
        """How old the running, suspected and due jobs are now."""
        return ages_of(
            self.running_jobs().values(),
            suspects=self.suspects,
            earliest_due=self.poller.earliest_due,
            last_reaped=self.keeper.last_reaped,
            wall=wall_now(),
            lease=lease_now(),
        )

    def note(self, news: News) -> None:
        """Pass on what the beat has found out to those that would else ask for it; close what idles."""
        self.poller.note(leader=news.leader, server_time=news.server_time)
        self.outbox.note(ends=news.ends, cancelled=news.cancelled)
        self.pauses.note(pauses=news.pauses)
        self.pool.trim()

    def _make_client(self) -> Client:
        config = self.config
        client = Client(
            namespace=config.namespace,
            profile=config.profile,
            pool=self.pool,
            max_payload_bytes=config.max_payload_bytes,
        )
        if config.fleets:
            client.use_fleets(config.fleets)
        for entry in self.server.client_middleware:
            client.middleware.add(entry)
        return client

    def claim_schedules(self) -> None:
        """Take the names of the schedules that are declared beside jobs.

        Raises:
            ConfigError: one of them belongs to another application.
            RedisUnavailable: call again.
        """
        if any(each.schedule is not None for each in self.registry):
            seams.call("claim_schedules")(self)

    def _make_chores(self) -> Iterable[Made]:
        wanted = [each for each in seams.loaded() if each.is_wanted(self.config)]
        return seams.chores(("worker", "leader"), self, [OF_THE_KERNEL, *wanted])

    def policy(self) -> RetryPolicy:
        """What becomes of a job that fails, as of now."""
        return RetryPolicy(
            max_retries=self.config.max_retries,
            profile=self.client.wire_profile(),
            backtrace_cleaner=self.server.backtrace_cleaner,
        )

    def holders(self) -> Iterator[Holder]:
        """Who runs jobs."""
        for capsule in self.capsules:
            yield from capsule.processors
            if capsule.loop is not None:
                yield capsule.loop

    def call_death_handlers(self, payload: Mapping[str, Any], error: Exception) -> None:
        """A job is dead, not by a processor."""
        if self.handlers.listens(died=True):
            self.notifications.add([partial(self.handlers.died, payload, error)])
