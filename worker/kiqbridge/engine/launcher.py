"""The life of a worker process: start, quiet, stop (protocol §14). What is wired with what: parts.py, compose.py.

Start, beside the thread that waits for signals:

1. Watch the threads and write the status file (health.py).
2. Open resources, make the capsules, start their event loops, call the listeners to `startup`.
3. Register, as often as it takes until Redis answers; in a large fleet wait for up to some seconds (registration.py).
4. Start the heartbeat, the threads that move and watch, the processors.
5. Wait until each processor has made its first claim; then the process is ready.

Quiet: no thread takes or moves jobs any more; running jobs go on. It cannot be undone. Stop: see stop.py.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from kiqbridge import __version__
from kiqbridge.client.default_client import adopt_default_client
from kiqbridge.client.registry import Registry, default_registry
from kiqbridge.client.server import Server
from kiqbridge.client.server import server as default_server
from kiqbridge.config.config import Config
from kiqbridge.engine.ages import AgeReport
from kiqbridge.engine.compose import build_around_capsules, build_capsules
from kiqbridge.engine.emergency import end_without_descriptors
from kiqbridge.engine.health import Health, Phase
from kiqbridge.engine.host.process_state import ProcessState, StateKeeper
from kiqbridge.engine.host.surroundings import Notifier, attach
from kiqbridge.engine.parts import EngineParts
from kiqbridge.engine.perform.gate import check_route
from kiqbridge.engine.registration import register_patiently, spread_start
from kiqbridge.engine.served_queues import warn_of_another_client, warn_of_odd_queues
from kiqbridge.engine.settle.error_report import error_message
from kiqbridge.engine.stop import LAST_STEPS_S, LISTENERS_S, ORDERLY_S, Stop
from kiqbridge.errors import ConfigError, KiqbridgeError, RedisRefused
from kiqbridge.runtime.steps import Steps
from kiqbridge.runtime.threads import BoundedCall, seconds_until
from kiqbridge.store.server_check import warn_of_eviction

logger = logging.getLogger(__name__)


class Launcher:
    """One worker process: all its parts, made from a configuration.

    Args:
        config: the settings.
        registry: the declared jobs.
        server: what they run with; its middleware and listeners are copied here.
        on_registered: called with the incarnation when it is registered, and with each beat of its lease.
        notifier: notifies who has started the process.
        supervisor: the pid of the process that starts this one again when it ends.
        has_reached_redis: another process of that supervisor has reached Redis.

    Attributes:
        identity: HOST:PID:NONCE, as Sidekiq names a process.
        server_middleware: functions around each job; add to it before `start`.
        client: what the jobs push through.
        parts: what the process consists of.
        health: its status and its threads.
    """

    def __init__(
        self,
        config: Config,
        registry: Registry = default_registry,
        server: Server = default_server,
        *,
        on_registered: Callable[[str], None] = lambda _incarnation: None,
        notifier: Notifier | None = None,
        supervisor: int | None = None,
        has_reached_redis: bool = False,
    ) -> None:
        self._config = config
        self._notifier = notifier or Notifier()
        self._quiet = threading.Event()
        self._running = threading.Event()
        self._stopping = threading.Event()
        self._quieting: Callable[[float], bool] | None = None
        self._state: StateKeeper | None = None
        self._on_signal: Callable[[str], None] = lambda _name: None
        self._steps = Steps(logger)
        self.parts = EngineParts(
            config, registry, server, is_quiet=self._quiet.is_set, on_registered=on_registered
        )
        self.identity = self.parts.identity
        self.server_middleware = self.parts.server_middleware
        self.client = self.parts.client
        self.health = Health(
            config,
            self.parts,
            Phase(quiet=self._quiet, running=self._running, stopping=self._stopping),
            on_wedged=lambda: self._on_signal("TERM"),
            supervisor=supervisor,
            has_reached_redis=has_reached_redis,
            stop_s=config.timeout_s + LAST_STEPS_S + 1,
        )
        self._stop = Stop(self.parts, self.health, self._steps)
        self._events = self.parts.events
        attach(self._events, tag=self.parts.tag, notifier=self._notifier, look=self.health.status)
        self._events.add("beat", AgeReport(self.parts.ages).report)
        # A process half put together can be neither quieted nor ended: threads that were not started
        # cannot be joined, and those that start later would not know.
        self._composing = threading.Lock()

    @property
    def timeout_s(self) -> float:
        """Seconds that running jobs have when the process stops."""
        return self._config.timeout_s

    @property
    def exit_status(self) -> int:
        """The status to end the process with: 0, `EX_STUCK`, or 1 if a step of the stop failed."""
        return self.health.exit_status or int(bool(self._steps.failed))

    def __repr__(self) -> str:
        return f"<Launcher {self.identity} {self.parts.manager or 'not started'}>"

    def start(self, on_signal: Callable[[str], None]) -> None:
        """Open what jobs share, register and start all threads; waits for Redis with growing pauses.

        Args:
            on_signal: called with the name (TSTP, TERM, TTIN) of a signal sent through Redis (§10.5).

        Raises:
            ConfigError: a resource or a listener to startup failed, or a declared schedule belongs to another
                application; nothing was registered.
            Exception: the process was registered, but not all of it could be started; see
                `abandon_start`.
        """
        self._on_signal = on_signal
        parts, on_lost = self.parts, self.health.replace_lost
        self.health.start()
        with self._composing:
            if self._stopping.is_set():
                return
            self._prepare()
        if not register_patiently(parts.pool, parts.keys, self._register, self._stopping):
            return
        spread_start(parts.pool, parts.keys, self._stopping)
        with self._composing:
            if not self._stopping.is_set():
                build_around_capsules(parts, on_signal=on_signal, on_lost=on_lost)
                self._start_threads()
        if parts.manager is not None and parts.manager.wait_for_claims(self._stopping):
            self._running.set()
            self._notifier.ready()
            logger.info("%s", self._banner())

    def abandon_start(self) -> None:
        """After `start` has failed: end what runs already, give back what it holds, sign off."""
        if self.parts.keeper.has_registered:
            self.stop(timeout_s=0)
        else:
            self.health.stop()

    def quiet(self) -> None:
        """Take no new jobs (TSTP); cannot be undone."""
        parts = self.parts
        # Before jobs know: an iterable one makes room at once, and would be claimed here once more.
        if parts.manager is not None:
            parts.manager.quiet()
        for role in parts.roles:  # before the heartbeat says so: its readers rely on it
            role.quiet()
        if not self._quiet.is_set():
            self._quiet.set()
            logger.info("quiet: no new jobs are taken, running ones go on")
            self._quieting = self._events.fire_aside("quiet")
        for pool in parts.pools.values():
            pool.quiet()
        if parts.manager is not None:  # it may have been made meanwhile
            parts.manager.quiet()

    def stop(self, *, timeout_s: float | None = None) -> None:
        """Finish what finishes within the timeout, give the rest back, sign off (§14.3).

        Args:
            timeout_s: default: the setting `timeout`.
        """
        deadline = time.monotonic() + (self._config.timeout_s if timeout_s is None else timeout_s)
        # On a thread of its own, since each call to a Redis that is frozen takes seconds, and the
        # orchestrator kills this process after a fixed time. Nothing is lost without these steps:
        # another process reaps what this one holds.
        ending = BoundedCall("kiqbridge-end", lambda: self._end(deadline))
        if not ending.wait(seconds_until(deadline) + ORDERLY_S):
            logger.warning(
                "the process ends without signing off, since Redis or a thread does not answer in time; "
                "another process gives its jobs back"
            )
        if self._steps.failed:
            logger.error("of the stop this has failed: %s", ", ".join(self._steps.failed))

    def hurry(self) -> None:
        """While it stops: give running jobs back and interrupt them now, whatever time they have left."""
        self._stop.hurried.set()
        if self.parts.manager is not None:
            self.parts.manager.hurry()

    def end_without_descriptors(self) -> NoReturn:
        """Give everything back over a new connection and end: a job closed what was not its own."""
        end_without_descriptors(
            self._config.redis,
            self.parts.keys,
            identity=self.identity,
            incarnation=self.parts.keeper.current.incarnation,
        )

    def _prepare(self) -> None:
        """Make the capsules and open what their jobs share, before anything is registered."""
        parts, config = self.parts, self._config
        try:
            parts.resources.open()
            build_capsules(parts)
            source = config.sources["unknown_class"]
            check_route(config.unknown_class, parts.served_queues(), source=source)
            for capsule in parts.capsules:
                if capsule.loop is not None:
                    capsule.loop.start()
            warn_of_another_client(self.client, adopt_default_client(self.client))
            self._events.fire("startup", raising=True)
        except BaseException as error:
            self._steps.take(
                ("ending the event loops", self._stop.end_loops),
                ("closing resources", self._stop.close_resources),
                ("removing the status file", self.health.stop),
            )
            if isinstance(error, KiqbridgeError):
                raise
            reason = f"{type(error).__name__}: {error_message(error)}"
            raise ConfigError(f"the start failed: {reason}") from error

    def _register(self) -> None:
        with self._composing:
            if not self._stopping.is_set():
                self.parts.rights.look()  # before anything is refused: all that is missing at once
                try:
                    self.parts.claim_schedules()
                except RedisRefused as error:  # the step of these schedules reports it, too
                    logger.warning("names of declared schedules are not taken yet: %s", error)
                self.parts.keeper.start()

    def _start_threads(self) -> None:
        """Start what `build_around_capsules` has made, the processors after what watches them."""
        parts, queues = self.parts, self.parts.served_queues()
        manager = parts.manager
        assert manager is not None  # noqa: S101 - for the type checker
        for pool in parts.pools.values():
            pool.note_start()
        self._state = StateKeeper(
            ProcessState(parts.registry),
            is_idle=lambda: not parts.running_jobs(),
            give_up=self.health.give_up,
        )
        self._state.start()
        if self._quiet.is_set():  # asked for while Redis was awaited: not even one job is taken
            for role in parts.roles:
                role.quiet()
            manager.quiet()
        for role in parts.roles:
            role.start()
        run, keys = parts.pool.run, parts.keys
        warn_of_odd_queues(run, keys, queues, parts.registry, parts.client.fleets)
        warn_of_eviction(run)
        manager.start()

    def _end(self, deadline: float) -> None:
        self._stopping.set()
        self._steps.take(
            ("becoming quiet", self.quiet),
            ("calling listeners to quiet", lambda: self._wait_for_listeners(deadline)),
            (
                "calling listeners to shutdown",
                lambda: self._events.fire_aside("shutdown")(
                    max(seconds_until(deadline), LISTENERS_S)
                ),
            ),
            ("waiting for the start", lambda: self._wait_for_start(deadline)),
            *self._stop.steps(deadline, state=lambda: self._state),
        )

    def _wait_for_listeners(self, deadline: float) -> None:
        if self._quieting is not None:
            self._quieting(max(seconds_until(deadline), LISTENERS_S))

    def _wait_for_start(self, deadline: float) -> None:
        """From now on nothing is put together any more; a start that hangs is not waited for."""
        if self._composing.acquire(timeout=max(seconds_until(deadline), LISTENERS_S)):
            self._composing.release()

    def _banner(self) -> str:
        parts, capsules = self.parts, "; ".join(map(str, self.parts.capsules))
        classes = f"{len(parts.registry)} job classes"
        redis = f"Redis {parts.pool.address}"
        return f"kiqbridge {__version__} is ready: {capsules}; {classes}, {redis}"
