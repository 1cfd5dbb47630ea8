"""The policy of a supervisor: which process is started, replaced, ended or killed, and when.

Pure decisions: nothing here forks, sends a signal, reads a clock or writes a log line. Times are seconds on
`time.monotonic`, passed in. supervisor.py acts on what is decided.

- A process that ends unasked gets a successor after a pause, which doubles while that keeps happening.
- A replacement is started beside the process that it replaces; that one ends once the new one has
  registered. One at a time, so there is never more than one process too many.
- A process that was asked to end and has not ended `patience_s` later is killed.
- If every process fails before any has registered, the supervisor ends with the reason of the first.
"""

import logging
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
GOOD_LIFE_S = 60.0
"""A process that lived so long has not crashed because of how it was started."""

_START_FAILED = 1
"""Exit code of a worker that could not start; see cli.py."""


@dataclass(slots=True, kw_only=True, eq=False)
class Slot:
    """The place of one process, whichever fills it.

    Attributes:
        child: the process that fills it.
        successor: started to take the place of `child`, not registered yet.
        failures: ends in a row that came too soon.
        not_before: when the next one may be started.
        replace_for: why `child` is to be replaced; None = it is not.
    """

    number: int
    child: "Child | None" = None
    successor: "Child | None" = None
    failures: int = 0
    not_before: float = 0.0
    replace_for: str | None = None

    def put_off(self, now: float, lived_s: float) -> float:
        """Note that its process had to be given up after `lived_s`; seconds until the next start."""
        if lived_s >= GOOD_LIFE_S:
            self.failures = 0
        pause_s = pause_after(self.failures)
        self.failures += 1
        self.not_before = now + pause_s
        return pause_s


@dataclass(slots=True, kw_only=True, eq=False)
class Child:
    """A forked process.

    Attributes:
        heard_at: when it last reported.
        incarnation: under which it holds its jobs; None = not registered yet.
        error: why it ended, as it reported.
        kill_at: when it is killed; None = it was not asked to end.
        is_unrenewed: it is silent, and its lease could not be renewed for it at the last try, which was logged.
    """

    pid: int
    slot: Slot
    started_at: float
    heard_at: float
    incarnation: str | None = None
    error: str | None = None
    kill_at: float | None = None
    is_unrenewed: bool = False

    def __str__(self) -> str:
        return f"process {self.slot.number} (pid {self.pid})"


class End(NamedTuple):
    """What is logged about the end of a process: the level, what happened and what follows."""

    level: int
    sentence: str


def pause_after(failures: int) -> float:
    """Seconds before the next start, after so many failures before this one."""
    # Not 2 ** failures alone: it overflows after a day of failing.
    return float(min(FIRST_PAUSE_S * 2 ** min(failures, 16), LONGEST_PAUSE_S))


def describe_exit(status: int) -> str:
    """A wait status in words."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class Fleet:
    """The processes of one supervisor, and what is due for each.

    Args:
        count: how many processes there are to be.
        patience_s: seconds that a process has to end.

    Attributes:
        slots: one for each process.
        children: all processes that have not ended, by pid.
        is_quiet: no process is started any more.
        is_stopping: all processes were asked to end.
        any_registered: one of them has registered once.
        failure: why the supervisor ends with an error; None = it does not.
    """

    def __init__(self, count: int, patience_s: float) -> None:
        self.slots = [Slot(number=number) for number in range(1, count + 1)]
        self.children: dict[int, Child] = {}
        self.is_quiet = False
        self.is_stopping = False
        self.any_registered = False
        self.failure: str | None = None
        self._patience_s = patience_s
        self._failed_starts: dict[int, str] = {}

    @property
    def ready(self) -> int:
        """How many places are filled by a process that has registered."""
        return sum(bool(slot.child and slot.child.incarnation) for slot in self.slots)

    def due_starts(self, now: float) -> list[Slot]:
        """Places that are empty, and whose next process may be started now."""
        if self.is_stopping or self.is_quiet:
            return []
        return [slot for slot in self.slots if slot.child is None and now >= slot.not_before]

    def due_replacement(self, now: float) -> Slot | None:
        """The place whose successor is to be started now; none while another one is being replaced."""
        if self.is_stopping or self.is_quiet:
            return None
        if any(slot.successor for slot in self.slots) or any(
            child.kill_at for child in self.children.values()
        ):
            return None
        return next(
            (slot for slot in self.slots if slot.replace_for and now >= slot.not_before), None
        )

    def add(self, slot: Slot, pid: int, now: float) -> Child:
        """A process was started: it fills an empty place, else it is to replace the one there."""
        child = Child(pid=pid, slot=slot, started_at=now, heard_at=now)
        self.children[pid] = child
        if slot.child is None:
            slot.child, slot.replace_for = child, None
        else:
            slot.successor = child
        return child

    def hear(
        self, pid: int, now: float, *, incarnation: str | None = None, error: str | None = None
    ) -> None:
        """A process reported; None = nothing new."""
        child = self.children.get(pid)
        if child is None:
            return
        child.heard_at = now
        child.error = error or child.error
        child.incarnation = incarnation or child.incarnation
        self.any_registered |= child.incarnation is not None

    def replace_all(self, why: str) -> None:
        """Replace all processes, one after another."""
        for slot in self.slots:
            slot.replace_for = why

    def replace_above(
        self, slot: Slot, used_mb: float, ceiling_mb: int, now: float
    ) -> float | None:
        """Have a process replaced that holds too much; seconds until then, None = it may stay."""
        if slot.child is None or used_mb <= ceiling_mb:
            return None
        slot.replace_for = f"it holds {used_mb:.0f} MB, the ceiling is {ceiling_mb}"
        return slot.put_off(now, now - slot.child.started_at)

    def measured(self) -> Iterator[tuple[Slot, Child]]:
        """Processes whose memory counts: those that are not being replaced already."""
        for slot in self.slots:
            if slot.child is not None and slot.successor is None and not slot.replace_for:
                yield slot, slot.child

    def hand_over(self) -> Iterator[tuple[Child, Child]]:
        """Processes that have a registered successor, with it: from now on that fills their place."""
        for slot in self.slots:
            if slot.successor is None or slot.successor.incarnation is None:
                continue
            old, new = slot.child, slot.successor
            slot.child, slot.successor, slot.replace_for = new, None, None
            if old is not None:
                yield old, new

    def ask_to_end(self, child: Child, now: float) -> None:
        """It was asked to end; asking again does not prolong its time."""
        if child.kill_at is None:
            child.kill_at = now + self._patience_s

    def overdue(self, now: float) -> list[Child]:
        """Processes to kill now, since they were asked to end and have not; again later if need be."""
        late = [
            child
            for child in self.children.values()
            if child.kill_at is not None and now >= child.kill_at
        ]
        for child in late:
            child.kill_at = now + self._patience_s
        return late

    def end(self, child: Child, status: int, now: float) -> End:
        """A process has ended with this wait status; what follows is in the sentence."""
        self.children.pop(child.pid, None)
        slot, lived_s = child.slot, now - child.started_at
        why = child.error
        if why is None and child.kill_at is None and status == signal.SIGKILL:
            why = "not by the supervisor; the system may be out of memory"
        said = f"{child} {describe_exit(status)}" + (f": {why}" if why else "")
        is_current = slot.child is child
        if is_current:
            slot.child = None
        if child.kill_at is not None:
            return End(logging.INFO, f"{said}, as requested")
        if not is_current:  # it was to replace another, which goes on
            slot.successor = None
            pause_s = slot.put_off(now, lived_s)
            stays = f"{slot.child} stays, next try in {pause_s:.1f} s"
            return End(logging.ERROR, f"{said} before it was ready; {stays}")
        if slot.successor is not None:
            slot.child, slot.successor = slot.successor, None
            slot.replace_for = None
            return End(logging.WARNING, f"{said}; {slot.child} takes its place")
        self._note_failed_start(child, status)
        if self.is_quiet or self.is_stopping or self.failure is not None:
            return End(logging.WARNING, f"{said}; no other is started")
        pause_s = slot.put_off(now, lived_s)
        # Exit code 0: the Stop button of the Web UI, or a TERM sent to it alone.
        level = logging.INFO if status == 0 else logging.ERROR
        return End(level, f"{said}; another is started in {pause_s:.1f} s")

    def seconds_to_next(self, now: float) -> float:
        """Seconds until a process is to be started or killed; infinite if none is."""
        due = [
            *(slot.not_before for slot in self.slots if slot.child is None),
            *(child.kill_at for child in self.children.values() if child.kill_at is not None),
        ]
        return min((at - now for at in due), default=float("inf"))

    def _note_failed_start(self, child: Child, status: int) -> None:
        """If no process could start, end with the reason: trying again changes neither code nor settings."""
        if self.any_registered or os.waitstatus_to_exitcode(status) != _START_FAILED:
            return
        reason = child.error or "see what it logged"
        self._failed_starts.setdefault(child.slot.number, reason)
        count = len(self.slots)
        if len(self._failed_starts) == count and not self.is_stopping:
            self.failure = (
                f"none of the {count} processes could start: {reason}" if count > 1 else reason
            )
