"""Reading batches: how far they are, and which of their jobs have not ended well."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal, NamedTuple

from kiqbridge.client.client import Client
from kiqbridge.client.default_client import default_client
from kiqbridge.store.key_scan import scan
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.keys import Keys

_SCAN: Final = 5_000
_PAGE: Final = 100

Kind = Literal["batch", "chain", "group"]
State = Literal["open", "running", "failed", "succeeded", "cancelled"]

EVENTS: Final = ("success", "complete", "death")


class Callback(NamedTuple):
    """What is pushed when something has become of a batch: the event, its jid or `b:BID`, and when it was pushed."""

    event: str
    member: str
    pushed_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatus:
    """How far a batch is; times are epoch seconds, None = not yet.

    Attributes:
        bid: its id.
        description: for people.
        parent: the batch that it counts for, or "".
        created_at: when its block ended.
        total: its jobs, and its child batches, each of which counts as one.
        pending: those that have not ended yet, and the steps of a chain that have not begun.
        failed: those that have ended without success, and have not been done since.
        is_open: its maker has not written all of it (yet): no callback is pushed.
        kind: "batch", or what it was made of: a "chain" or a "group".
        callbacks: what is pushed, and when.
        refused: why what follows did not begin, or "".
        job_class: of all its jobs; "": they are of several, or it is not known.
        complete_at, success_at, death_at, cancelled_at: when that happened for the first time.
    """

    bid: str
    description: str
    parent: str
    created_at: float
    total: int
    pending: int
    failed: int
    is_open: bool
    kind: Kind
    callbacks: Sequence[Callback]
    refused: str
    job_class: str
    complete_at: float | None
    success_at: float | None
    death_at: float | None
    cancelled_at: float | None

    @property
    def done(self) -> int:
        """Jobs that are done."""
        return self.total - self.pending - self.failed

    @property
    def complete(self) -> bool:
        """Whether each job has ended once."""
        return self.complete_at is not None

    @property
    def success(self) -> bool:
        """Whether all jobs are done."""
        return self.success_at is not None

    @property
    def state(self) -> State:
        """The state as one word; `failed`: all jobs have ended, and not all are done."""
        if self.cancelled_at is not None:
            return "cancelled"
        if self.success:
            return "succeeded"
        if self.is_open:
            return "open"
        return "failed" if self.failed and self.complete else "running"


PENDING: Final = ("p", "m", "e")
"""States of members that have not ended: here, moved to another server, expected from there (features/transfer/state.py)."""


class BatchSet:
    """All batches, the latest change first.

    Args:
        client: default: that of declared jobs.
    """

    def __init__(self, client: Client | None = None) -> None:
        self._client = client

    def __len__(self) -> int:
        client = self._client or default_client()
        return int(client.pool.call("ZCARD", client.keys.batches))

    def __iter__(self) -> Iterator[BatchStatus]:
        client, start = self._client or default_client(), 0
        while True:
            end = start + _PAGE - 1
            bids = client.pool.call("ZRANGE", client.keys.batches, start, end, "REV")
            if not bids:
                return
            found = read_statuses(client, [bid.decode() for bid in bids])
            yield from (status for status in found if status is not None)
            start += len(bids)


def read_statuses(client: Client, bids: Sequence[str]) -> list[BatchStatus | None]:
    """How far these are, in one round trip; None for one that is not there.

    Raises:
        RedisUnavailable: nothing was read.
    """
    if not bids:
        return []
    replies = client.pool.run(*(status_command(client.keys, bid) for bid in bids))
    return [status_of(bid, reply) for bid, reply in zip(bids, replies, strict=True)]


_TIMES: Final = ("complete_at", "success_at", "death_at", "cancelled_at")
_FIELDS: Final = (
    *(
        *("created_at", "total", "pending", "failed", "description", "parent", "sealed"),
        *("kind", "steps", "refused", "class"),
    ),
    *_TIMES,
    *(f"on_{event}_member" for event in EVENTS),
)


def status_command(keys: Keys, bid: str) -> tuple[str, ...]:
    """Reads what `status_of` makes a status of."""
    return ("HMGET", keys.batch(bid), *_FIELDS)


def status_of(bid: str, reply: Sequence[bytes | None]) -> BatchStatus | None:
    """What `status_command` has read; None: there is no such batch."""
    read = zip(_FIELDS, reply, strict=True)
    fields = {name: value.decode(errors="replace") for name, value in read if value is not None}
    created_at = _number(fields.get("created_at"))
    if created_at is None:
        return None
    times: Any = {name: _number(fields.get(name)) for name in _TIMES}
    kind: Any = fields.get("kind", "batch")
    # What an older build has left may lack some of them.
    held = {
        name: int(_number(fields.get(name)) or 0)
        for name in ("total", "pending", "failed", "steps")
    }
    to_come = max(held["steps"] - held["total"], 0)  # a chain counts a step when it begins
    return BatchStatus(
        bid=bid,
        description=fields.get("description", ""),
        parent=fields.get("parent", ""),
        created_at=created_at,
        total=held["total"] + to_come,
        pending=held["pending"] + to_come,
        failed=held["failed"],
        is_open="sealed" not in fields,
        kind=kind,
        callbacks=[
            Callback(event, fields[f"on_{event}_member"], times[f"{event}_at"])
            for event in EVENTS
            if f"on_{event}_member" in fields
        ],
        refused=fields.get("refused", ""),
        job_class=fields.get("class", ""),
        **times,
    )


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if isfinite(number) else None


def scan_members(client: Client, bid: str, match: str = "*") -> Iterator[tuple[str, str]]:
    """Members of a batch with their states: one of `PENDING`, d (done) or f (failed).

    Raises:
        RedisUnavailable: the rest was not read.
    """
    key = client.keys.batch_members(bid)
    for page in scan(client.pool, "HSCAN", key, match=match, count=_SCAN):
        yield from _fields(page).items()


def _fields(reply: Any) -> dict[str, str]:
    return {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in pairs_of(reply).items()
    }
