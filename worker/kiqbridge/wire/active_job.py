"""How a job of Rails' Active Job is known: its class is a wrapper, the class to perform is inside (protocol §17)."""

from collections.abc import Mapping
from typing import Any, Final

OLD_WRAPPER: Final = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"
NEW_WRAPPER: Final = "Sidekiq::ActiveJob::Wrapper"
WRAPPERS: Final = frozenset({OLD_WRAPPER, NEW_WRAPPER})
"""Classes that run the Active Job named in their argument."""

KEY: Final = "active_job"
"""The key of an item that asks for an Active Job, in the place of `class`."""


def is_active_job(item: object) -> bool:
    """Whether an item names an Active Job in the place of a class."""
    # A dict first: to ask an abstract class takes longer than all the rest.
    return isinstance(item, (dict, Mapping)) and KEY in item


def performed_class(payload: Mapping[str, Any]) -> str:
    """The class whose code runs: of a wrapped job the one inside; never mind `wrapped`, which is for display."""
    name = str(payload.get("class"))
    if name in WRAPPERS:
        args = payload.get("args")
        if isinstance(args, list) and args and isinstance(args[0], dict):
            inner = args[0].get("job_class")
            if isinstance(inner, str) and inner:
                return inner
    return name
