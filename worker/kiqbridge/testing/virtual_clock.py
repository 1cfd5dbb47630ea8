"""The clock of a fake: what counts as now for scheduled jobs, retries, schedules, and what is enqueued.

It goes with the wall clock, plus what it was moved by. `time.time()` and `datetime.now()` of the tested code stay
what they are; a library that changes these, such as freezegun or time-machine, is followed.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from kiqbridge.wire.payload import epoch_seconds


class VirtualClock:
    """A clock that goes with the wall clock and can be moved.

    Args:
        on_moved: called when time has passed by `move` or `travel`, with the time before (epoch seconds), and
            whether declared and saved schedules fire.
    """

    def __init__(self, on_moved: Callable[[float, bool], object]) -> None:
        self._on_moved = on_moved
        self._offset_s = 0.0
        self._frozen: float | None = None

    def __repr__(self) -> str:
        state = "stands still" if self.is_frozen else "goes"
        return f"<VirtualClock {self.moment().isoformat()}, {state}>"

    @property
    def is_frozen(self) -> bool:
        """Whether the clock is stopped."""
        return self._frozen is not None

    def now(self) -> float:
        """Epoch seconds."""
        return time.time() + self._offset_s if self._frozen is None else self._frozen

    def moment(self) -> datetime:
        """The same as an aware datetime in UTC."""
        return datetime.fromtimestamp(self.now(), UTC)

    def move(
        self,
        by: timedelta | float = 0,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        schedules: bool = False,
    ) -> None:
        """Let time pass: what becomes due meanwhile is enqueued, each at its time; `drain` performs it.

        Args:
            by: a timedelta, or seconds; the others are added.
            days, hours, minutes, seconds: as of `datetime.timedelta`.
            schedules: True: declared and saved schedules fire as well, not only scheduled jobs and retries.

        Raises:
            ValueError: time cannot go back; `freeze` sets any time.
            EndlessJobs: the schedules fire too often in that time.
        """
        span = by if isinstance(by, timedelta) else timedelta(seconds=by)
        span += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        self._pass(self.now() + span.total_seconds(), schedules=schedules)

    def travel(self, to: datetime | float, *, schedules: bool = False) -> None:
        """Let time pass until then (aware datetime, or epoch seconds); otherwise as `move`."""
        self._pass(float(epoch_seconds(to, field="to")), schedules=schedules)

    def freeze(self, at: datetime | float | None = None) -> None:
        """Stop the clock, now or at any time (aware datetime, or epoch seconds).

        Nothing fires: this is where a test begins. `move` and `travel` move a stopped clock.
        """
        self._frozen = self.now() if at is None else float(epoch_seconds(at, field="at"))

    def unfreeze(self) -> None:
        """Let the clock run again."""
        if self._frozen is not None:
            self._offset_s, self._frozen = self._frozen - time.time(), None

    def set(self, now: float) -> None:
        """Set the time; for the fake, which moves it from one occurrence to the next."""
        if self._frozen is None:
            self._offset_s = now - time.time()
        else:
            self._frozen = now

    def _pass(self, until: float, *, schedules: bool) -> None:
        before = self.now()
        if until < before:
            raise ValueError(
                f"the clock stands at {self.moment().isoformat()} and cannot go back by "
                f"{before - until:g} s; freeze(at=…) sets any time"
            )
        self.set(until)
        self._on_moved(before, schedules)
