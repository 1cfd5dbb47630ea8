"""What a rule finds, and what it works on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from kiqbridge.schedule.sourced import SourcedSchedule

Severity = Literal["error", "warning", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
"""`error`: it does not do what it is for; `warning`: perhaps not what was meant; `note`: good to know."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes:
        code: of the rule, such as `KB101`.
        severity: how bad it is.
        schedule: name; of several the first.
        place: file and line, or `Redis`.
        what: what is so.
        why: what follows.
        advice: what to do.
        details: one line each, such as a new expression for each of several schedules.
    """

    code: str
    severity: Severity
    schedule: str
    place: str
    what: str
    why: str
    advice: str
    details: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the rules work on.

    Attributes:
        schedules: those that are enabled and can be read.
        now: aware; findings are about what comes after it.
        took_s: name of a schedule → seconds that its last jobs took, if a ledger was read.
        crowd: so many schedules at one minute are a crowd.
    """

    schedules: Sequence[SourcedSchedule]
    now: datetime
    took_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    crowd: int = 5

    @property
    def start(self) -> int:
        """Epoch seconds of the minute after now."""
        return int(self.now.timestamp()) // 60 * 60 + 60


def found(
    code: str,
    severity: Severity,
    schedule: SourcedSchedule,
    texts: tuple[str, str, str],
    details: Sequence[str] = (),
) -> Finding:
    """A finding about one schedule; the texts are what, why and advice."""
    return Finding(code, severity, schedule.name, schedule.place, *texts, details)
