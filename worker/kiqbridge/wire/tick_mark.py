r"""What a job says about the schedule that enqueued it, and what its end adds to the ledger.

A job of an occurrence carries the attribute `tick`, which every Sidekiq keeps as it is:

    {"class":"Nightly","args":[],"jid":"b4a5…","tick":{"schedule":"shop/Nightly","at":1700000000}}

The `tick` of an event has the policies of its schedule besides. `overlap` and `max_age_s` go into the jobs; `missed`
and `grace_s` are for who watches (features/missed_ticks/missed.py), and for the function nothing:

    "tick": {"schedule": "shop/Nightly", "at": "<aws.scheduler.scheduled-time>",
             "missed": "last", "grace_s": 600, "max_age_s": 3600, "overlap": "skip"}

Who settles the job adds its end to `kb:ends:SCHEDULE`, in the script that settles it:

    {"at":1700000000,"jid":"b4a5…","outcome":"done","ended_at":1700000003.25,"took_s":3.1}
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, cast, get_args

from kiqbridge.runtime.records import dataclass
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import TICK, is_number

Overlap = Literal["allow", "skip", "cancel"]
"""What a job of a schedule does while an earlier one runs: run too, not run, or cancel the earlier one."""

Missed = Literal["alert", "last", "all"]
"""What is done about ticks that did not come: an alert only, or the alert and the last one, or all of them up
to the maximum age, enqueued."""

EndKind = Literal["done", "dead", "discarded", "skipped", "expired", "cancelled", "gone"]
"""How a job of an occurrence ended: `skipped` by its overlap policy or by middleware, `expired`: begun later
than its maximum age, `discarded`: it failed and asked for no retry, or was deleted by an operator; `gone`: it is in Redis no more, and
it was not noted how it ended (features/gone_jobs/search.py)."""

MAX_NAME: Final = 256
"""Characters of the name of a schedule."""

_MAX_INSTANT: Final = 2**53


_CHOICES: Final = {"missed": get_args(Missed), "overlap": get_args(Overlap)}
_SECONDS: Final = ("grace_s", "max_age_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class TickMark:
    """The occurrence that a job belongs to.

    Attributes:
        schedule: name of the schedule, such as `shop/Nightly`.
        at: instant of the occurrence, epoch seconds.
        overlap: what it does while an earlier job of the schedule runs.
        max_age_s: seconds after `at` from which it is not begun any more; None = it is begun however late.
    """

    schedule: str
    at: int
    overlap: Overlap = "allow"
    max_age_s: float | None = None

    def to_attribute(self) -> dict[str, Any]:
        """The value of the attribute `tick`; what is the default is left out."""
        attribute: dict[str, Any] = {"schedule": self.schedule, "at": self.at}
        if self.overlap != "allow":
            attribute["overlap"] = self.overlap
        if self.max_age_s is not None:
            attribute["max_age_s"] = self.max_age_s
        return attribute

    @property
    def is_plain(self) -> bool:
        """Whether nothing is to be asked before the job begins."""
        return self.overlap == "allow" and self.max_age_s is None


def tick_mark_of(payload: Mapping[str, Any]) -> TickMark | None:
    """The occurrence that a payload names; None: it names none, or nothing that can be one."""
    tick = payload.get(TICK)
    if not isinstance(tick, Mapping):
        return None
    schedule, at = tick.get("schedule"), tick.get("at")
    if not isinstance(schedule, str) or not 0 < len(schedule) <= MAX_NAME:
        return None
    if type(at) is not int or not 0 <= at < _MAX_INSTANT:
        return None
    if not schedule.isascii() and _shown(schedule) != schedule:  # no name of a key
        return None
    overlap, age = tick.get("overlap"), tick.get("max_age_s")
    return TickMark(
        schedule=schedule,
        at=at,
        overlap=cast("Overlap", overlap) if overlap in get_args(Overlap) else "allow",
        max_age_s=float(age) if isinstance(age, int | float) and age is not True else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a job of an occurrence ended.

    Attributes:
        at: instant of the occurrence, epoch seconds.
        jid: of the job.
        outcome: how it ended.
        ended_at: when, epoch seconds.
        took_s: seconds that its last run took; None = it was not run.
        error: class of its last error, or "".
        retries: how often it was tried again.
    """

    at: int
    jid: str
    outcome: EndKind
    ended_at: float
    took_s: float | None = None
    error: str = ""
    retries: int = 0

    def to_text(self) -> bytes:
        """As it is kept in `kb:ends:SCHEDULE`."""
        found: dict[str, Any] = {
            "at": self.at,
            "jid": _shown(self.jid),
            "outcome": self.outcome,
            "ended_at": round(self.ended_at, 3),
        }
        if self.took_s is not None:
            found["took_s"] = round(self.took_s, 3)
        if self.error:
            found["error"] = _shown(self.error)
        if self.retries:
            found["retries"] = self.retries
        return json_text.dumps(found)

    @classmethod
    def from_text(cls, text: bytes) -> "JobEnd":
        """The counterpart of `to_text`.

        Raises:
            ValueError: it is none.
        """
        read = json_text.loads(text)
        try:
            return cls(
                at=int(read["at"]),
                jid=str(read["jid"]),
                outcome=cast("EndKind", str(read["outcome"])),
                ended_at=float(read["ended_at"]),
                took_s=None if read.get("took_s") is None else float(read["took_s"]),
                error=str(read.get("error", "")),
                retries=int(read.get("retries", 0)),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("it lacks what every end has") from error


def _shown(text: str) -> str:
    """Without what JSON and keys cannot carry, lone surrogates of a foreign client, and no longer than needed."""
    return text[:MAX_NAME].encode(errors="replace").decode()


def policy_faults(tick: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong with the policies of a tick, each beginning with the member's name."""
    for member, choices in _CHOICES.items():
        if member in tick and tick[member] not in choices:
            yield f"{member}: {tick[member]!r} is none of {', '.join(choices)}"
    for member in _SECONDS:
        if member in tick and not (is_number(value := tick[member]) and value >= 0):
            yield f"{member}: {tick[member]!r} is no number of seconds from 0"
