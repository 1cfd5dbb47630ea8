"""A tick that did not come, as it is reported by who finds it to who is notified."""

from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.amounts import instant_text
from kiqbridge.wire.tick_mark import Missed


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedTick:
    """An occurrence that did not come.

    Attributes:
        schedule: its name.
        at: its instant, epoch seconds.
        late_s: seconds since then.
        policy: what is done about it.
        is_new: it is recorded now, for the first time, so the alert is due.
        enqueued: it was enqueued now.
        reason: why it was not, though the policy asks for it.
    """

    schedule: str
    at: int
    late_s: float
    policy: Missed
    is_new: bool = False
    enqueued: bool = False
    reason: str = ""

    @property
    def instant(self) -> str:
        """Its instant in ISO 8601 and UTC."""
        return instant_text(self.at)
