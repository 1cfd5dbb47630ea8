"""Deleting all jobs of a queue or a set at once, and ending those whose end somebody waits for (protocol §22).

The queue is empty with the first script, however long it is. Its jobs are then read from under another name, a part
at a time; locks, batches, schedules and state machines get to know of theirs. A process that is killed meanwhile
leaves the rest to the leader's search for jobs that are gone (engine/gone_jobs.py).
"""

import time
from typing import Final

from kiqbridge.api.leaving import removal_of
from kiqbridge.api.operator import Operator
from kiqbridge.store.audit_log import Note
from kiqbridge.store.operating import clear, end_cleared, read_queue, read_set
from kiqbridge.wire.payload import FLOW, TASK_TOKEN, TICK

_AWAITED: Final = "\n".join(f'"{name}"' for name in (FLOW, TICK, TASK_TOKEN)).encode()
"""What stands in the text of a job whose end somebody may wait for."""

_AT_ONCE: Final = 1_000
"""Jobs of a queue through which one script looks: about two milliseconds of the server's time."""


def cleared(
    operator: Operator, key: str, note: Note, *, queue: str = "", has_ends: bool = True
) -> int:
    """Delete all jobs under a key; how many there were.

    Args:
        operator: who does it.
        key: of a queue, or of a sorted set.
        note: the entry of the audit log.
        queue: name of the queue, or "" for a sorted set.
        has_ends: whether its jobs have not ended yet.

    Raises:
        RedisUnavailable: all were deleted, but maybe not all were ended; or none.
        RedisRefused: a key is of another type.
    """
    pool, keys = operator.pool, operator.keys
    total = clear(pool, keys, key, queue=queue, note=note, has_ends=has_ends)
    left, passed, step = total if has_ends else 0, 0, 1
    held, reason = (
        keys.cleared(note.id),
        f"{operator.by} (via {operator.via}) cleared {queue or key}",
    )
    while left > 0:
        if queue:
            part = read_queue(
                pool, held, passed, from_tail=True, needle=_AWAITED, step=step, most=_AT_ONCE
            )
            step = part.step
            found, texts = part.looked_at, [text for text, _ in part.jobs]
        else:
            page = read_set(pool, held, passed, (), needle=_AWAITED)
            found, texts = page.looked_at, [text for text, _ in page.members]
        if not found:
            break
        left, passed = max(left - found, 0), passed + found
        now = time.time()
        removals = (removal_of(text, "discarded", reason, now) for text in texts)
        ends = [each for each in removals if each.report or each.end]
        if ends or not left:
            end_cleared(pool, keys, held, left, ends)
            passed = 0
    return total
