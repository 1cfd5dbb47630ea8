"""What is said about a schedule beside its definition: that it is paused, which occurrences are skipped.

It is kept as JSON under the schedule's name in `kb:schedules:state`, for schedules of a template as well:

    {"paused":{"reason":"migration","by":"ana@host","at":1700000000.5,"until":null},"skipped":[1700006400]}

Pure; who writes it: features/dynamic/schedules.py.
"""

from dataclasses import asdict
from typing import Any, Final

from kiqbridge.runtime.records import dataclass
from kiqbridge.wire import json_text

KEEP_SKIPPED_S: Final = 2 * 86_400
"""For so long a skipped occurrence is remembered after its instant: a delivery by AWS may come a day late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePause:
    """A pause; times in epoch seconds on the clock of Redis.

    Attributes:
        reason, by: what was given.
        at: since when.
        until: when it ends by itself, None = never.
    """

    reason: str = ""
    by: str = ""
    at: float | None = None
    until: float | None = None

    def is_over(self, now: float) -> bool:
        """Whether it has ended by itself."""
        return self.until is not None and self.until <= now


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleState:
    """The state of one schedule.

    Attributes:
        paused: the pause, which may be over.
        skipped: instants that are not enqueued, ascending.
    """

    paused: SchedulePause | None = None
    skipped: tuple[int, ...] = ()

    def pause_at(self, now: float) -> SchedulePause | None:
        """The pause that is in force."""
        return None if self.paused is None or self.paused.is_over(now) else self.paused

    def excuses(self, instant: int) -> bool:
        """Whether an occurrence was not to fire: skipped, or due during the pause."""
        if instant in self.skipped:
            return True
        pause = self.paused
        return pause is not None and (
            (pause.at or 0.0) <= instant and (pause.until is None or instant <= pause.until)
        )

    def to_text(self) -> bytes:
        """As it is kept; empty for a state that says nothing."""
        document: dict[str, Any] = {}
        if self.paused is not None:
            document["paused"] = asdict(self.paused)
        if self.skipped:
            document["skipped"] = list(self.skipped)
        return json_text.dumps(document) if document else b""

    @classmethod
    def from_text(cls, text: bytes | None) -> "ScheduleState":
        """The counterpart of `to_text`; what cannot be read stops no schedule."""
        try:
            document = json_text.loads(text) if text else {}
            skipped = sorted(each for each in document.get("skipped", ()) if type(each) is int)
            return cls(paused=_pause(document.get("paused")), skipped=tuple(skipped))
        except (AttributeError, TypeError, ValueError):
            return cls()


_READERS: Final = {"reason": str, "by": str, "at": float, "until": float}


def _pause(value: Any) -> SchedulePause | None:
    if value is None:
        return None
    known = {name: read for name, read in _READERS.items() if value.get(name) is not None}
    return SchedulePause(**{name: read(value[name]) for name, read in known.items()})
