"""Jobs that another application performs: declared here to be enqueued, typed, and never run here."""

from typing import Any, ClassVar

from kiqbridge.client.job import Job
from kiqbridge.client.registry import JobDefinition, definition_of
from kiqbridge.errors import ConfigError

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


class RemoteActiveJob(RemoteJob):
    """As `RemoteJob`, for Rails' Active Jobs: enqueued as `perform_later` does. Public as `kiqbridge.rails`.

        class NightlyJob(RemoteActiveJob):
            queue = "rails"

            def perform(self, day: date, *, copy: bool = False) -> None: ...

        NightlyJob.perform_async(date(2026, 1, 1), copy=True)

    Arguments are those of docs/rails.md, keyword arguments included.
    """

    _is_active_job: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        definition = definition_of(cls)
        if definition is not None and (
            definition.rule or definition.encrypted or definition.schedule
        ):
            raise ConfigError(
                f"job {definition.name!r}: an Active Job takes no rule of flow control, no schedule and no "
                "encryption from its class; leave them out"
            )


def remote_jobs() -> list[JobDefinition]:
    """Those that are declared, by name."""
    return [_remote[name] for name in sorted(_remote)]
