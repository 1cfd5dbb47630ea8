"""From an occurrence of a schedule to the jobs that a script places in `schedule`."""

import hashlib
from collections.abc import Mapping

from kiqbridge.client.client import Client
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store.schedule_scripts import PlacedJobs
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import TICK
from kiqbridge.wire.tick_mark import TickMark


def jobs_of_occurrence(
    client: Client, definition: ScheduleDefinition, instant: int, *, due: int, by: str, now: float
) -> PlacedJobs:
    """The jobs of one occurrence, prepared as a push would; those that middleware stops are missing.

    Args:
        client: whose middleware is called.
        definition: of the schedule.
        instant: of the occurrence, epoch seconds.
        due: when its jobs run, epoch seconds.
        by: who places them, for the ledger.
        now: epoch seconds.

    Raises:
        PayloadError: that is no job.
    """
    mark = TickMark(
        schedule=definition.name,
        at=instant,
        overlap=definition.overlap,
        max_age_s=definition.max_age_s,
    ).to_attribute()
    prepared = [
        made
        for item in definition.jobs
        if (made := client.prepare_placed(_item(item, mark, due))) is not None
    ]
    entry = {
        "at": instant,
        "jids": [jid for jid, _ in prepared],
        "by": by,
        "enqueued_at": round(now, 3),
    }
    return PlacedJobs(
        instant=instant,
        entry=json_text.dumps(entry),
        jobs=[(due, text) for _, text in prepared],
    )


def digest_of(text: bytes | None) -> str:
    """As scripts compare what was read; empty for nothing."""
    return hashlib.sha1(text, usedforsecurity=False).hexdigest() if text else ""


def _item(job: Mapping[str, object], mark: Mapping[str, object], due: int) -> dict[str, object]:
    return {**job, TICK: mark, "at": due}
