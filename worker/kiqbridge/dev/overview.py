"""The tables of `kiqbridge dev`: what fires next, what the ledger has, what became of the ticks of this run."""

import contextlib
import heapq
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kiqbridge.client.known_schedules import KnownSchedule, list_schedules
from kiqbridge.client.registry import Registry
from kiqbridge.config.settings_file import queues_in, read_file
from kiqbridge.dev import ledger_watch
from kiqbridge.dev.console import Console, shown_instant
from kiqbridge.dev.firing import SimulatedClock
from kiqbridge.errors import ConfigError, KiqbridgeError
from kiqbridge.schedule.template import TemplateSchedule
from kiqbridge.store.ledger import LedgerEntry, read_ledger
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

_LOOK_S: Final = 1.0  # a clock that was set, or a machine that slept, is noticed so soon
_FIND_EVERY_S: Final = 2.0
MOST_SCHEDULES: Final = 20
MOST_ENTRIES: Final = 15

_RULE_HEADINGS: Final = ("RULE", "JOB", "EXPRESSION", "NEXT FIRING")
_SCHEDULE_HEADINGS: Final = ("SCHEDULE", "JOB", "EXPRESSION", "NEXT FIRING")
_LEDGER_HEADINGS: Final = ("INSTANT", "SCHEDULE", "BY", "LATE", "ATTEMPTS", "JOBS")
_SUM_HEADINGS: Final = (
    *("RULE", "TICKS", "JOBS", "DONE", "FAILED", "NOT RUN", "OPEN", "WORST LATENESS"),
)
_FAILED: Final = ("dead", "discarded")
_NOT_RUN: Final = ("skipped", "expired", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlaces:
    """Where jobs are performed: here, or by somebody else's worker.

    Attributes:
        served: queues of the Python worker → as `-q` takes each.
    """

    served: Mapping[str, str]
    registry: Registry
    pool: RedisPool
    keys: Keys

    def are_here(self, rule: TemplateSchedule) -> bool:
        """Whether all jobs of a rule are Python classes that this worker knows."""
        return all(job.get("class", job.get("active_job")) in self.registry for job in rule.jobs)

    def note(self, job_class: str, queue: str) -> str:
        """What keeps a job from being performed here; empty if nothing does."""
        if queue not in self.served:
            if job_class in self.registry:
                return "waits: kiqbridge.yml does not name the queue"
            return "waits for a Ruby worker"
        # A wrapper that is named itself and misspelt names alike: the worker will say more.
        return "" if job_class in self.registry else "no Python job has this name"

    def waiting(self, queue: str) -> str:
        """How many jobs wait in a queue that is not served here."""
        try:
            return f"{self.pool.call('LLEN', self.keys.queue(queue))} there"
        except KiqbridgeError:
            return "number unknown"  # only an adornment of a line


def served_queues(rules: Sequence[TemplateSchedule], registry: Registry) -> Mapping[str, str]:
    """Those of kiqbridge.yml; without it those of all Python jobs, as declared and as the rules have them.

    The latter have equal weights, so that no queue has to wait until another is empty.
    """
    settings = Path("kiqbridge.yml")
    if settings.is_file():
        return queues_in(read_file(settings, os.environ), str(settings))
    declared = [str(definition.options.get("queue", "default")) for definition in registry]
    ruled = [
        str(job.get("queue", "default"))
        for rule in rules
        for job in rule.jobs
        if job.get("class", job.get("active_job")) in registry
    ]
    return {name: f"{name},1" for name in ["default", *declared, *ruled]}


@dataclass(slots=True, kw_only=True)
class Overview:
    """Shows tables; from the main thread."""

    console: Console
    places: JobPlaces
    rules: Sequence[TemplateSchedule]
    clock: SimulatedClock
    watch: ledger_watch.LedgerWatch
    _find_at: float = field(init=False, default=float("-inf"))
    _names: list[str] = field(init=False, default_factory=list)

    @property
    def look_again_s(self) -> float:
        """In how many seconds there may be something to show."""
        return ledger_watch.LOOK_EVERY_S if self.watch.is_waiting else _LOOK_S

    def look(self, now_s: float, now: datetime, *, is_asked: bool, is_ready: bool) -> None:
        """Show what has ended, and all tables if somebody has asked for them.

        Args:
            now_s: a clock that cannot be set.
            now: what the rules' clock shows.
            is_asked: whether somebody has asked.
            is_ready: whether the worker has started, and has saved the schedules that its jobs declare.
        """
        if is_ready and now_s >= self._find_at:
            # Follow the ticks of dynamic schedules; show the schedules if there are others than before.
            self._find_at = now_s + _FIND_EVERY_S
            names = [each.name for each in self._dynamic()[:MOST_SCHEDULES]]
            if names != self._names:
                self._names = names
                with self.console.together():
                    self.show_dynamic()
                    self.console.text("")
            self.watch.find(names, time.time())
        self.watch.look(now_s)
        if is_asked:
            self.show_all(now)

    def show_rules(self, now: datetime) -> None:
        """The rules of the template with their next firings, by their clock."""
        self.console.table([_RULE_HEADINGS, *(self._rule_row(rule, now) for rule in self.rules)])

    def show_dynamic(self) -> None:
        """The dynamic schedules of the server, if there are any, by the wall clock, which fires them."""
        found = self._dynamic()
        if not found:
            return
        wall = time.time()
        rows = [
            (
                each.name,
                "; ".join(map(self._described_job, each.definition.jobs)),
                f"{each.definition.expression} {each.definition.timezone}",
                _next_of(each, wall),
            )
            for each in found[:MOST_SCHEDULES]
        ]
        clock = (
            ", by the real clock and not by that of the rules" if self.clock.is_simulated else ""
        )
        self.console.text("")
        self.console.heading(f"dynamic schedules: the worker fires them{clock}")
        self.console.table([_SCHEDULE_HEADINGS, *rows])
        if len(found) > MOST_SCHEDULES:
            self.console.text(f"  … and {len(found) - MOST_SCHEDULES} more", dim=True)

    def show_all(self, now: datetime) -> None:
        """Next firings, dynamic schedules and the newest entries of the ledger."""
        with self.console.together():
            self.console.text("")
            if self.rules:
                self.show_rules(now)
            self.show_dynamic()
            self._show_ledger()
            self.console.text("")

    def show_sums(self) -> None:
        """What became of the ticks of this run, a row a rule."""
        if not self.watch.sums:
            return
        rows = []
        for rule, sums in self.watch.sums.items():
            failed, not_run = (
                sum(sums.ends[kind] for kind in kinds) for kinds in (_FAILED, _NOT_RUN)
            )
            late = "at once" if sums.late_s is None else f"{sums.late_s:.3f} s"
            counts = (sums.ticks, sums.jobs, sums.ends["done"], failed, not_run, sums.open)
            rows.append((rule, *map(str, counts), late))
        self.console.text("")
        self.console.table([_SUM_HEADINGS, *rows])

    def show_unserved(self) -> None:
        """A line for each declared job that no process would perform."""
        for each in self.places.registry:
            queue = str(each.options.get("queue", "default"))
            if queue not in self.places.served:
                text = f"  {each.name} would wait: kiqbridge.yml does not name its queue {queue}; add it to :queues:"
                self.console.text(text)

    def _rule_row(self, rule: TemplateSchedule, now: datetime) -> tuple[str, str, str, str]:
        jobs = "; ".join(map(self._described_job, rule.jobs))
        expression = f"{rule.expression_text} {rule.timezone}"
        return rule.name, jobs, expression, following(rule, now) if rule.enabled else "disabled"

    def _described_job(self, job: Mapping[str, Any]) -> str:
        job_class = str(job.get("class", job.get("active_job")))
        queue = str(job.get("queue", "default"))
        note = self.places.note(job_class, queue)
        return f"{job_class} → {queue}" + (f" ({note})" if note else "")

    def _dynamic(self) -> list[KnownSchedule]:
        """The schedules that do not come from a template; none if the server cannot be asked."""
        with contextlib.suppress(KiqbridgeError):
            found = list_schedules(self.places.pool, self.places.keys)
            return [each for each in found if each.definition.origin != "template"]
        return []

    def _show_ledger(self) -> None:
        wall = time.time()
        dynamic = {each.name for each in self._dynamic()[:MOST_SCHEDULES]}
        entries: list[tuple[float, str, LedgerEntry]] = []
        with contextlib.suppress(KiqbridgeError):
            for name, rule in {**{name: name for name in dynamic}, **self.watch.ledgers}.items():
                # What was placed ahead is no news before its instant.
                until = wall if name in dynamic else None
                found = read_ledger(
                    self.places.pool, self.places.keys, name, most=MOST_ENTRIES, until=until
                )
                for entry in found:
                    came = max(entry.enqueued_at, entry.at if name in dynamic else 0)
                    entries.append((came, rule, entry))
        newest = heapq.nlargest(MOST_ENTRIES, entries, key=lambda each: each[0])
        rows = [self._ledger_row(entry, rule) for _, rule, entry in newest]
        self.console.text("")
        self.console.heading(
            "the ledger, newest first" if rows else "the ledger has no entries yet"
        )
        if rows:
            self.console.table([_LEDGER_HEADINGS, *rows])

    def _ledger_row(self, entry: LedgerEntry, name: str) -> tuple[str, ...]:
        instant, late_s = datetime.fromtimestamp(entry.at, UTC), self.watch.late_s(entry)
        return (
            f"{instant:%a %Y-%m-%d %H:%M:%S}Z",
            name,
            ledger_watch.clock_of(entry.by),
            "at once" if late_s is None else ledger_watch.lateness_text(late_s),
            str(entry.attempts),
            ledger_watch.outcome_text([entry]),
        )


def following(rule: TemplateSchedule, instant: datetime) -> str:
    """When a rule fires next, in its zone and in UTC."""
    return _shown(rule.expression.next_after(instant), rule.timezone)


def _next_of(known: KnownSchedule, wall: float) -> str:
    schedule = known.definition
    if not schedule.enabled:
        return "disabled"
    if known.state.pause_at(wall) is not None:
        return "paused"
    try:
        return _shown(
            schedule.when.next_after(datetime.fromtimestamp(wall, UTC)), schedule.timezone
        )
    except ConfigError as error:
        return str(error)


def _shown(due: datetime | None, timezone: str) -> str:
    return shown_instant(due, timezone) if due else "never again"
