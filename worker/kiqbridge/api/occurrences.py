"""What became of the last occurrences of schedules, out of their ledgers (docs/schedules.md), in two round trips."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kiqbridge.api.operator import Operator
from kiqbridge.clocks.ledger import LEFT_OUT
from kiqbridge.wire import json_text
from kiqbridge.wire.tick_mark import JobEnd

LATE_S: Final = 60.0
"""Seconds after its instant from which an occurrence counts as late: EventBridge's precision is a minute."""

Kind = Literal["on time", "late", "duplicate", "missed", "caught up", "paused", "skipped"]
"""What became of an occurrence. `duplicate`: delivered more than once, and enqueued once. `caught up`: it did not
come in time and came later. `paused`, `skipped`: delivered, and not enqueued because of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """An instant at which a schedule was due.

    Attributes:
        at: the instant, epoch seconds.
        kind: what became of it.
        late_s: seconds from its instant to its enqueuing; below 0: placed ahead; None: it never came.
        deliveries: how often it was delivered; enqueued was only the first one.
        by: which clock enqueued it, such as `lambda:REQUEST`, or who ran it by hand.
        jids: of its jobs.
        outcome: how its jobs ended: `done`, or the worst of `dead`, `discarded`, `expired`, …; `open` as long as
            one has no end; "" without jobs.
    """

    at: int
    kind: Kind
    late_s: float | None = None
    deliveries: int = 0
    by: str = ""
    jids: Sequence[str] = ()
    outcome: str = ""


@dataclass(slots=True)
class Ledger:
    """What is kept of the last occurrences of one schedule."""

    entries: Sequence[Mapping[str, Any]]
    attempts: Mapping[int, int]
    ends: Mapping[int, Sequence[JobEnd]]


def read_ledgers(
    operator: Operator, names: Sequence[str], now: float, last: int
) -> dict[str, Ledger]:
    """The last entries of each ledger, how often each was delivered, and the ends of their jobs."""
    if not names:
        return {}
    keys = operator.keys
    replies = operator.pool.run(
        *(
            ("ZRANGE", keys.ticks(name), repr(now), "-inf", "BYSCORE", "REV", "LIMIT", 0, last)
            for name in names
        )
    )
    ledgers = {
        name: Ledger(entries=_entries(texts), attempts={}, ends={})
        for name, texts in zip(names, replies, strict=True)
    }
    fired = [name for name in names if ledgers[name].entries]
    if not fired:
        return ledgers
    instants = {name: [int(each["at"]) for each in ledgers[name].entries] for name in fired}
    more = operator.pool.run(
        *(("HMGET", keys.attempts(name), *map(str, instants[name])) for name in fired),
        *(
            ("ZRANGE", keys.ends(name), str(instants[name][-1]), str(instants[name][0]), "BYSCORE")
            for name in fired
        ),
    )
    for name, counts, texts in zip(fired, more[: len(fired)], more[len(fired) :], strict=True):
        pairs = zip(instants[name], counts, strict=True)
        ledgers[name].attempts = {at: int(count) for at, count in pairs if count}
        ends: dict[int, list[JobEnd]] = {}
        for text in texts:
            end = JobEnd.from_text(text)
            ends.setdefault(end.at, []).append(end)
        ledgers[name].ends = ends
    return ledgers


def _entries(texts: Iterable[bytes]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for text in texts:
        try:
            entry = json_text.loads(text)
        except json_text.MalformedJSON:
            continue
        if isinstance(entry, dict) and "at" in entry and "enqueued_at" in entry:
            found.append(entry)
    return found


def occurrences_of(ledger: Ledger, missed: Sequence[int], last: int) -> list[Occurrence]:
    """Those of the ledger, and those that never came, newest first."""
    entries = {int(each["at"]): each for each in ledger.entries}
    instants = sorted({*entries, *missed}, reverse=True)[:last]
    return [
        _occurrence(at, entries[at], ledger, was_missed=at in missed)
        if at in entries
        else Occurrence(at=at, kind="missed")
        for at in instants
    ]


def _occurrence(
    at: int, entry: Mapping[str, Any], ledger: Ledger, *, was_missed: bool
) -> Occurrence:
    late_s = float(entry["enqueued_at"]) - at
    deliveries = ledger.attempts.get(at, 1)
    left_out = next((word for word in LEFT_OUT if entry.get(word)), "")
    jids = [str(jid) for jid in entry.get("jids", [])]
    return Occurrence(
        at=at,
        kind=_kind(left_out, late_s, deliveries, was_missed=was_missed),
        late_s=late_s,
        deliveries=deliveries,
        by=str(entry.get("by", "")),
        jids=jids,
        outcome=_outcome(jids, ledger.ends.get(at, [])),
    )


def _kind(left_out: str, late_s: float, deliveries: int, *, was_missed: bool) -> Kind:
    if left_out == "paused":
        return "paused"
    if left_out:
        return "skipped"
    if was_missed:
        return "caught up"
    if late_s > LATE_S:
        return "late"
    return "duplicate" if deliveries > 1 else "on time"


def _outcome(jids: Sequence[str], ends: Sequence[JobEnd]) -> str:
    """Of a job that was retried by hand after its death the last end counts."""
    newest = {end.jid: end.outcome for end in sorted(ends, key=lambda end: end.ended_at)}
    if not jids:
        return ""
    if any(jid not in newest for jid in jids):
        return "open"
    return next((newest[jid] for jid in jids if newest[jid] != "done"), "done")
