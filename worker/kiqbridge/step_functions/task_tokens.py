"""What a worker owes to state machines that wait for its jobs: outcomes and heartbeats, put together."""

from collections.abc import Callable, Mapping
from typing import Final

from kiqbridge.perform.running_job import RunningJob
from kiqbridge.step_functions.heartbeats import TaskHeartbeats
from kiqbridge.step_functions.reporter import TaskReporter
from kiqbridge.step_functions.service import StepFunctions
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys

LAST_REPORTS_S: Final = 1.5
"""Seconds for which a process that ends waits for its reports; other workers send what is left in Redis."""


class TaskTokens:
    """The threads that talk to Step Functions.

    Args:
        keys: the namespace.
        connection: its own.
        running: the running jobs, by the id of their thread or task.
        heartbeat_s: seconds between two heartbeats of a job that does not choose; 0 = none.

    Attributes:
        reporter: sends outcomes.
        heartbeats: sends heartbeats; idle until a job names a task.
    """

    def __init__(
        self,
        *,
        keys: Keys,
        connection: RedisConnection,
        running: Callable[[], Mapping[str, RunningJob]],
        heartbeat_s: float,
    ) -> None:
        service = StepFunctions()
        self.heartbeats = TaskHeartbeats(running=running, service=service, every_s=heartbeat_s)
        self.reporter = TaskReporter(
            keys=keys, connection=connection, service=service, on_look=self.heartbeats.look
        )

    def start(self) -> None:
        """Begin to look for reports and for jobs that name a task."""
        self.reporter.start()

    def stop(self) -> None:
        """Send what is due, for `LAST_REPORTS_S` at most; to be called when the last job has ended."""
        self.heartbeats.stop()
        self.reporter.stop(LAST_REPORTS_S)
