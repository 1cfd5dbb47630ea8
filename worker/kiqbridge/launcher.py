"""Putting the engine together, starting and stopping it (protocol §14): the one place that composes."""

import logging
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from redis.connection import AbstractConnection

from kiqbridge import __version__, user_code
from kiqbridge.ages import AgeReport, Ages, ages_of
from kiqbridge.bookkeeping import Bookkeeper
from kiqbridge.bounded import BoundedCall, seconds_until
from kiqbridge.capsule import Capsule, capsules_of, connections_of
from kiqbridge.child_messages import ChildSettings
from kiqbridge.client import Client, adopt_default_client, release_default_client
from kiqbridge.clock import lease_now, wall_now
from kiqbridge.config import Config
from kiqbridge.crew import Company, Crew
from kiqbridge.current import Runtime
from kiqbridge.diagnostics import Diagnostics, Living, Phase, Restarts, dump_threads
from kiqbridge.emergency import end_without_descriptors
from kiqbridge.errors import ConfigError, KiqbridgeError, RedisMisconfigured, RedisUnavailable
from kiqbridge.eviction import warn_of_eviction
from kiqbridge.execution import JobRunner, Processes
from kiqbridge.fetch import Outage
from kiqbridge.gate import Gatekeeper, check_route
from kiqbridge.heartbeat import Heartbeat, ProcessInfo
from kiqbridge.isolation import Isolation
from kiqbridge.job_logger import JobLines
from kiqbridge.keys import Keys
from kiqbridge.lease import LeaseKeeper, LeaseTimes
from kiqbridge.limits import Timekeeper
from kiqbridge.liveness import EX_STUCK, Bounds, Monitor
from kiqbridge.look_ahead import Guardian
from kiqbridge.manager import LAST_WORD_S, Manager
from kiqbridge.metrics import Metrics
from kiqbridge.neighbours import warn_of_shared_queues
from kiqbridge.notifications import Notifications
from kiqbridge.pause_watch import PauseWatch
from kiqbridge.poller import Poller
from kiqbridge.process_pool import ProcessPool
from kiqbridge.process_state import ProcessState, StateKeeper
from kiqbridge.processor import Processor
from kiqbridge.redis_connection import RedisPool
from kiqbridge.registry import Registry, default_registry
from kiqbridge.reservations import Holder, Reservations, Rules
from kiqbridge.resources import ProcessResources
from kiqbridge.retry import RetryPolicy, error_message
from kiqbridge.served_queues import warn_of_odd_queues
from kiqbridge.server import Server
from kiqbridge.server import server as default_server
from kiqbridge.server_check import check_server
from kiqbridge.settling import Settler
from kiqbridge.status import EVERY_S, Status, StatusFile, run_folder
from kiqbridge.surroundings import attach
from kiqbridge.suspects import SuspectRunner
from kiqbridge.systemd import Notifier
from kiqbridge.work import UnitOfWork

if TYPE_CHECKING:
    from kiqbridge.lifecycle import Firing
    from kiqbridge.stats import Counting

logger = logging.getLogger(__name__)

LABEL = "kiqbridge"
"""Our processes carry it, so that Ruby's UI and version detection can tell them apart."""

FIRST_RETRY_S = 0.5
LONGEST_RETRY_S = 5.0

LAST_STEPS_S = 9.0
"""Seconds after the timeout within which the process has ended, in whatever way; less than the 10 that
`infra/worker_service.yaml` leaves between the longest timeout and the kill."""

ORDERLY_S = 7.5
"""Of these, for giving back, interrupting and signing off; then it ends without what is left."""

KILL_S = 8.75
"""After so many seconds the kernel kills it, in case that even this did not end it."""

FIRST_CLAIMS_S = 0.005
"""Between two looks whether all threads have made their first claim: it takes a millisecond or two."""

SUSPECT_S = 0.02
"""Between two looks whether the last suspect has ended."""

LISTENERS_S = 1.0
"""Listeners to shutdown have this time at least, and otherwise as much as jobs."""

CLOSE_S = 3.0
"""So long the process waits for resources that are being closed before it signs off meanwhile."""


class Launcher:
    """One worker process: all its parts, made from a configuration.

    Args:
        config: the settings.
        registry: the declared jobs.
        server: what they run with; its middleware and listeners are copied here.
        tell: gets the name of the lease when it is taken out, and with each of its beats.
        notifier: who tells systemd how this process is.
        supervisor: the pid of the process that starts this one again when it ends.
        has_reached_redis: another process of that supervisor has reached Redis.

    Attributes:
        identity: HOST:PID:NONCE, as Sidekiq names a process.
        server_middleware: functions around each job; add to it before `start`.
        client: what the poller and the jobs push through.
    """

    def __init__(
        self,
        config: Config,
        registry: Registry = default_registry,
        server: Server = default_server,
        *,
        tell: Callable[[str], None] = lambda _incarnation: None,
        notifier: Notifier | None = None,
        supervisor: int | None = None,
        has_reached_redis: bool = False,
    ) -> None:
        self._config = config
        self._notifier = notifier or Notifier()
        self._supervisor = supervisor
        self._registry = registry
        self._server = server
        self.identity = f"{_hostname()}:{os.getpid()}:{secrets.token_hex(6)}"
        self.server_middleware = server.middleware.copy()
        self._events = server.events.copy()
        self._resources = ProcessResources(server.resources)
        self._keys = Keys(config.namespace)
        self._pool = RedisPool(
            config.redis_url,
            size=connections_of(capsules_of(config, server.capsules, server.middleware)),
            settle_replicas=config.settle_replicas,
        )
        self.client = Client(
            namespace=config.namespace,
            profile=config.profile,
            pool=self._pool,
            max_payload_bytes=config.max_payload_bytes,
        )
        for entry in server.client_middleware:
            self.client.middleware.add(entry)
        self._keeper = LeaseKeeper(
            identity=self.identity,
            keys=self._keys,
            connect=self._pool.connection,
            times=LeaseTimes(config.recover_after_s),
            orphan_limit=config.orphan_limit,
            tell=tell,
        )
        self._settler = Settler(self._keys, self._dead_bounds)
        self._notifications = Notifications()
        self._guardian = Guardian(
            self._pool.connection(), self._keys, self._settler, self._notifications
        )
        self._poller = Poller(
            identity=self.identity,
            keys=self._keys,
            client=self.client,
            connection=self._pool.connection(),
            track=self._track,
            dead_bounds=self._dead_bounds,
            max_payload_bytes=config.max_payload_bytes,
        )
        self._pauses = PauseWatch(
            keys=self._keys, connection=self._pool.connection(), track=self._track
        )
        self._gatekeeper = Gatekeeper(
            paused=self._pauses,
            declared=registry,
            foreign_jobs=config.foreign_jobs,
            unknown_class=config.unknown_class,
            rng=random.Random(),  # noqa: S311 - jitter
        )
        self._processes = ProcessPool(
            self._child_settings(), size=_pool_size(config), max_jobs=config.pool_max_jobs
        )
        self._isolation: Isolation | None = None
        self._metrics = Metrics(self._keys, identity=self.identity, forms=config.metrics)
        self._crews: list[Crew] = []
        self._reservations: Reservations | None = None
        self._counters: list[Counting] = []
        self._manager: Manager | None = None
        self._state: StateKeeper | None = None
        self._heartbeat: Heartbeat | None = None
        self._quiet = threading.Event()
        self._quieting: Firing | None = None
        self._is_registered = False
        self._running = threading.Event()
        self._stopping = threading.Event()
        self._hurried = threading.Event()
        self._diagnostics = Diagnostics(
            identity=self.identity,
            beat_s=config.beat_s,
            stuck_after_s=config.stuck_after_s,
            start_period_s=config.start_period_s,
            supervisor=supervisor,
            phase=Phase(quiet=self._quiet, running=self._running, stopping=self._stopping),
            keeper=self._keeper,
            busy=lambda: len(self._work()),
            ages=self._ages,
            takers=self._takers,
            others=self._others,
        )
        self._diagnostics.has_reached_redis = has_reached_redis
        self._on_signal: Callable[[str], None] = lambda _name: None
        self._monitor = Monitor(
            Bounds(
                stuck_s=config.stuck_after_s,
                end_s=config.end_stuck_after_s,
                stop_s=config.timeout_s + LAST_STEPS_S + 1,
            ),
            is_watching=lambda: self._running.is_set() and not self._stopping.is_set(),
            ended=self._diagnostics.ended_threads,
            revive=self._revive,
            on_wedged=lambda: self._on_signal("TERM"),
            ping=self._ping,
        )
        self._diagnostics.monitor = self._monitor
        self._status_file = StatusFile(
            run_folder(config.run_dir),
            self._status,
            min(EVERY_S, config.beat_s),
            before=self._monitor.look,
            failed=self._monitor.status_failed,
        )
        attach(
            self._events,
            config=config,
            tag=self._tag(),
            notifier=self._notifier,
            look=self._status,
            running=lambda: [(tid, unit.run_at) for tid, unit in self._work().items()],
        )
        self._events.add("beat", AgeReport(self._ages).report)
        # A process half put together can be neither quieted nor ended: threads that were not started
        # cannot be joined, and those that start later would not know.
        self._composing = threading.Lock()

    @property
    def timeout_s(self) -> float:
        """Seconds that running jobs have when the process stops."""
        return self._config.timeout_s

    @property
    def exit_status(self) -> int:
        """What the process shall end with: 0, or `EX_STUCK`."""
        return EX_STUCK if self._monitor.is_wedged else 0

    def __repr__(self) -> str:
        return f"<Launcher {self.identity} {self._manager or 'not started'}>"

    def start(self, on_signal: Callable[[str], None]) -> None:
        """Open what jobs share, register and start all threads; waits for Redis with growing pauses.

        Args:
            on_signal: gets the name (TSTP, TERM, TTIN) of a signal sent through Redis (§10.5).

        Raises:
            ConfigError: a resource or a listener to startup failed; nothing was registered.
            Exception: the process was registered, but not all of it could be started; see
                `abandon_start`.
        """
        self._on_signal = on_signal
        self._monitor.start()
        self._status_file.start()
        with self._composing:
            if self._stopping.is_set():
                return
            self._prepare()
        if not self._register_patiently():
            return
        with self._composing:
            if not self._stopping.is_set():
                self._compose(on_signal)
        if self._have_all_fetched():
            self._running.set()
            self._notifier.ready()
            logger.info("%s", self._banner())

    def abandon_start(self) -> None:
        """After `start` has failed: end what runs already, give back what it holds, sign off."""
        if self._is_registered:
            self.stop(timeout_s=0)

    def quiet(self) -> None:
        """Take no new jobs (TSTP); cannot be undone."""
        # Before jobs know: an iterable one makes room at once, and would be claimed here once more.
        if self._manager is not None:
            self._manager.quiet()
        if not self._quiet.is_set():
            self._quiet.set()
            logger.info("quiet: no new jobs are taken, running ones go on")
            self._quieting = self._events.fire_aside("quiet")
        self._poller.quiet()
        for crew in self._crews:
            crew.waker.stop()
        self._processes.quiet()
        if self._isolation is not None:
            self._isolation.quiet()
        if self._manager is not None:  # it may have been made meanwhile
            self._manager.quiet()

    def stop(self, *, timeout_s: float | None = None) -> None:
        """Finish what finishes within the timeout, give the rest back, sign off (§14.3).

        Args:
            timeout_s: default: the setting `timeout`.
        """
        deadline = time.monotonic() + (self._config.timeout_s if timeout_s is None else timeout_s)
        # Beside this thread, since each call to a Redis that is frozen takes seconds, and who stops us
        # kills us at a time of his own. Nothing is lost without it: a reaper does the rest.
        ending = BoundedCall("kiqbridge-end", lambda: self._end(deadline))
        if not ending.wait(seconds_until(deadline) + ORDERLY_S):
            logger.warning(
                "the process ends without signing off, since Redis or a thread does not answer in time; "
                "another process gives back what this one holds"
            )

    def hurry(self) -> None:
        """While it stops: give running jobs back and interrupt them now, whatever time they have left."""
        self._hurried.set()
        if self._manager is not None:
            self._manager.hurry()

    def end_without_descriptors(self) -> NoReturn:
        """Give everything back over a new connection and end: a job closed what was not its own."""
        end_without_descriptors(
            self._config.redis_url,
            self._keys,
            identity=self.identity,
            incarnation=self._keeper.current.incarnation,
        )

    def _end(self, deadline: float) -> None:
        self._stopping.set()
        self._step("becoming quiet", self.quiet)
        if self._quieting is not None:
            self._quieting.wait(max(seconds_until(deadline), LISTENERS_S))
        self._events.fire_aside("shutdown").wait(max(seconds_until(deadline), LISTENERS_S))
        # From now on nothing is put together any more; a start that hangs is not waited for.
        if self._composing.acquire(timeout=max(seconds_until(deadline), LISTENERS_S)):
            self._composing.release()
        heartbeat = self._heartbeat
        self._end_jobs(deadline)
        closing = BoundedCall("kiqbridge-close", self._close_resources)
        is_closed = closing.wait(CLOSE_S)
        if not is_closed:
            logger.warning(
                "closing a resource takes longer than %.0f s: the process signs off meanwhile",
                CLOSE_S,
            )
        self._step("signing off", self._sign_off)
        if heartbeat is not None:
            self._step("ending the heartbeat", heartbeat.stop)
        end = deadline + ORDERLY_S - LISTENERS_S
        self._events.fire_aside("exit").wait(max(seconds_until(end), LISTENERS_S))
        if not is_closed:
            closing.wait(seconds_until(end))
        release_default_client(self.client)
        self._pool.close_all()
        self._status_file.stop()

    def _end_jobs(self, deadline: float) -> None:
        manager, isolation, state = self._manager, self._isolation, self._state
        if state is not None:
            self._step("restoring what jobs change", state.stop)
        if manager is not None:
            if self._reservations is not None:
                self._step("ending the reservations", self._reservations.stop)
            self._step("ending the jobs", lambda: manager.stop(deadline))
            if isolation is not None:
                self._wait_for_suspect(isolation, deadline)
                self._step("ending the isolation", lambda: isolation.stop(time.monotonic()))
            for each in (self._guardian, self._poller, self._pauses):
                self._step(f"ending {each}", each.stop)
        self._step("ending child processes", self._processes.stop)
        if manager is None:
            self._step("ending the event loops", self._stop_loops)

    def _wait_for_suspect(self, isolation: Isolation, deadline: float) -> None:
        while isolation.alive and (left := seconds_until(deadline)) > 0:
            if self._hurried.wait(min(left, SUSPECT_S)):
                return

    def _step(self, what: str, step: Callable[[], object]) -> None:
        """Take one of the last steps; whatever it raises, the others follow."""
        user_code.call(step, log=logger, failed=f"{what} failed, the process goes on ending")

    def _sign_off(self) -> None:
        try:
            returned = self._keeper.stop()
            if returned:
                logger.info("%d jobs went back to their queues", returned)
        except KiqbridgeError as error:
            logger.warning("the lease stays: another process gives back what it holds: %s", error)

    def _stop_loops(self) -> None:
        for crew in self._crews:
            if crew.loop is not None:
                crew.loop.stop(LAST_WORD_S)

    def _close_resources(self) -> None:
        user_code.call(self._resources.close, log=logger, failed="closing a resource failed")

    def dump_threads(self) -> None:
        """Log where each thread is (TTIN)."""
        dump_threads()

    def _register_patiently(self) -> bool:
        pause = FIRST_RETRY_S
        while not self._stopping.is_set():
            try:
                check_server(self._pool.run, self._keys.prefix, self._pool.address)
                with self._composing:
                    if not self._stopping.is_set():
                        self._keeper.start()
                        self._is_registered = True
            except RedisUnavailable as error:
                self._end_if_it_stays(error)
                logger.error("%s; trying again in %.1f s", error, pause)  # noqa: TRY400 - one line
                self._stopping.wait(pause)
                pause = min(pause * 2, LONGEST_RETRY_S)
            else:
                return True
        return False

    def _end_if_it_stays(self, error: RedisUnavailable) -> None:
        if isinstance(error, RedisMisconfigured):
            raise ConfigError(str(error)) from error
        if (fault := self._pool.probe(error)) is not None:
            address = self._pool.address
            raise ConfigError(f"Redis at {address} cannot be reached: {fault}") from error

    def _prepare(self) -> None:
        """Make the capsules and open what their jobs share, before anything is registered."""
        try:
            self._resources.open()
            self._crews = self._make_crews()
            self._diagnostics.concurrency = sum(crew.capsule.concurrency for crew in self._crews)
            source = self._config.sources["unknown_class"]
            check_route(self._config.unknown_class, self._own_queues(), source=source)
            for crew in self._crews:
                if crew.loop is not None:
                    crew.loop.start()
            adopt_default_client(self.client)
            self._events.fire("startup", raising=True)
        except BaseException as error:
            self._stop_loops()
            self._close_resources()
            self._status_file.stop()
            if isinstance(error, KiqbridgeError):
                raise
            text = error_message(error)
            raise ConfigError(f"the start failed: {type(error).__name__}: {text}") from error

    def _compose(self, on_signal: Callable[[str], None]) -> None:
        processors = [each for crew in self._crews for each in crew.processors]
        loops = [crew.loop for crew in self._crews if crew.loop is not None]
        self._isolation = self._make_isolation()
        self._manager = Manager(
            processors,
            [crew.gate for crew in self._crews],
            self._pool.connection(),
            self._keys,
            self._notifications,
            loops=loops,
            bookkeeper=self._bookkeeper if loops else None,
        )
        self._counters += [*processors, *loops, *([self._isolation] if self._isolation else [])]
        self._heartbeat = Heartbeat(
            info=self._process_info(),
            keys=self._keys,
            connection=self._pool.connection(),
            work=self._work,
            counters=self._counters,
            events=self._events,
            is_quiet=self._quiet.is_set,
            on_signal=on_signal,
            beat_s=self._config.beat_s,
            metrics=self._metrics,
            fields=lambda: self._ages().fields(),
        )
        self._diagnostics.heartbeat = self._heartbeat
        self._processes.note_start()
        self._state = StateKeeper(
            ProcessState(self._registry),
            is_idle=lambda: not self._work(),
            give_up=self._monitor.give_up,
        )
        self._state.start()
        self._heartbeat.start()
        self._guardian.start(processors)
        for crew in self._crews:
            crew.waker.start()
        self._poller.start()
        self._pauses.start()
        warn_of_shared_queues(
            self._pool.run, self._keys, self._own_queues(), self._config.unknown_class
        )
        warn_of_odd_queues(self._pool.run, self._keys, self._own_queues(), self._registry)
        warn_of_eviction(self._pool.run)
        if self._quiet.is_set():  # asked for while Redis was awaited: not even one job is taken
            self._manager.quiet()
        self._manager.start()
        if self._isolation is not None and not self._quiet.is_set():
            self._isolation.start()
        self._reservations = self._make_reservations()
        self._diagnostics.reservations = self._reservations
        self._reservations.start()

    def _have_all_fetched(self) -> bool:
        """Wait until each thread has made its first claim, however long Redis is away; False: it stops.

        Raises:
            KiqbridgeError: one of them could not make its claim for a reason that stays.
        """
        processors = self._manager.processors if self._manager is not None else ()
        while not self._stopping.is_set():
            for processor in processors:
                if (error := processor.refused) is not None:
                    raise KiqbridgeError(
                        f"the first claim of jobs failed: {type(error).__name__}: {error}"
                    ) from error
            if self._quiet.is_set() or all(each.has_fetched for each in processors):
                return True
            self._stopping.wait(FIRST_CLAIMS_S)
        return False

    def _make_crews(self) -> list[Crew]:
        config, outage = self._config, Outage()
        settler = self._settler
        self._bookkeeper = Bookkeeper(
            self._pool.connection(), self._keys, settler, outage, self._notifications
        )
        company = Company(
            keys=self._keys,
            pool=self._pool,
            keeper=self._keeper,
            guardian=self._guardian,
            outage=outage,
            settler=settler,
            bookkeeper=self._bookkeeper,
            runtime=Runtime(
                client=self.client,
                redis=self._pool,
                is_stopping=self._quiet.is_set,
                timeout_s=config.timeout_s,
                max_iteration_runtime_s=config.max_iteration_runtime_s,
            ),
            processes=self._processes,
            declared=self._registry,
            look_ahead=config.look_ahead,
            fetch=config.fetch,
        )
        timekeeper = Timekeeper(lambda: [each.origin for each in self._registry])
        capsules = capsules_of(config, self._server.capsules, self.server_middleware)
        return [
            Crew(
                capsule,
                self._runner(capsule, timekeeper, self._processes),
                company,
                self._track,
                self._resources.for_loop() if self._needs_loop(capsule) else None,
            )
            for capsule in capsules
        ]

    def _runner(self, capsule: Capsule, timekeeper: Timekeeper, processes: Processes) -> JobRunner:
        return JobRunner(
            registry=self._registry,
            middleware=capsule.middleware,
            policy=self._policy,
            rng=random.Random(),  # noqa: S311 - jitter
            server=self._server,
            timekeeper=timekeeper,
            metrics=self._metrics if self._metrics.on else None,
            gate=self._gatekeeper.check,
            lines=JobLines(skip=self._config.skip_default_job_logging),
            processes=processes,
            capsule=capsule.name,
            max_payload_bytes=self._config.max_payload_bytes,
        )

    def _policy(self) -> RetryPolicy:
        return RetryPolicy(
            max_retries=self._config.max_retries,
            profile=self.client.wire_profile(),
            backtrace_cleaner=self._server.backtrace_cleaner,
        )

    def _make_isolation(self) -> Isolation | None:
        """Who lets suspects run alone; popped jobs cannot be given back, so basic fetch takes none."""
        if self._config.fetch == "basic":
            return None
        capsules = {name: crew.capsule for crew in self._crews for name in crew.capsule.weights}
        return Isolation(
            identity=self.identity,
            tid=secrets.token_hex(3),
            queues=list(capsules),
            keys=self._keys,
            connect=self._pool.connection,
            keeper=self._keeper,
            pool=self._processes,
            settler=self._settler,
            runner=lambda queue: SuspectRunner(
                capsule=capsules[queue].name,
                policy=self._policy,
                server=self._server,
                registry=self._registry,
                metrics=self._metrics if self._metrics.on else None,
                paused=lambda: self._pauses.classes,
            ),
        )

    def _make_reservations(self) -> Reservations:
        return Reservations(
            registry=self._registry,
            keys=self._keys,
            connection=self._pool.connection(),
            holders=self._holders,
            rules=Rules(
                orphan_limit=self._config.orphan_limit,
                lost_after_s=self._config.stuck_after_s,
                policy=self._policy,
                dead_bounds=self._dead_bounds,
            ),
            on_dead=self._tell_dead,
            on_lost=self._replace,
        )

    def _holders(self) -> Iterator[Holder]:
        for crew in self._crews:
            yield from crew.processors
            if crew.loop is not None:
                yield crew.loop

    def _replace(self, lost: Holder) -> None:
        """Another thread takes the place of one that does not come back from its job."""
        if self._reservations is None or not isinstance(lost, Processor):
            return
        if self._reservations.lost > sum(each.capsule.concurrency for each in self._crews):
            self._monitor.give_up("more threads than it has did not come back from their jobs")
            return
        self._exchange(lost)

    def _exchange(self, lost: Processor) -> None:
        for crew in self._crews:
            if self._manager is not None and lost in crew.processors:
                other = crew.replace(lost)
                self._counters.append(other)
                self._manager.let_go(lost, other)

    def _tell_dead(self, payload: Mapping[str, Any], error: Exception) -> None:
        self._notifications.add(
            [
                partial(
                    user_code.call, handler, payload, error, log=logger, failed="a handler failed"
                )
                for handler in self._server.death_handlers
            ]
        )

    def _child_settings(self) -> ChildSettings:
        config = self._config
        return ChildSettings(
            require=config.require,
            log_level=config.log_level,
            log_format=config.log_format,
            redis_url=config.redis_url,
            namespace=config.namespace,
            profile=config.profile,
            timeout_s=config.timeout_s,
            max_iteration_runtime_s=config.max_iteration_runtime_s,
            logged_job_attributes=config.logged_job_attributes,
            redact=config.redact,
            max_payload_bytes=config.max_payload_bytes,
            foreign_jobs=config.foreign_jobs,
            unknown_class=config.unknown_class,
            skip_default_job_logging=config.skip_default_job_logging,
        )

    def _own_queues(self) -> set[str]:
        return {name for crew in self._crews for name in crew.capsule.weights}

    def _needs_loop(self, capsule: Capsule) -> bool:
        return capsule.middleware.is_partly_async or any(
            definition.handling.pool == "async" for definition in self._registry
        )

    def _work(self) -> dict[str, UnitOfWork]:
        work = {tid: unit for crew in self._crews for tid, unit in crew.running().items()}
        isolation = self._isolation
        if isolation is not None and (unit := isolation.current) is not None:
            work[isolation.tid] = unit
        return work

    def _ages(self) -> Ages:
        return ages_of(
            self._work().values(),
            suspects=self._isolation,
            earliest_due=self._poller.earliest_due,
            last_reaped=self._keeper.last_reaped,
            wall=wall_now(),
            lease=lease_now(),
        )

    def _process_info(self) -> ProcessInfo:
        return ProcessInfo(
            identity=self.identity,
            hostname=_hostname(),
            pid=os.getpid(),
            tag=self._tag(),
            labels=[LABEL, *(label for label in self._config.labels if label != LABEL)],
            concurrency=sum(crew.capsule.concurrency for crew in self._crews),
            capsules=[crew.capsule for crew in self._crews],
            version=f"kiqbridge-{__version__}",
            started_at=time.time(),
        )

    def _status(self) -> Status:
        return self._diagnostics.status()

    def _tag(self) -> str:
        return self._config.tag or Path.cwd().name

    def _takers(self) -> Iterator[tuple[str, Living]]:
        """Threads that take jobs or move them, by name."""
        if self._manager is not None:
            yield from ((f"processor {each.tid}", each) for each in self._manager.processors)
        yield from ((f"waker {crew.capsule.name}", crew.waker) for crew in self._crews)
        yield "poller", self._poller
        if self._reservations is not None:
            yield "reservations", self._reservations
        if self._isolation is not None:
            yield "isolation", self._isolation

    def _ping(self) -> None:
        for crew in self._crews:
            if crew.loop is not None:
                crew.loop.ping()

    def _revive(self, name: str) -> bool:
        """Start a thread anew that has ended; False: it cannot be."""
        part = dict((*self._takers(), *self._others())).get(name)
        if part is None or part.alive:
            return part is not None
        if isinstance(part, Processor) and part.holds_what_it_knows:
            self._exchange(part)
            return True
        if not isinstance(part, Restarts):
            return False
        part.restart()
        return True

    def _others(self) -> Iterator[tuple[str, Living]]:
        """Threads that are needed until the last job has ended, by name."""
        if self._heartbeat is not None:
            yield "heartbeat", self._heartbeat
        yield "lease", self._keeper
        yield "guardian", self._guardian
        yield "pauses", self._pauses
        if self._manager is not None:
            yield from ((f"loop {loop.name}", loop) for loop in self._manager.loops)
            if self._manager.loops:
                yield "bookkeeper", self._bookkeeper

    def _dead_bounds(self, now: float) -> tuple[float, int]:
        return now - self._config.dead_timeout_s, self._config.dead_max_jobs

    def _track(self) -> AbstractConnection:
        return self._pool.raw_connection(protocol=3)

    def _banner(self) -> str:
        return (
            f"kiqbridge {__version__} is ready: {'; '.join(_described(crew) for crew in self._crews)}; "
            f"{len(self._registry)} job classes, Redis {self._pool.address}"
        )


def _described(crew: Crew) -> str:
    capsule = crew.capsule
    name = "" if capsule.name == "default" else f"capsule {capsule.name}: "
    tasks = f" and {crew.loop.limit} tasks" if crew.loop else ""
    queues = ", ".join(f"{queue},{weight}" if weight else queue for queue, weight in capsule.queues)
    return f"{name}{capsule.concurrency} threads{tasks}, queues {queues} ({capsule.mode})"


def _pool_size(config: Config) -> int:
    if config.pool_size != "auto":
        return config.pool_size
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _hostname() -> str:
    return os.environ.get("DYNO") or socket.gethostname()
