"""What the screens show of several shards: a row for each, and on which one each row of the others is; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from kiqbridge.api import Stats
from kiqbridge.top.model import MAX_NAME, Column, Frame, Listing, Row, Tone
from kiqbridge.top.rows import LONG_WAIT_S, QueueItem, WorkItem
from kiqbridge.top.visible import duration, visible

MAX_WIDTH: Final = 16
"""Of a column with names of shards."""

SHARDS: Final = (
    Column(title="Shard", share=1),
    Column(title="Procs", width=5, is_number=True),
    Column(title="Busy", width=5, is_number=True),
    Column(title="Enqueued", width=9, is_number=True),
    Column(title="Latency", width=9, is_number=True),
    Column(title="Retries", width=7, is_number=True),
    Column(title="Scheduled", width=9, is_number=True),
    Column(title="Dead", width=6, is_number=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardItem:
    """A shard as it was seen.

    Attributes:
        name: in the settings.
        stats: what it holds; None: it is away.
        why: it is away; "" = it answers.
    """

    name: str
    stats: Stats | None
    why: str = ""


def shards_listing(names: Sequence[str], stats: Stats, missing: Mapping[str, str]) -> Listing:
    """A row for each shard, in the order of the settings.

    Args:
        names: those that are looked at.
        stats: of those that answer.
        missing: shards that are away, and why.
    """
    rows = [
        shard_row(ShardItem(name=name, stats=stats.shards.get(name), why=missing.get(name, "")))
        for name in names
    ]
    away = f"{len(missing):,} away" if missing else ""
    return Listing(
        kind="shards", title="Shards", columns=SHARDS, rows=rows, total=len(rows), note=away
    )


def shard_row(item: ShardItem) -> Row:
    """A shard: its processes and what waits there; the latency is that of its slowest queue."""
    stats, name = item.stats, visible(item.name, MAX_WIDTH)
    if stats is None:
        nothing = ("-",) * (len(SHARDS) - 2)
        return Row(key=item.name, cells=(name, "away", *nothing), item=item, tone="bad")
    wait = max((each.latency for each in stats.queues.values()), default=0.0)
    idle = not stats.processes_size and stats.enqueued
    tone: Tone = "warn" if wait >= LONG_WAIT_S or idle else ""
    cells = (
        name,
        f"{stats.processes_size:,}",
        f"{stats.workers_size:,}",
        f"{stats.enqueued:,}",
        duration(wait) if stats.enqueued else "-",
        f"{stats.retry_size:,}",
        f"{stats.scheduled_size:,}",
        f"{stats.dead_size:,}",
    )
    return Row(key=item.name, cells=cells, item=item, tone=tone)


def with_shards(listing: Listing, names: Sequence[str]) -> Listing:
    """A listing with the shard of each row in front; as it is, if its rows lie on none.

    Args:
        listing: of several shards together.
        names: of all shards, which decide how wide the column is.
    """
    if listing.kind in ("shards", "history"):
        return listing
    longest = [", ".join(names)] if listing.kind == "queues" else names  # a queue may lie on all
    width = min(MAX_WIDTH, max(map(len, ("Shard", *longest))))
    rows = []
    for row in listing.rows:
        shards = _shards_of(row)
        # The same text may wait on two shards: two rows, of which each can be selected.
        key = f"{' '.join(shards)} {row.key}" if not isinstance(row.item, QueueItem) else row.key
        rows.append(replace(row, key=key, cells=(_cell(shards, width), *row.cells)))
    return replace(listing, columns=_columns(tuple(listing.columns), width), rows=rows)


def rate_between(before: Frame, after: Frame) -> float:
    """Jobs processed a second between two looks, of the shards that both have seen.

    One that comes back has processed all its jobs before, as one that goes away takes its share of the sum along.
    """
    both = before.stats.shards.keys() & after.stats.shards.keys()
    pairs = [(before.stats.shards[name], after.stats.shards[name]) for name in both]
    if not (before.stats.shards or after.stats.shards):
        pairs = [(before.stats, after.stats)]
    done = sum(max(0, new.processed - old.processed) for old, new in pairs)
    return done / max(after.at - before.at, 0.001)


@cache
def _columns(columns: Sequence[Column], width: int) -> Sequence[Column]:
    """The same object each time: a table is built anew for other columns."""
    return (Column(title="Shard", width=width), *columns)


def _shards_of(row: Row) -> Sequence[str]:
    item = row.item
    if isinstance(item, QueueItem):
        return item.stats.shards
    shard = item.work.shard if isinstance(item, WorkItem) else item.shard
    return (shard,) if shard else ()


def _cell(shards: Sequence[str], width: int) -> str:
    """All names, if there is room for them; else how many there are."""
    text = visible(", ".join(shards) or "-", MAX_NAME)
    is_cut = len(text) > width and len(shards) > 1  # one name is cut as any cell
    return f"{len(shards):,} shards" if is_cut else text
