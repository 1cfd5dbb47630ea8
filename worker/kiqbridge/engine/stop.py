"""The stop of a worker process, step by step; whatever a step raises, the others follow.

Within the timeout and `LAST_STEPS_S`, after the process has become quiet and the listeners to `quiet` and `shutdown` were
called (launcher.py):

1. Wait for running jobs until the deadline, then give them back and interrupt them (manager.py).
2. End the threads that move and watch, and the child processes; send reports to Step Functions.
3. Close resources, end the lease, end the heartbeat, call the listeners to `exit`.
4. Close all connections, end the last threads of features, and remove the status file.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial

from kiqbridge.client.default_client import release_default_client
from kiqbridge.engine.health import Health
from kiqbridge.engine.host.ending import FLUSH_S
from kiqbridge.engine.host.process_state import StateKeeper
from kiqbridge.engine.manager import LAST_WORD_S
from kiqbridge.engine.parts import EngineParts
from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime import user_code
from kiqbridge.runtime.role import Role, Until
from kiqbridge.runtime.steps import Step, Steps
from kiqbridge.runtime.threads import BoundedCall, seconds_until

logger = logging.getLogger(__name__)

LAST_STEPS_S = 9.0
"""Seconds after the timeout within which the process has ended, in whatever way; less than the 10 that
`infra/worker_service.yaml` leaves between the longest timeout and the kill."""

KILL_S = 8.75
"""After so many seconds the kernel kills it, in case that nothing else has ended it."""

ORDERLY_S = KILL_S - FLUSH_S - 0.25
"""For giving back, interrupting and signing off; then it ends without what is left of that. Logs and output are
still written before the kernel kills it."""

ROLE_S = 0.02
"""Between two looks whether a thread with a job of its own has ended."""

LISTENERS_S = 1.0
"""Listeners to shutdown have this time at least, and otherwise as much as jobs."""

CLOSE_S = 3.0
"""How long the process waits for resources that are being closed before it signs off meanwhile."""


class Stop:
    """Ends what a process consists of.

    Args:
        parts: of the process.
        health: what watches its threads.
        steps: takes the steps.

    Attributes:
        hurried: running jobs have no time left.
    """

    def __init__(self, parts: EngineParts, health: Health, steps: Steps) -> None:
        self.hurried = threading.Event()
        self._parts = parts
        self._health = health
        self._take = steps.take
        self._closing: BoundedCall | None = None

    def steps(self, deadline: float, *, state: Callable[[], StateKeeper | None]) -> list[Step]:
        """What is done once the process is quiet.

        Args:
            deadline: of running jobs, on `time.monotonic`.
            state: what restores the state of the process that jobs change; asked when the start is over.
        """
        parts, take = self._parts, self._take
        last = (
            deadline + ORDERLY_S - LISTENERS_S
        )  # until when listeners to exit and resources are waited for
        fire = parts.events.fire_aside
        return [
            ("ending jobs and threads", lambda: take(*self._ends_of_work(deadline, state()))),
            ("closing resources", self._begin_to_close),
            ("signing off", self._sign_off),
            ("ending the heartbeat", self._stop_heartbeat),
            (
                "calling listeners to exit",
                lambda: fire("exit")(max(seconds_until(last), LISTENERS_S)),
            ),
            ("waiting for resources", lambda: self._wait_for_resources(last)),
            ("releasing the default client", lambda: release_default_client(parts.client)),
            ("closing the connections", parts.pool.close_all),
            ("closing the client", parts.client.close),
            (
                "ending the last threads",
                lambda: take(*self._ends_of_roles(Until.LAST, of=parts.brought)),
            ),
            ("removing the status file", self._health.stop),
        ]

    def _ends_of_work(self, deadline: float, state: StateKeeper | None) -> list[Step]:
        parts, manager = self._parts, self._parts.manager
        steps: list[Step] = []
        if state is not None:
            steps.append(("restoring what jobs change", state.stop))
        if manager is not None:
            steps += self._ends_of_roles(Until.STOP)
            steps.append(("ending the jobs", lambda: manager.stop(deadline)))
            steps += [
                (f"waiting for the job of {role.name}", partial(self._wait_for, role, deadline))
                for role in parts.roles
                if role.runs_jobs
            ]
            steps += self._ends_of_roles(Until.QUIET, Until.JOBS)
            steps.append(("ending the watch for missed ticks", parts.missed_watch.stop))
        steps += [
            ("noting that the jobs have ended", lambda: parts.run_marks.stop(LAST_WORD_S)),
            *((f"ending the pool {kind}", pool.stop) for kind, pool in parts.pools.items()),
        ]
        if manager is None:
            steps.append(("ending the event loops", self.end_loops))
        return [*steps, *self._ends_of_roles(Until.ENDS)]

    def _ends_of_roles(self, *until: Until, of: Sequence[Role] | None = None) -> list[Step]:
        return [
            (f"ending the thread {role.name}", partial(self._stop_role, role))
            for role in (self._parts.roles if of is None else of)
            if role.until in until
        ]

    def end_loops(self) -> None:
        """End the event loops."""
        for capsule in self._parts.capsules:
            if capsule.loop is not None:
                capsule.loop.stop(LAST_WORD_S)

    def close_resources(self) -> None:
        """Close what jobs share."""
        user_code.call(self._parts.resources.close, log=logger, failed="closing a resource failed")

    def _stop_role(self, role: Role) -> None:
        role.stop(self._wait_s(role.name))

    def _stop_heartbeat(self) -> None:
        if self._parts.heartbeat is not None:
            self._stop_role(self._parts.heartbeat)

    def _wait_s(self, thread: str) -> float | None:
        """Seconds to wait for the end of a thread: none if it is known to be stuck; None: what it takes."""
        return 0 if self._health.is_stuck(thread) else None

    def _begin_to_close(self) -> None:
        self._closing = BoundedCall("kiqbridge-close", self.close_resources)
        if not self._closing.wait(CLOSE_S):
            logger.warning(
                "closing a resource takes longer than %.0f s: the process signs off meanwhile",
                CLOSE_S,
            )

    def _wait_for_resources(self, end: float) -> None:
        if self._closing is not None:
            self._closing.wait(seconds_until(end))

    def _wait_for(self, role: Role, deadline: float) -> None:
        while role.alive and (left := seconds_until(deadline)) > 0:
            if self.hurried.wait(min(left, ROLE_S)):
                return

    def _sign_off(self) -> None:
        try:
            returned = self._parts.keeper.stop(self._wait_s("lease"))
            if returned:
                logger.info("%d jobs went back to their queues", returned)
            for capsule in self._parts.capsules:
                capsule.listening.forget(self._parts.pool)
        except KiqbridgeError as error:
            logger.warning("the lease stays: another process gives its jobs back: %s", error)
