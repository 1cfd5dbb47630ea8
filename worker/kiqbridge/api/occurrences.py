"""What became of the last occurrences of schedules, out of their ledgers (docs/schedules.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kiqbridge.clocks.ledger import LedgerEntry

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


def occurrences_of(
    entries: Sequence[LedgerEntry], missed: Sequence[int], last: int
) -> list[Occurrence]:
    """Those of the ledger, and those that never came, newest first."""
    by_instant = {each.at: each for each in entries}
    instants = sorted({*by_instant, *missed}, reverse=True)[:last]
    return [
        _occurrence(by_instant[at], was_missed=at in missed)
        if at in by_instant
        else Occurrence(at=at, kind="missed")
        for at in instants
    ]


def _occurrence(entry: LedgerEntry, *, was_missed: bool) -> Occurrence:
    return Occurrence(
        at=entry.at,
        kind=_kind(entry, was_missed=was_missed),
        late_s=entry.lateness_s,
        deliveries=entry.attempts,
        by=entry.by,
        jids=entry.jids,
        outcome=entry.outcome,
    )


def _kind(entry: LedgerEntry, *, was_missed: bool) -> Kind:
    if entry.left_out:
        return "paused" if entry.left_out == "paused" else "skipped"
    if was_missed:
        return "caught up"
    if entry.lateness_s > LATE_S:
        return "late"
    return "duplicate" if entry.attempts > 1 else "on time"
