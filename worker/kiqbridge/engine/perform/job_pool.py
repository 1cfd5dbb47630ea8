"""Another place where jobs run than the threads of a worker, which a feature brings (the seam `pools`)."""

from collections.abc import Callable
from typing import Protocol

from kiqbridge.client.registry import JobDefinition
from kiqbridge.engine.perform.execution import Execution, Performing
from kiqbridge.engine.perform.slots import Slots
from kiqbridge.engine.settle.retry import RetryPolicy
from kiqbridge.runtime.role import Role


class JobPool(Protocol):
    """Runs jobs of one kind for the threads that have claimed them, each of which waits for the end.

    Attributes:
        slots: room for these jobs; shut while none can begin.
        starter: the thread that it needs.
    """

    slots: Slots
    starter: Role

    def perform_job(
        self,
        definition: JobDefinition,
        execution: Execution,
        thread: Performing,
        *,
        capsule: str,
        policy: Callable[[], RetryPolicy],
    ) -> None:
        """Run a job within the middleware of its capsule; what it returned is in the execution.

        Raises:
            Shutdown: interrupted; the job has been given back.
            NotBegun: it could not begin.
            BaseException: what stands for what the job raised.
        """

    def note_start(self) -> None:
        """The process is set up: jobs may change it from now on."""

    def quiet(self) -> None:
        """Let running jobs know that they should come to an end soon."""

    def interrupt(self, owner: object) -> None:
        """End the job of this thread, which was given back; it performs none after it."""

    def end_one(self, owner: object) -> None:
        """End the job of this thread, which was taken away; it performs others after it."""

    def stop(self) -> None:
        """End all jobs."""
