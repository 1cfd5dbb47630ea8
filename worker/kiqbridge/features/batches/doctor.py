"""What the doctor finds of batches: pending jobs that are nowhere."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kiqbridge.api import Fact, Operator
from kiqbridge.api.verdict import Rule
from kiqbridge.features.batches.overview import cancelling, list_batches
from kiqbridge.features.batches.status import PENDING, BatchStatus
from kiqbridge.features.gone_jobs.places import nowhere
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.names import text_of

MOST_BATCHES: Final = 50
MOST_JOBS: Final = 20
"""Batches, and pending jobs of each, that are sought."""

_AT_ONCE: Final = 5_000
_LOOKS: Final = 3
"""Members that are looked at for them in one round trip, and round trips; five times as many where no page waits."""

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
    pending, unseen = _pending(operator, batches)
    sought = {jid for jids in pending.values() for jid in jids}
    if not sought:
        return
    gone, note = nowhere(operator, LOST.id, sought)
    if (note or unseen) and not gone:
        hidden = f"of {unseen:,} batches some members were looked at" if unseen else ""
        yield LOST.fact("healthy", "; ".join(filter(None, (LOST.well, hidden, note))), "/batches")
    for batch in batches:
        lost = [jid for jid in pending[batch.bid] if jid in gone]
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            what = f"Batch {batch.bid} ({batch.description or batch.kind}) waits for job {lost[0]}{more}, which is nowhere."
            cancel = cancelling(batch)
            yield LOST.fact("warning", what, cancel.path, acts=[cancel], BID=batch.bid)


def _pending(
    operator: Operator, batches: Sequence[BatchStatus]
) -> tuple[Mapping[str, Sequence[str]], int]:
    """Pending jobs of each, and of how many batches not enough members were looked at to find them."""
    left = {each.bid: b"0" for each in batches}
    wanted = {each.bid: min(each.pending, MOST_JOBS) for each in batches}
    found: dict[str, dict[str, None]] = {bid: {} for bid in left}
    for _ in range(_LOOKS if operator.via == "web" else 5 * _LOOKS):
        if not left:
            break
        count = max(_AT_ONCE // len(left), MOST_JOBS)
        replies = operator.pool.run(
            *(
                ("HSCAN", operator.keys.batch_members(bid), cursor, "COUNT", count)
                for bid, cursor in left.items()
            )
        )
        for bid, (cursor, fields) in zip(list(left), replies, strict=True):
            names = (
                text_of(name)
                for name, state in pairs_of(fields).items()
                if text_of(state) in PENDING
            )
            found[bid] |= dict.fromkeys(names)
            left[bid] = cursor
            if int(cursor) == 0 or len(found[bid]) >= wanted[bid]:
                del left[bid]
    jids = {
        bid: [each for each in names if not each.startswith("b:")] for bid, names in found.items()
    }
    return {bid: names[:MOST_JOBS] for bid, names in jids.items()}, len(left)
