"""The lock of a unique job as its payload carries it.

A unique job carries in its attribute `flow`, which every Sidekiq keeps as it is:

    {"class":"Bill","args":[7],"jid":"b4a5…","flow":{"lock":"Bill:3f79…","until":"done"}}

`take`, seconds, is added where the lock is not taken by the push: by a schedule, or under a dedupe key. Such a job
takes it when it begins.

What a declaration says about unique jobs; public as `kiqbridge.flow.Unique`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, cast, get_args

from kiqbridge.errors import KiqbridgeError, NotUnique
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.flow_mark import flow_of
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import FLOW, is_number
from kiqbridge.wire.rules import By, Rule, RuledJob, check_choice, check_seconds

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


OnConflict = Literal["drop", "replace", "raise"]

DAY_S: Final = 86_400.0

LOOK_S: Final = 600.0
"""Seconds from taking a lock until it is looked at for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique(Rule):
    """Rule: one job of a class with the same arguments waits at a time, or waits and runs.

    Attributes:
        until: "done": from the push until the job has succeeded, died or was deleted, retries included; "start":
            until it begins.
        by: which arguments count, default all: names of parameters, or a function that is called with the
            arguments as they are on the wire.
        on_conflict: "drop": nothing is pushed, and the answer is None. "replace": the new job is pushed, and
            the earlier one is discarded when it comes up. "raise": `NotUnique`, with the jid of the earlier one.
        ttl_s: seconds after the time of the job from which the lock does not count any more, whatever
            became of the job: the last resort. Default: 30 days, more than the usual retries take.

    Raises:
        ConfigError: a value that cannot be used.
    """

    option: ClassVar = "unique"
    part: ClassVar = "unique.push_by_lock"

    until: Until = "done"
    by: By = None
    on_conflict: OnConflict = "drop"
    ttl_s: float = 30 * DAY_S

    def __post_init__(self) -> None:
        check_choice("unique: until", self.until, get_args(Until))
        check_choice("unique: on_conflict", self.on_conflict, get_args(OnConflict))
        check_seconds("unique: ttl_s", self.ttl_s)

    def keys(self, keys: Keys) -> Sequence[str]:
        """The keys that the script reads and writes."""
        return keys.locks, keys.locks_look, keys.replaced

    def script_args(self, job: RuledJob) -> Sequence[str | bytes | float]:
        """The arguments of the script for one job."""
        return job.name, self.ttl_s, self.on_conflict, LOOK_S

    def stamp(self, payload: dict[str, Any], name: str, *, is_taken: bool) -> None:
        """Note the lock; of a push that does not take it, how long the job takes it when it begins."""
        members: dict[str, Any] = {"lock": name, "until": self.until}
        if not is_taken:
            members["take"] = self.ttl_s
        flow = payload.get(FLOW)
        payload[FLOW] = {**flow, **members} if isinstance(flow, dict) else members

    def refusal(self, job_class: str, jid: str, places: Mapping[int, str]) -> KiqbridgeError:
        """The error of a job whose lock another job holds; `places` has the jids of the holders."""
        return NotUnique(job_class, jid, places=places)
