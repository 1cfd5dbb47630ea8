"""Delivering ticks to the functions of `kiqbridge dev`, and saying what became of them."""

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from kiqbridge.dev.console import Console, short, shown_instant
from kiqbridge.dev.firing import SIMULATED, Firing, SimulatedClock, event_of
from kiqbridge.dev.ledger_watch import DeliveredTick, LedgerWatch
from kiqbridge.dev.local_function import FunctionError, LocalFunction
from kiqbridge.dev.overview import JobPlaces, following
from kiqbridge.schedule.template import TemplateSchedule

_NOT_ENQUEUED: Final = {
    "duplicates": "this tick is enqueued already: the ledger knows it",
    "stale": "older than what the ledger remembers: not enqueued",
    "paused": "its schedule is paused: not enqueued",
    "skipped": "this tick was to be skipped: not enqueued",
}
"""Part of a function's answer → why its jobs are not enqueued."""


@dataclass(slots=True, kw_only=True)
class TickDelivery:
    """Hands ticks to functions, from the main thread.

    Attributes:
        functions: logical id → function.
        expect: gets jid and rule of each job before the worker can show it.
        run_name: distinguishes the ticks that we deliver by hand from those of other runs.
        clock: that of the rules.
        watch: gets each tick that was enqueued.
        ticks: how many were delivered.
    """

    functions: Mapping[str, LocalFunction]
    console: Console
    places: JobPlaces
    expect: Callable[[str, str], None]
    run_name: str
    clock: SimulatedClock
    watch: LedgerWatch
    ticks: int = 0
    _numbers: Iterator[int] = field(init=False, default_factory=lambda: itertools.count(1))

    def fire(self, firing: Firing) -> None:
        """Deliver a tick that is due."""
        rule = firing.schedule
        notes = [f"due {shown_instant(firing.instant, rule.timezone)}"]
        notes += [f"next {following(rule, firing.instant)}"]
        notes += [f"{firing.skipped} older ticks skipped"] if firing.skipped else []
        # Under the rule's own name the ledger would take the true tick of this instant for a repetition
        # of the simulated one, in a later run on the same data.
        own_name = f"{SIMULATED}{self.run_name}" if self.clock.is_simulated else ""
        due = self.clock.wall_at(firing.instant.timestamp())
        with self.console.together():
            self.console.line("tick", rule.name, "; ".join(notes))
            self._deliver(rule, firing.instant, own_name, due=due)

    def catch_up(self, rule: TemplateSchedule, due: datetime | None, now: datetime) -> None:
        """Deliver the last due tick, so that a job is seen at once.

        It goes under its own identity first. When an earlier run has delivered it already, or it is
        too old for the ledger, it goes once more under a name of its own.
        """
        with self.console.together():
            if due is None:
                reason = "catching up: no tick was due before, so this is one for now"
            else:
                text = (
                    f"catching up the last due tick of {rule.name}, so that you see a job at once: "
                    f"{shown_instant(due, rule.timezone)}"
                )
                self.console.line("tick", rule.name, text)
                answer = self._deliver(rule, due)
                if answer is None or not (answer["duplicates"] or answer["stale"]):
                    return
                reason = "catching up, once more under a name of its own, so that you see a job"
                due = now if answer["stale"] else due
            self.console.line("tick", rule.name, reason)
            self._deliver(rule, due or now, self._own_name())

    def fire_by_hand(self, rule: TemplateSchedule, now: datetime) -> None:
        """Deliver a tick that `--fire` asks for.

        Under a name of its own: the true tick of the same minute shall still come.
        """
        with self.console.together():
            self.console.line("tick", rule.name, f"--fire: {shown_instant(now, rule.timezone)}")
            self._deliver(rule, now, self._own_name())

    def _own_name(self) -> str:
        return f"#{self.run_name}-{next(self._numbers)}"

    def _deliver(
        self,
        rule: TemplateSchedule,
        instant: datetime,
        own_name: str = "",
        *,
        due: float | None = None,
    ) -> dict[str, Any] | None:
        self.ticks += 1
        event = event_of(rule, instant, execution_id=str(uuid.uuid4()), own_name=own_name)
        try:
            answer: dict[str, Any] = self.functions[rule.function.name].invoke(event)
        except FunctionError as error:
            # On AWS it would be delivered again, and enqueued once even then.
            text = f"{rule.function.name} failed: {error.kind}: {error}"
            self.console.line("error", rule.name, text)
            return None
        for job in answer["enqueued"]:
            self._show_enqueued(rule, job)
        if answer["enqueued"] and "tick" in event:
            self.watch.follow(
                DeliveredTick(
                    rule=rule.name,
                    schedule=event["tick"]["schedule"],
                    at=int(instant.timestamp()) // 60 * 60,  # as push_tick has it
                    jobs=len(answer["enqueued"]),
                    due=due,
                )
            )
        for outcome, why in _NOT_ENQUEUED.items():
            for job in answer.get(outcome, ()):
                text = f"{short(job['jid'])}  {why}" if "jid" in job else why
                self.console.line("enqueue", job["class"], text)
        return answer

    def _show_enqueued(self, rule: TemplateSchedule, job: Mapping[str, Any]) -> None:
        job_class, queue = job["class"], job["queue"]
        self.expect(job["jid"], rule.name)
        text = f"{short(job['jid'])}  into queue {queue}"
        note = self.places.note(job_class, queue)
        if queue not in self.places.served:
            text += f": {note} ({self.places.waiting(queue)})"
        elif note:
            text += f": {note}"
        origin = "" if rule.name == job_class else f"  rule {rule.name}"
        self.console.line("enqueue", job_class, text + origin)
