"""What the doctor finds of batches: pending jobs that are nowhere."""

import time
from collections.abc import Iterator
from typing import Final

from kiqbridge.api import Fact, Operator
from kiqbridge.api.verdict import Rule
from kiqbridge.features.batches.overview import cancelling, list_batches, read_members
from kiqbridge.features.batches.status import BatchStatus
from kiqbridge.features.gone_jobs.places import nowhere

MOST_BATCHES: Final = 50
MOST_JOBS: Final = 20
"""Batches, and pending jobs of each, that are sought."""

MOST_PARTS: Final = 200
"""Parts of queues and sets, of 250 jobs each, that are read for them; the next look goes on behind them."""

YOUNG_S: Final = 600.0
"""Seconds for which a batch is not looked at: it is being written, or its jobs move."""

LOST: Final = Rule(
    id="batch-job-gone",
    reports=f"batches with a pending job that is in no queue and no set, and does not run; {MOST_BATCHES} batches, "
    f"{MOST_JOBS} jobs of each",
    why="The batch does not end, and pushes no callback.",
    do="The leader of the workers ends such a job as gone within about two hours. If no worker of this version lives, start "
    "one; to end the batch at once, cancel it: kiqbridge batch cancel BID.",
    well="each pending job of a batch that was looked at is somewhere",
    command="kiqbridge batch cancel BID",
)
RULES: Final = (LOST,)


def examine(operator: Operator) -> Iterator[Fact]:
    """The seam `examines`."""
    before = time.time() - YOUNG_S
    batches = [
        each
        for each in list_batches(operator.client, 1, MOST_BATCHES, "unfinished").rows
        if each.pending and not each.is_open and each.created_at < before
    ]
    pending = {each.bid: _pending(operator, each) for each in batches}
    sought = {jid for jids in pending.values() for jid in jids}
    if not sought:
        return
    gone, note = nowhere(operator.pool, operator.keys, LOST.id, sought, MOST_PARTS)
    if note and not gone:
        yield LOST.fact("healthy", f"{LOST.well}; {note}", "/batches")
    for batch in batches:
        lost = [jid for jid in pending[batch.bid] if jid in gone]
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            what = f"Batch {batch.bid} ({batch.description or batch.kind}) waits for job {lost[0]}{more}, which is nowhere."
            cancel = cancelling(batch)
            yield LOST.fact("warning", what, cancel.path, acts=[cancel], BID=batch.bid)


def _pending(operator: Operator, batch: BatchStatus) -> list[str]:
    rows = read_members(operator.client, batch, ("pending",)).rows
    return [each.name for each in rows if not each.is_batch][:MOST_JOBS]
