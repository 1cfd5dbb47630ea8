"""The lock of a unique job as its payload carries it.

A unique job carries in its attribute `flow`, which every Sidekiq keeps as it is:

    {"class":"Bill","args":[7],"jid":"b4a5…","flow":{"lock":"Bill:3f79…","until":"done"}}

`take`, seconds, is added where the lock is not taken by the push: by a schedule, or under a dedupe key. Such a job
takes it when it begins.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, cast, get_args

from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.flow_mark import flow_of
from kiqbridge.wire.payload import is_number

Until = Literal["start", "done"]
"""When a lock is freed: when its job begins, or when its job has ended."""

MOST_NAME: Final = 1_000
"""Characters of a name that is read from a payload."""


@dataclass(frozen=True, slots=True)
class LockMark:
    """The lock that a payload names.

    Attributes:
        name: of the lock.
        until: when it is freed.
        take_s: the job takes the lock when it begins, for so many seconds at most; None: its push took it.
    """

    name: str
    until: Until
    take_s: float | None = None


def lock_of(payload: Mapping[str, Any]) -> LockMark | None:
    """The lock of a job; None: it has none, or nothing that can be one."""
    flow = flow_of(payload) or {}
    name, until, take = flow.get("lock"), flow.get("until"), flow.get("take")
    if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME or until not in get_args(Until):
        return None
    seconds = float(take) if is_number(take) and take > 0 else None
    return LockMark(name, cast("Until", until), seconds)
