"""Which classes and queues may be enqueued from AWS: none that is not listed.

Whoever may invoke the function chooses class, queue and arguments; a `tick` grants nothing, since a
caller can write one. A job's class is matched where it runs: Active Job's adapter is only a wrapper,
and a job that fails may move to another queue.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Self

from kiqbridge.config.function_settings import ALLOWED_CLASSES, ALLOWED_QUEUES
from kiqbridge.config.setting import read
from kiqbridge.errors import NotAllowed
from kiqbridge.wire import active_job
from kiqbridge.wire.payload import DEFAULT_OPTIONS, shorten

[CLASSES] = ALLOWED_CLASSES.env
[QUEUES] = ALLOWED_QUEUES.env

_PARAMETERS: Final = {CLASSES: "AllowedClasses", QUEUES: "AllowedQueues"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowList:
    """Globs such as `Billing::*`; an empty tuple allows nothing."""

    classes: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read both lists, comma-separated; a missing one is empty."""
        return cls(classes=read(ALLOWED_CLASSES, environ), queues=read(ALLOWED_QUEUES, environ))

    def check(self, item: Mapping[str, Any]) -> None:
        """Refuse a validated item whose class or queue is not listed.

        Raises:
            NotAllowed: names the value, and the variable in which to allow it.
        """
        for field, name in _classes_of(item):
            _require(field, name, self.classes, CLASSES)
        for field, name in _queues_of(item):
            _require(field, name, self.queues, QUEUES)


def _classes_of(item: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    if active_job.is_active_job(item):
        yield active_job.KEY, item[active_job.KEY]
        return
    wrapped = item.get("wrapped")
    if wrapped is not None:
        yield "wrapped", wrapped
    if item["class"] not in active_job.WRAPPERS:
        yield "class", item["class"]
        return
    inner = item["args"][0] if item["args"] else None
    yield "args[0].job_class", inner.get("job_class") if isinstance(inner, Mapping) else None


def _queues_of(item: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    yield "queue", item.get("queue", DEFAULT_OPTIONS["queue"])
    if item.get("retry_queue") is not None:
        yield "retry_queue", item["retry_queue"]
    if active_job.is_active_job(item):
        return
    if item["class"] in active_job.WRAPPERS and item["args"][0].get("queue_name") is not None:
        yield "args[0].queue_name", item["args"][0]["queue_name"]


def _require(field: str, name: object, globs: tuple[str, ...], variable: str) -> None:
    if isinstance(name, str) and any(fnmatchcase(name, glob) for glob in globs):
        return
    kind = "classes" if variable == CLASSES else "queues"
    why = (
        f"is not among the {kind} in {variable}"
        if globs
        else f"is refused: {variable} is unset or empty"
    )
    raise NotAllowed(
        f"{field}: {shorten(name)} {why}; to allow it add its name, or a glob such as Billing::*, to "
        f"that comma-separated list (parameter {_PARAMETERS[variable]} of template.yaml)"
    )
