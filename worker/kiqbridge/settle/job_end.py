"""How a job of a schedule ended, for the ledger.

It is written by the script that settles the job (settle.lua, bury.lua), so a job that is gone from Redis has an
end, and one that goes on has none. Pure.
"""

from collections.abc import Mapping
from typing import Any

from kiqbridge.settle.failed_payload import error_class
from kiqbridge.wire.payload import TICK
from kiqbridge.wire.tick_mark import EndKind, JobEnd, LedgerEnd, tick_mark_of


def end_of(
    payload: Mapping[str, Any],
    outcome: EndKind,
    now: float,
    *,
    took_s: float | None = None,
    error: BaseException | None = None,
) -> LedgerEnd | None:
    """The end of a job; None: it belongs to no schedule.

    Args:
        payload: the job as it was fetched; of a text that is not parsed its `marked_payload`.
        outcome: how it ended.
        now: epoch seconds.
        took_s: seconds that its last run took; None = it was not run.
        error: the last one.
    """
    if TICK not in payload or (mark := tick_mark_of(payload)) is None:
        return None
    count = payload.get("retry_count")
    end = JobEnd(
        at=mark.at,
        jid=str(payload.get("jid", "")),
        outcome=outcome,
        ended_at=now,
        took_s=took_s,
        error=error_class(error) if error is not None else "",
        retries=count + 1 if type(count) is int and count >= 0 else 0,
    )
    return LedgerEnd(mark.schedule, mark.at, end.to_text())
