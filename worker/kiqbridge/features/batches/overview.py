"""Batches, groups and chains as operators see them: the one model that page, command and API read.

A list is read page by page, in two round trips. The members of a batch are read in parts, at most `LOOK_AT` of them for
one answer, so that a million of them keep neither the server nor a page busy; `next_cursor` goes on behind them.
"""

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, get_args

from kiqbridge import seams
from kiqbridge.api import (
    DeadSet,
    JobRecord,
    Operator,
    Page,
    Queue,
    RetrySet,
    ScheduledSet,
    Stats,
    fetch_in_flight,
    record_audit,
)
from kiqbridge.api.acts import Act
from kiqbridge.client.client import Client
from kiqbridge.features.batches.batch import Batch
from kiqbridge.features.batches.status import (
    EVENTS,
    PENDING,
    BatchStatus,
    read_statuses,
    status_command,
    status_of,
)
from kiqbridge.features.batches.steps import KEEP_DONE_S, label_of, launch_of
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.names import text_of

Which = Literal["all", "unfinished", "succeeded"]
WHICH: Final[tuple[Which, ...]] = get_args(Which)
MemberState = Literal["pending", "done", "failed", "waiting"]

ROWS: Final = 100
"""Members of a page; a batch of up to 512 members may be shown as a whole."""

LOOK_AT: Final = 100_000
"""Members that are looked at for an answer."""

LOOK_FIRST: Final = 500
QUEUES: Final = 20
"""Jobs of each set and queue, the next ones, and queues, the longest ones, that are looked at for class and place."""

_AT_ONCE: Final = 5_000
"""Of one command: some milliseconds of the server's time."""

_MOST_PARENTS: Final = 10
_JID: Final = re.compile(rb'"jid"\s*:\s*"([^"]*)"')

_STATES: Final[Mapping[str, MemberState]] = {
    **dict.fromkeys(PENDING, "pending"),
    "d": "done",
    "f": "failed",
}
_ORDER: Final = ("failed", "pending", "waiting", "done")


class Member(NamedTuple):
    """A job, or a batch within the batch.

    Attributes:
        name: its jid, or its bid.
        state: `waiting`: it is not begun, since what stands before it is not done.
        label: its class, or the description of a group; "" where that is not known.
        status: of a batch that is a member; None: it is a job, or that batch is not kept any more.
        is_batch: whether it is a batch.
        place: where a job is, in words, with the class of its last error; "" where that is not known.
    """

    name: str
    state: MemberState
    label: str = ""
    status: BatchStatus | None = None
    is_batch: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Some of the members.

    Attributes:
        rows: failed ones first.
        looked_at: how many were looked at.
        next_cursor: where it goes on; "" = these are all.
    """

    rows: Sequence[Member]
    looked_at: int
    next_cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """A batch with what belongs to it.

    Attributes:
        status: how far it is.
        parents: the batches that it is in, the outermost first.
        callbacks: event → the classes of what is pushed then, one after the other.
        lanes: of a chain its steps, of a group a row of steps for each of its members, in their order; empty for a
            batch that was filled in a block.
    """

    status: BatchStatus
    parents: Sequence[BatchStatus] = ()
    callbacks: Mapping[str, str] = field(default_factory=dict)
    lanes: Sequence[Sequence[Member]] = ()


def count_batches(client: Client) -> Mapping[Which, int]:
    """How many there are of each."""
    key = client.keys.batches
    unfinished, succeeded = client.pool.run(
        *(("ZCOUNT", key, *_scores(which)) for which in WHICH[1:])
    )
    return {"all": unfinished + succeeded, "unfinished": unfinished, "succeeded": succeeded}


def list_batches(
    client: Client, number: int = 1, size: int = 50, which: Which = "all"
) -> Page[BatchStatus]:
    """A page of the batches, those that have not succeeded first, of these the latest; two round trips.

    Their order is that of when they are forgotten: 180 days after they were made, or were complete without success,
    and 30 days after their success.

    Args:
        client: whose.
        number: of the page, from 1 on.
        size: how many it has.
        which: only those that have not succeeded, or those that have.

    Raises:
        RedisUnavailable: nothing was read.
    """
    least, most = _scores(which)
    limit = ("BYSCORE", "REV", "LIMIT", (number - 1) * size, size)
    total, bids = client.pool.run(
        ("ZCOUNT", client.keys.batches, least, most),
        ("ZRANGE", client.keys.batches, most, least, *limit),
    )
    found = read_statuses(client, [text_of(bid) for bid in bids])
    rows = [status for status in found if status is not None]
    return Page(number=number, size=size, total=int(total), rows=rows)


def _scores(which: Which) -> tuple[str, str]:
    """Least and highest score: those that have succeeded are forgotten within 30 days, others mostly later."""
    soon = repr(time.time() + KEEP_DONE_S)
    if which == "all":
        return "-inf", "+inf"
    return (f"({soon}", "+inf") if which == "unfinished" else ("-inf", soon)


def read_batch(client: Client, bid: str) -> BatchView | None:
    """A batch with its callbacks, steps and parents; None: there is none with this id.

    Raises:
        RedisUnavailable: nothing was read.
    """
    keys, pool = client.keys, client.pool
    reply, more = pool.run(
        status_command(keys, bid),
        ("HMGET", keys.batch(bid), "outline", *(f"on_{event}" for event in EVENTS)),
    )
    status = status_of(bid, reply)
    if status is None:
        return None
    outline, *launches = more
    return BatchView(
        status=status,
        parents=_parents(client, status),
        callbacks={
            event: _words(text) for event, text in zip(EVENTS, launches, strict=True) if text
        },
        lanes=_lanes(client, bid, _parsed(outline)),
    )


def _parents(client: Client, status: BatchStatus) -> list[BatchStatus]:
    found: list[BatchStatus] = []
    while status.parent and len(found) < _MOST_PARENTS:
        [parent] = read_statuses(client, [status.parent])
        if parent is None:
            break
        found.insert(0, parent)
        status = parent
    return found


def _lanes(client: Client, bid: str, outline: Any) -> list[list[Member]]:
    """The steps of an outline (steps.py) with their states."""
    if not isinstance(outline, list):
        return []
    names = [str(name) for lane in outline for name, _ in lane]
    if not names:
        return []
    key = client.keys.batch_members(bid)
    children = list(dict.fromkeys(name[2:] for name in names if name.startswith("b:")))
    commands = [status_command(client.keys, child) for child in children]
    states, *statuses = client.pool.run(("HMGET", key, *names), *commands)
    found = {
        child: status_of(child, reply) for child, reply in zip(children, statuses, strict=True)
    }
    known = {
        name: _STATES.get(text_of(state or b""), "waiting")
        for name, state in zip(names, states, strict=True)
    }
    return [
        [_member(name, known[name], str(label), found) for name, label in lane] for lane in outline
    ]


def _member(
    name: str, state: MemberState, label: str, found: Mapping[str, BatchStatus | None]
) -> Member:
    if not name.startswith("b:"):
        return Member(name, state, label)
    status = found.get(name[2:])
    return Member(name[2:], state, (status and status.description) or label, status, is_batch=True)


def read_members(
    client: Client, status: BatchStatus, states: Sequence[MemberState] = (), cursor: str = ""
) -> Members:
    """Members of a batch in these states, all by default: up to some hundred; a bounded number is looked at.

    Args:
        client: whose.
        status: of the batch.
        states: which ones.
        cursor: `next_cursor` of the ones before.

    Raises:
        RedisUnavailable: not all was read.
    """
    counts = {"pending": status.pending, "failed": status.failed, "done": status.done}
    wanted = set(states or counts)
    expected = sum(counts.get(state, 0) for state in wanted)
    names: dict[str, MemberState] = {}
    looked_at, cursor = 0, cursor or "0"
    key, step = client.keys.batch_members(status.bid), _step(expected, status.total)
    while expected:
        cursor_, fields = client.pool.call("HSCAN", key, cursor, "COUNT", step)
        cursor, pairs = text_of(cursor_), pairs_of(fields)
        looked_at += len(pairs)
        for name, state in pairs.items():
            if (known := _STATES.get(text_of(state), "pending")) in wanted:
                names[text_of(name)] = known
        if cursor == "0" or len(names) >= min(ROWS, expected) or looked_at >= LOOK_AT:
            break
    children = [name[2:] for name in names if name.startswith("b:")]
    found = dict(zip(children, read_statuses(client, children), strict=True))
    rows = [_member(name, state, "", found) for name, state in names.items()]
    rows.sort(key=lambda each: (_ORDER.index(each.state), not each.is_batch, each.name))
    is_whole = cursor == "0" or len(names) >= expected
    return Members(rows=rows, looked_at=looked_at, next_cursor="" if is_whole else cursor)


def describe(
    operator: Operator,
    batch: BatchView,
    members: Sequence[Member],
    found: Mapping[str, tuple[str, str]] | None = None,
) -> list[Member]:
    """The same with class and place, as far as they are known.

    The class is that of the batch, if all its jobs are of one. Else, and for the place, the first jobs of each set and of
    the longest queues are looked at, what workers hold, and records of jobs that have ended.

    Args:
        operator: whose.
        batch: in which they are.
        members: some of them.
        found: what `find_members` has found of them; default: it is asked.

    Raises:
        RedisUnavailable: not all was read.
    """
    labels = {each.name: each.label for lane in batch.lanes for each in lane}
    jobs = [each for each in members if not each.is_batch]
    if found is None:
        found = find_members(operator, {each.name for each in jobs if each.state != "done"})
    known = {each.name: labels.get(each.name) or batch.status.job_class for each in jobs}
    left = [name for name, label in known.items() if not label and name not in found]
    if left and seams.named("done") is not None:
        known |= seams.call("done_classes", "done")(operator, left)
    return [
        each
        if each.is_batch
        else each._replace(
            label=known[each.name] or found.get(each.name, ("", ""))[0],
            place=found.get(each.name, ("", ""))[1],
        )
        for each in members
    ]


def find_members(
    operator: Operator, wanted: Collection[str] | None = None
) -> dict[str, tuple[str, str]]:
    """Class and place of those of these jobs, by default of all, that `describe` finds."""
    found: dict[str, tuple[str, str]] = {}
    for place, jobs in _places(operator) if wanted is None or wanted else ():
        found |= {
            job.jid: (job.display_class, ", ".join(filter(None, (place, job.error_class))))
            for job in jobs
            # Most need not be parsed to be passed over.
            if wanted is None or (_names_one(job.text, wanted) and job.jid in wanted)
        }
        if wanted is not None and len(found) == len(wanted):
            break
    return found


def _names_one(text: bytes, wanted: Collection[str]) -> bool:
    return any(text_of(jid) in wanted for jid in _JID.findall(text))


def _places(operator: Operator) -> Iterator[tuple[str, Iterable[JobRecord]]]:
    yield "taken by a worker", (each.job for each in fetch_in_flight(operator))
    sets = (DeadSet, "dead"), (RetrySet, "waits to be retried"), (ScheduledSet, "scheduled")
    for kind, place in sets:
        yield place, kind(operator).page(1, LOOK_FIRST).rows
    for name in list(Stats(operator).queues)[:QUEUES]:
        yield f"in queue {name}", Queue(name, operator).page(1, LOOK_FIRST, oldest_first=True).rows


def _step(expected: int, total: int) -> int:
    """How many members one command looks at, so that it finds about a page of them."""
    return min(max(ROWS * total // max(expected, 1), ROWS), _AT_ONCE)


def cancelling(batch: BatchStatus) -> Act:
    """The button that cancels it."""
    asked = f"None of its {batch.pending:,} pending jobs begins any more, nor those of batches within it. It never succeeds."
    return Act("Cancel", f"/batches/{batch.bid}", {"action": "cancel"}, asked)


def cancel_batch(operator: Operator, bid: str) -> None:
    """Cancel a batch in the name of an operator, with an entry in the audit log. Raises what `Batch.cancel` raises."""
    Batch(bid, client=operator.client).cancel()
    record_audit(operator, "cancel", f"batch:{bid}")


def _words(text: bytes) -> str:
    launch = launch_of(_parsed(text))
    return "" if launch is None else " → ".join(label_of(step) for step in launch["steps"])


def _parsed(text: bytes | None) -> Any:
    try:
        return None if text is None else json_text.loads(text)
    except json_text.MalformedJSON:
        return None
