"""Jobs that another application performs: declared here to be enqueued, typed, and never run here."""

from typing import Any, ClassVar

from kiqbridge.client.job import Job
from kiqbridge.client.registry import JobDefinition, definition_of

_remote: dict[str, JobDefinition] = {}


class RemoteJob(Job):
    """Base of classes for jobs that are performed elsewhere, such as in Ruby.

        class HardJob(RemoteJob):
            queue = "ruby"

            def perform(self, user_id: int, name: str) -> None: ...

        HardJob.perform_async(7, "Ada")

    They are no jobs of this process: a worker with this code does not perform them. `kiqbridge contract stubs`
    writes such classes from another application's contract.
    """

    _is_remote: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        definition = definition_of(cls)
        if definition is not None:
            _remote[definition.name] = definition


def remote_jobs() -> list[JobDefinition]:
    """Those that are declared, by name."""
    return [_remote[name] for name in sorted(_remote)]
