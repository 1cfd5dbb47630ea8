"""Batches: jobs that belong together, with jobs that are pushed when all of them have ended.

    with Batch(description="invoices of June", on_success=call(report, "June")) as batch:
        for customer in customers:
            send_invoice.perform_async(customer)

What is pushed within the block is collected, and written at its end: up to 1,000 jobs in one script with the
batch, so that all of it is there or nothing. When the block raises, nothing is written. Each end of a job is counted
by the script that removes it from the outbox (engine/outbox/outbox.py), under the job's id: once, also when workers are
killed and jobs run twice.
"""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from kiqbridge import seams
from kiqbridge.client.client import Client
from kiqbridge.client.current import CONTEXT
from kiqbridge.client.default_client import default_client
from kiqbridge.client.middleware import COLLECTOR, Collector
from kiqbridge.client.prepare import PreparedJob
from kiqbridge.errors import BatchError, PayloadError
from kiqbridge.features.batches import ops as flow_ops
from kiqbridge.features.batches.calls import Call, call
from kiqbridge.features.batches.chains import Flow, TakesSteps, as_link, launch_of, steps_of
from kiqbridge.features.batches.handle import waits
from kiqbridge.features.batches.status import PENDING, BatchStatus, read_statuses, scan_members
from kiqbridge.features.batches.steps import (
    CALLBACK_OF,
    KEEP_OPEN_S,
    Launch,
    Step,
    batch_of,
    check_steps,
)
from kiqbridge.runtime.redaction import shorten
from kiqbridge.store.effects import Effect
from kiqbridge.wire.bulk import parse_bulk
from kiqbridge.wire.payload import FLOW, new_jid

if TYPE_CHECKING:
    from contextvars import Token

_HEX: Final = frozenset("0123456789abcdef")
_BID_LENGTH: Final = 24


class Batch(TakesSteps):
    """A batch: a new one, or with `bid` one that is in Redis.

    Args:
        bid: id of an existing batch; within `with` jobs are added to it.
        description: for people.
        on_success: what is pushed when all jobs are done: a call, a declared job, a chain or a group.
        on_complete: the same, when each job has ended: done, dead, or removed.
        on_death: the same, when the first of them is dead, dropped or deleted.
        client: default: that of declared jobs.

    Raises:
        PayloadError: a callback is neither a job nor a call, or this is no id.

    Attributes:
        bid: its id, 24 hex digits.
        event: in a callback that asked `current_batch`, which one it is: success, complete or death.
    """

    def __init__(
        self,
        bid: str | None = None,
        *,
        description: str = "",
        on_success: Any = None,
        on_complete: Any = None,
        on_death: Any = None,
        client: Client | None = None,
    ) -> None:
        given = {"success": on_success, "complete": on_complete, "death": on_death}
        self._callbacks = {
            event: as_link(value, f"on_{event}")
            for event, value in given.items()
            if value is not None
        }
        if bid is not None and (len(bid) != _BID_LENGTH or not _HEX.issuperset(bid)):
            raise PayloadError(f"bid: {shorten(bid)} is no id of a batch: 24 hex digits")
        if bid is not None and (self._callbacks or description):
            raise PayloadError(
                "Batch: callbacks and description belong to a new batch; leave out bid"
            )
        self.bid: str = bid or new_jid()
        self.event: str | None = None
        self._is_new = bid is None
        self._description = description
        self._chosen = client
        self._parent: Batch | None = None
        self._jobs: list[PreparedJob] = []
        self._launches: list[Launch] = []
        self._children: list[tuple[str, list[Effect]]] = []
        self._token: Token[Collector | None] | None = None

    def __repr__(self) -> str:
        return f"<batch {self.bid}>"

    @property
    def client(self) -> Client:
        """Writes and reads it."""
        return self._chosen or default_client()

    # Collecting

    def __enter__(self) -> Self:
        if self._token is not None:
            raise BatchError(f"batch {self.bid}: it is being filled already; end that block first")
        around = COLLECTOR.get()
        if self._is_new and isinstance(around, Batch) and around.takes_from(self.client):
            self._parent = around
        self._token = COLLECTOR.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        assert self._token is not None  # noqa: S101 - __enter__ has set it
        COLLECTOR.reset(self._token)
        self._token = None
        try:
            if kind is None:
                ops = list(self._ops())
                if self._parent is not None:  # which writes them with its own
                    self._parent._children.append((self.bid, ops))  # noqa: SLF001 - of its own class
                elif ops:
                    flow_ops.write_ops(self.client, ops, repr(self))
                self._is_new = False
        finally:
            self._jobs, self._launches, self._children = [], [], []

    def takes_from(self, client: object) -> bool:
        """Whether it takes jobs that are pushed through this client."""
        return client is self.client

    def push(self, item: Mapping[str, Any]) -> str | None:
        """Take a job, as `Client.push`."""
        job = flow_ops.prepare_job(self.client, item)
        if job is None:
            return None
        self._jobs.append(job)
        return job.jid

    def push_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        """Take many jobs, as `Client.push_bulk`; `batch_size` means nothing here."""
        bulk = parse_bulk(item, time.time(), random.random)
        client = self.client
        jobs = [
            flow_ops.prepare_job(client, bulk.item(index), bulk=True)
            for index in range(len(bulk.argument_lists))
        ]
        self._jobs += [job for job in jobs if job is not None]
        return [None if job is None else job.jid for job in jobs]

    def take_steps(self, launch: Launch) -> None:
        """Take a chain or a group that is enqueued within the block."""
        self._launches.append(launch)

    def add(self, job: Any, /, *args: Any, **kwargs: Any) -> str | None:
        """Add a job: within its block with the others, else at once, as a running job of the batch may do.

        Args:
            job: a declared job, or one with options; or a call, a chain or a group, without arguments.
            args, kwargs: as for `perform_async`.

        Returns:
            The jid, or None when middleware stopped it.

        Raises:
            BatchError: the batch is not there any more, has succeeded, or is cancelled; or it is a new one whose
                block has not begun.
            KiqbridgeError: as `Client.push`; nothing was written.
        """
        if self._token is not None:
            return self._take(job, args, kwargs)
        if self._is_new:
            raise BatchError(f"batch {self.bid}: fill it within `with batch:`")
        with self:
            return self._take(job, args, kwargs)

    def _take(self, job: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        if isinstance(job, Call):
            return self.push(job.whole_item())
        if not isinstance(job, Flow):
            return self.push(call(job, *args, **kwargs).whole_item())
        token = COLLECTOR.set(self)  # a block within this one may have begun
        try:
            return job.perform_async(client=self.client)
        finally:
            COLLECTOR.reset(token)

    # Writing

    def _ops(self) -> Iterator[Effect]:
        client = self.client
        keys = client.keys
        children = [flow_ops.BatchMember(f"b:{bid}") for bid, _ in self._children]
        if self._is_new:
            yield self._made()
        yield from flow_ops.member_ops(keys, self.bid, children, only_new=True)
        yield from flow_ops.member_ops(keys, self.bid, map(self._placed, self._jobs), only_new=True)
        for launch in self._launches:
            yield from flow_ops.StepWriter(client, is_first=True).ops({**launch, "bid": self.bid})
        if not self._is_new:
            yield from flow_ops.outline_ops(keys, self.bid, self._lanes())
        for _, ops in self._children:
            yield from ops
        if self._is_new:
            yield flow_ops.seal_op(keys, self.bid)

    def _placed(self, job: PreparedJob) -> flow_ops.BatchMember:
        job.payload[FLOW] = {**job.payload.get(FLOW, {}), "bid": self.bid}
        text = self.client.writer.text(job, time.time())
        return flow_ops.BatchMember(job.jid, job.queue, job.at, text, job.payload["class"])

    def _made(self) -> Effect:
        parent = "" if self._parent is None else self._parent.bid
        made = {event: self._callback(event, link) for event, link in self._callbacks.items()}
        callbacks = {event: launch for event, launch in made.items() if launch is not None}
        for launch in callbacks.values():
            if parent:
                launch["bid"] = parent
        about = self._description
        keys = self.client.keys
        return flow_ops.make_op(
            keys,
            self.bid,
            parent=parent,
            description=about,
            callbacks=callbacks,
            lanes=self._lanes(),
        )

    def _lanes(self) -> list[list[Step]]:
        return [each["steps"] for each in self._launches if len(each["steps"]) > 1]

    def _callback(self, event: str, link: Call | Flow) -> Launch | None:
        steps = steps_of(link, self.client)
        if not steps:
            return None
        for step in steps:
            if "job" in step:
                step["job"][CALLBACK_OF] = {"bid": self.bid, "event": event}
        check_steps(steps)
        return launch_of(link, steps)

    # Looking and steering

    def status(self) -> BatchStatus:
        """How many of its jobs are pending, done and failed.

        Raises:
            BatchError: there is no such batch (any more).
            RedisUnavailable: nothing was read.
        """
        [found] = read_statuses(self.client, [self.bid])
        if found is None:
            raise self._gone()
        return found

    def wait(self, timeout: float = 30.0) -> BatchStatus:
        """Block until each of its jobs has ended, or it is cancelled, and return its status.

        Args:
            timeout: seconds to wait at most; 0 looks once.

        Raises:
            ResultTimeout: jobs of it have not ended.
            BatchError: there is no such batch (any more).
            RedisUnavailable: nothing was read.
        """
        pauses = waits(timeout, f"batch {self.bid}: not all of its jobs have ended")
        while (status := self.status()).state in ("running", "open"):
            time.sleep(next(pauses))
        return status

    def jids(self) -> list[str]:
        """All of its jobs; raises as `failed_jids`."""
        return self._jids(*PENDING, "d", "f")

    def results(self) -> dict[str, Any]:
        """The results that are kept (`result_ttl`), by jid, as `kiqbridge.results.Result`.

        Raises:
            RedisUnavailable: not all was read.
            DecryptionFailed: a job has encrypted arguments, and its key is not here.
        """
        found: dict[str, Any] = seams.call("fetch_results")(self.jids(), client=self.client)
        return found

    def failed_jids(self) -> list[str]:
        """Jobs that have ended without success: dead, dropped, deleted, skipped or cancelled.

        Raises:
            RedisUnavailable: nothing was read.
        """
        return self._jids("f")

    def pending_jids(self) -> list[str]:
        """Jobs that have not ended yet; raises as `failed_jids`."""
        return self._jids(*PENDING)

    def _jids(self, *states: str) -> list[str]:
        members = scan_members(self.client, self.bid)
        return sorted(name for name, found in members if found in states and name[:2] != "b:")

    def close(self) -> None:
        """Declare that the batch has all of its jobs, if its maker was killed while it wrote the batch.

        Its callbacks are then pushed when the jobs that were written have ended. A batch that is complete is not changed.

        Raises:
            BatchError: there is no such batch (any more).
            RedisUnavailable: repeat it.
        """
        there = self.client
        flow_ops.write_ops(there, [flow_ops.seal_op(there.keys, self.bid)], repr(self))
        self._is_new = False

    def cancel(self) -> None:
        """Begin no more of its jobs, and none of its children's; running ones continue to their end.

        Workers see it within about five seconds. A job that is not performed ends as cancelled, so the batch
        becomes complete, and never succeeds. Cancelling again changes nothing.

        Raises:
            BatchError: there is no such batch (any more).
            RedisUnavailable: repeat it.
        """
        client, now = self.client, time.time()
        keys = client.keys
        for bid in self._with_children(client):
            client.pool.run(
                ("HSETNX", keys.batch(bid), "cancelled_at", repr(now)),
                ("EXPIRE", keys.batch(bid), KEEP_OPEN_S),
                ("ZADD", keys.cancelled_batches, repr(now + KEEP_OPEN_S), bid),
                ("ZREMRANGEBYSCORE", keys.cancelled_batches, "-inf", repr(now)),
            )

    def _with_children(self, client: Client) -> list[str]:
        keys = client.keys
        if not client.pool.call("EXISTS", keys.batch(self.bid)):
            raise self._gone()
        found = [self.bid]
        for bid in found:
            members = scan_members(client, bid, match="b:*")
            children = [name[2:] for name, _ in members if name[2:] not in found]
            found += [each for each in children if client.pool.call("EXISTS", keys.batch(each))]
        return found

    def _gone(self) -> BatchError:
        return BatchError(
            f"batch {self.bid}: there is no such batch (any more); it is kept for 30 days after its success"
        )


def current_batch() -> Batch | None:
    """The batch of the job that runs here; in a callback the one that it is about. None: it has none."""
    running = CONTEXT.get()
    if running is None:
        return None
    payload = running[0]
    about = payload.get(CALLBACK_OF)
    if isinstance(about, dict) and isinstance(about.get("bid"), str):
        batch = Batch(about["bid"])
        batch.event = str(about.get("event"))
        return batch
    bid = batch_of(payload)
    return None if bid is None else Batch(bid)
