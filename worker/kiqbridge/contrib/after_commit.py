"""Enqueuing when a transaction commits: what the modules for Django and SQLAlchemy share.

A job that is pushed within a transaction may run before the data that it needs can be seen, or although
the transaction was rolled back. So it is checked and gets its jid at the call, is kept in the memory of
this process, and is pushed right after the commit; a rollback drops it.

What cannot be pushed then cannot be undone either: the data is committed. The error is logged with class and
jid of each job, and the handlers of `on_push_failed` get the payloads. A process that is killed between
commit and push loses the job. Where that must not happen, write a row of an outbox table in the same
transaction, and let a scheduled job push the rows with `Client.push_once`.
"""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from kiqbridge.client.client import Client
from kiqbridge.client.default_client import default_client, pushing_through
from kiqbridge.client.job_handle import JobHandle
from kiqbridge.client.middleware import collector_of
from kiqbridge.client.prepare import PreparedJob, prepare
from kiqbridge.errors import KiqbridgeError, PayloadError
from kiqbridge.runtime.clock import client_now
from kiqbridge.wire import json_text
from kiqbridge.wire.bulk import parse_bulk

logger = logging.getLogger(__name__)

P = ParamSpec("P")
PushFailed = Callable[[Sequence[Mapping[str, Any]], KiqbridgeError], object]
"""(payloads, error): what was not pushed after a commit, and why; `Client.push` takes such a payload."""
H = TypeVar("H", bound=PushFailed)

_handlers: list[PushFailed] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed:
    """Jobs of one call that can be pushed.

    Attributes:
        client: through which.
        jobs: at least one.
    """

    client: "DeferringClient"
    jobs: Sequence[PreparedJob]

    def push(self) -> None:
        """Push them.

        Raises:
            KiqbridgeError: as `DeferringClient.write`.
        """
        self.client.write(self.jobs)


class DeferringClient(Client):
    """A client whose pushes are postponed; for the rest it is the client that it stands for.

    Args:
        client: the one that it stands for, whose middleware, connections and settings it uses.
        defer: gets what is to be pushed; called once for each `push` and each `push_bulk`.
    """

    def __init__(self, client: Client, defer: Callable[[Postponed], object]) -> None:
        vars(self).update(vars(client))  # its connections, too: nothing is opened here
        self.stands_for = client
        self._defer = defer

    def push(self, item: Mapping[str, Any]) -> JobHandle | None:
        """Pass a job to `defer`, which enqueues it later. Takes and returns what `Client.push` does.

        Raises:
            PayloadError: the job is refused. No other error is raised here: nothing is written yet.
        """
        job = self._prepare(item, client_now(), bulk=False)
        if job is None:
            return None
        writer = self._writer_of([job])  # as below
        self._defer(Postponed(client=self, jobs=[job]))
        return self.stands_for.handle_from(job.jid, writer)

    def push_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        """Pass many jobs to `defer`, which enqueues them later. Takes and returns what `Client.push_bulk` does.

        Raises:
            PayloadError: one of them is refused, and so are all.
        """
        now = client_now()
        bulk = parse_bulk(item, now, random.random)
        prepared = [
            self._prepare(bulk.item(index), now, bulk=True)
            for index in range(len(bulk.argument_lists))
        ]
        jobs = [job for job in prepared if job is not None]
        if jobs:
            self._writer_of(jobs)  # refused now, if it would be later
            self._defer(Postponed(client=self, jobs=jobs))
        return [job.jid if job else None for job in prepared]

    def write(self, jobs: Sequence[PreparedJob]) -> None:
        """Push prepared jobs: plain ones in one round trip, then each that has a rule (docs/how_to/flow.md).

        Raises:
            RedisUnavailable, RedisRefused, PushOutcomeUnknown, PushNotReplicated, NotUnique: as `Client.push`.
        """
        writer = self._writer_of(jobs)
        writer.write([job for job in jobs if job.rule is None])
        for job in jobs:
            if job.rule is not None:
                from kiqbridge.client.guarded_push import GuardedPush, push_jobs  # noqa: PLC0415 - few jobs have one

                push_jobs([GuardedPush(0, job)], writer, now=client_now())

    def _prepare(self, item: Mapping[str, Any], now: float, *, bulk: bool) -> PreparedJob | None:
        # A batch without a client of its own takes those of the default one, which this is now.
        if collector_of(self.stands_for) or collector_of(self):
            raise PayloadError(
                "job: one that waits for a commit cannot belong to the batch of this block, which is written before; "
                "make the batch after the commit, or push the job without waiting"
            )
        job = prepare(
            item, now, self.middleware, self.fleet_profile.current, bulk=bulk, by_rule=True
        )
        if job is not None:
            # A copy: what the caller changes from now on is not pushed, and what has no text, or too
            # long a one, is refused here.
            job.payload = json_text.loads(self.writer.text(job, now))
        return job


class Enqueuable(Protocol[P]):
    """A declared function or class, or what its `set` returned."""

    def perform_async(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle | None:
        """Enqueue now."""


class AfterCommit(Generic[P]):
    """A job whose pushes wait for a commit; made by `after_commit` of the framework's module.

    The methods are those of the job. Each returns the jid at once, or None when middleware stopped it, and
    raises `PayloadError` at once.

    Args:
        declared: the job.
        defer: gets what is to be pushed after the commit.
    """

    def __init__(self, declared: Enqueuable[P], defer: Callable[[Postponed], object]) -> None:
        self._declared: Any = declared
        self._defer = defer

    def __repr__(self) -> str:
        return f"<after commit: {self._declared!r}>"

    def set(self, **options: Any) -> "AfterCommit[P]":
        """The same with other options for the next push; see `FunctionJob.set`."""
        return AfterCommit(self._declared.set(**options), self._defer)

    def perform_async(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle | None:
        """Enqueue after the commit."""
        jid: JobHandle | None = self._deferred(self._declared.perform_async, *args, **kwargs)
        return jid

    def perform_in(
        self, seconds: float | timedelta, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle | None:
        """Enqueue after the commit, to run so many seconds after this call, or after a timedelta."""
        jid: JobHandle | None = self._deferred(self._declared.perform_in, seconds, *args, **kwargs)
        return jid

    def perform_at(
        self, when: float | datetime, /, *args: P.args, **kwargs: P.kwargs
    ) -> JobHandle | None:
        """Enqueue after the commit, for a time: epoch seconds or aware datetime."""
        jid: JobHandle | None = self._deferred(self._declared.perform_at, when, *args, **kwargs)
        return jid

    def perform_bulk(self, args: Sequence[Sequence[Any]], **options: Any) -> list[str | None]:
        """Enqueue after the commit one job per element of `args`; see `Client.push_bulk`."""
        jids: list[str | None] = self._deferred(self._declared.perform_bulk, args, **options)
        return jids

    def _deferred(self, method: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        with pushing_through(deferring(default_client(), self._defer)):
            return method(*args, **kwargs)


def deferring(client: Client, defer: Callable[[Postponed], object]) -> DeferringClient:
    """A client that hands its pushes to `defer`, in the place of this one."""
    inner = client.stands_for if isinstance(client, DeferringClient) else client
    return DeferringClient(inner, defer)


def on_push_failed(handler: H) -> H:
    """Call this with the jobs that could not be pushed after a commit; usable as a decorator.

    It may write them to a table, or push them again later: they keep their jids. Its own errors are logged.
    """
    if handler not in _handlers:
        _handlers.append(handler)
    return handler


def push_committed(postponed: Sequence[Postponed]) -> None:
    """Push what waited for a commit: the plain jobs of one client in one round trip.

    Errors are reported, and the others are pushed none the less; nothing is raised.
    """
    for client, jobs in _together(postponed):
        try:
            client.write(jobs)
        except KiqbridgeError as error:
            at = ({} if job.at is None else {"at": job.at} for job in jobs)
            _report([{**job.payload, **each} for job, each in zip(jobs, at, strict=True)], error)


def _together(postponed: Sequence[Postponed]) -> list[tuple[DeferringClient, list[PreparedJob]]]:
    """What is pushed together: plain jobs of one client; one that has a rule by itself."""
    plain: dict[int, tuple[DeferringClient, list[PreparedJob]]] = {}
    ruled: list[tuple[DeferringClient, list[PreparedJob]]] = []
    for each in postponed:
        for job in each.jobs:
            if job.rule is None:
                _, jobs = plain.setdefault(id(each.client.stands_for), (each.client, []))
                jobs.append(job)
            else:
                ruled.append((each.client, [job]))
    return [*plain.values(), *ruled]


def _report(payloads: Sequence[Mapping[str, Any]], error: KiqbridgeError) -> None:
    names = ", ".join(f"{payload['class']} {payload['jid']}" for payload in payloads)
    logger.error(
        "the transaction is committed, but pushing after it failed: %s. Not enqueued, or in doubt: %s",
        error,
        names,
    )
    for handler in _handlers:
        try:
            handler(payloads, error)
        except Exception:
            logger.exception("a handler of on_push_failed failed")
