"""What the doctor finds of limiters: those that are held for far longer than their jobs usually take."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kiqbridge.api import Fact, Limits, Operator, top_jobs
from kiqbridge.api.verdict import Rule
from kiqbridge.features.limiters.overview import Owner, list_limiters, read_owners, resetting
from kiqbridge.wire.amounts import span_text

MOST_LIMITERS: Final = 500
MOST_FULL: Final = 20
"""Limiters that are looked at, and full ones whose owners are."""

TIMES: Final = 10
"""So many usual durations of its jobs are too long."""

LEAST_S: Final = 10.0

STUCK: Final = Rule(
    id="limiter-stuck",
    reports=f"concurrent limiters that are full, for which somebody waits, and of which no lock was given back for {TIMES} "
    "times as long as a job of its owners usually takes (of the last hour; an hour, if none has ended)",
    why="Jobs that wait for the limiter are put off again and again, and fail in the end.",
    do="Look at what its owners do: kiqbridge limiter show concurrent NAME, and kiqbridge ps --jobs. Stop what is stuck; "
    "kiqbridge limiter reset lets others pass at once.",
    well="no full limiter is held for far longer than its jobs take",
    command="kiqbridge limiter reset concurrent NAME",
)
RULES: Final = (STUCK,)


def examine(operator: Operator) -> Iterator[Fact]:
    """The seam `examines`."""
    limiters = list_limiters(operator, 1, MOST_LIMITERS).rows
    full = [each for each in limiters if each.kind == "concurrent" and each.is_full and each.waits]
    if not full:
        return
    usual = {
        name: found.total.ms / done / 1000
        for name, found in top_jobs(operator=operator).classes.items()
        if (done := found.total.executions - found.total.failures)
    }
    now = time.time()
    owners_of = read_owners(operator, [each.name for each in full[:MOST_FULL]])
    for state, owners in zip(full, owners_of, strict=False):
        held_s = now - max((each.since for each in owners), default=now)
        if held_s > _bound_s(owners, usual):
            what = (
                f"Limiter {state.name} (concurrent) is full, {state.used:g} of {state.limit:g}, and no lock of it was given "
                f"back for {span_text(held_s)}; {state.waits:,} wait."
            )
            reset = resetting(state)
            yield STUCK.fact("warning", what, reset.path, acts=[reset], NAME=state.name)


def _bound_s(owners: Sequence[Owner], usual: Mapping[str, float]) -> float:
    known = [usual[each.job_class] for each in owners if each.job_class in usual]
    return max(TIMES * max(known), LEAST_S) if known else Limits().job_s
