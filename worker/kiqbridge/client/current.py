"""What runs here: the job of this thread or task, and the worker around it.

Context variables, so that an `async def` job sees its own and not that of its neighbour on the loop.
"""

import enum
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.payload import retries_of

if TYPE_CHECKING:
    from kiqbridge.client.client import Client
    from kiqbridge.runtime.role import Troubles
    from kiqbridge.store.redis_pool import RedisPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The worker around a job.

    Attributes:
        client: pushes with the worker's own middleware.
        redis: connections that jobs may share, handed out to one thread at a time.
        is_stopping: whether the process takes no new jobs any more (quiet), or ends.
        timeout_s: seconds that running jobs have after TERM.
        max_iteration_runtime_s: seconds after which an iterable job makes room for others, or None.
        incarnation: the name under which the worker is registered now; "" where it is under none.
        troubles: what the worker cannot do until somebody changes something.
    """

    client: "Client"
    redis: "RedisPool"
    is_stopping: Callable[[], bool]
    timeout_s: float
    max_iteration_runtime_s: float | None
    incarnation: Callable[[], str] = str
    troubles: "Troubles | None" = None


class Cancelled(enum.Enum):
    """What `perform` of a job returns that was cancelled before it was complete."""

    CANCELLED = "cancelled"


RUNTIME: ContextVar[Runtime | None] = ContextVar("kiqbridge_runtime", default=None)
"""None outside a worker, as in `perform_inline` and in tests."""

CONTEXT: ContextVar[tuple[dict[str, Any], str] | None] = ContextVar("kiqbridge_job", default=None)
"""Payload and queue of the job that runs here, in a worker."""
INLINE: ContextVar[tuple[dict[str, Any], str] | None] = ContextVar("kiqbridge_inline", default=None)
"""The same of a job that `perform_inline` runs, maybe within one of a worker, whose progress and limits stay that one's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentJob:
    """The job that runs here.

    Attributes:
        jid: its id.
        job_class: its name on the wire.
        queue: where it came from.
        attempt: 1 at its first run, 2 at its first retry.
    """

    jid: str
    job_class: str
    queue: str
    attempt: int


def current_job() -> CurrentJob | None:
    """The job of this thread or task, also in `perform_inline` and in tests; None: none runs here."""
    if (running := INLINE.get() or CONTEXT.get()) is None:
        return None
    payload, queue = running
    return CurrentJob(
        jid=str(payload.get("jid")),
        job_class=str(payload.get("class")),
        queue=queue,
        attempt=retries_of(payload) + 1,
    )


def interrupted() -> bool:
    """Whether the running job should end soon: its worker is quiet or stops.

    Long jobs call it now and then, save what they have and return or push themselves again. A job that does
    not is interrupted at the deadline and given back. False outside a worker.
    """
    runtime = RUNTIME.get()
    return runtime is not None and runtime.is_stopping()


LOG_CONTEXT: ContextVar[Mapping[str, Any] | None] = ContextVar("kiqbridge_log", default=None)
"""What `log_context` has added here."""


@contextmanager
def log_context(**keys: Any) -> Iterator[None]:
    """Put these keys on every line that is logged within, by whatever logger; also a decorator.

    Nested ones add to those around them. Threads that are started within do not inherit them; tasks do.
    """
    token = LOG_CONTEXT.set({**(LOG_CONTEXT.get() or {}), **keys})
    try:
        yield
    finally:
        LOG_CONTEXT.reset(token)
