"""Schedules as an operator sees them: when each fires next, and what became of its last occurrences.

Those of templates, of code, dynamic ones, and those of other programs that a feature reads, such as the Ruby gem
sidekiq-cron, which only says when it fired last. 200 schedules are four round trips.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from kiqbridge import seams
from kiqbridge.api.audit import record_audit
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.client.known_schedules import ScheduleRun, StoredSchedule, known_of
from kiqbridge.errors import ConfigError
from kiqbridge.schedule.cron import ScheduleExpression
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import SchedulePause, ScheduleState
from kiqbridge.schedule.words import words_of
from kiqbridge.store.ledger import LedgerEntry, read_ledgers
from kiqbridge.store.pauses import server_time
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.amounts import instant_text
from kiqbridge.wire.names import text_of

LATE_S: Final = 60.0
"""Seconds after its instant from which an occurrence counts as late: EventBridge's precision is a minute."""
MOST_MISSED: Final = 2000
_MOST_SKIPPED: Final = 1000

State = Literal["enabled", "disabled", "paused", "unreadable"]
Kind = Literal["on time", "late", "duplicate", "missed", "caught up", "paused", "skipped"]
"""What became of an occurrence. `duplicate`: delivered more than once, and enqueued once. `caught up`: it did not
come in time and came later. `paused`, `skipped`: delivered, and not enqueued because of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """An instant at which a schedule was due.

    Attributes:
        at: the instant, epoch seconds.
        kind: what became of it.
        late_s: seconds from its instant to its enqueuing; below 0: placed ahead; None: it never came.
        deliveries: how often it was delivered; enqueued was only the first one.
        by: which clock enqueued it, such as `lambda:REQUEST`, or who ran it by hand.
        jids: of its jobs.
        outcome: how its jobs ended: `done`, or the worst of `dead`, `discarded`, `expired`, …; `open` as long as
            one has no end; "" without jobs.
    """

    at: int
    kind: Kind
    late_s: float | None = None
    deliveries: int = 0
    by: str = ""
    jids: Sequence[str] = ()
    outcome: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """A schedule.

    Attributes:
        name: unique.
        expression: as it was written, several joined by `; `.
        timezone: IANA name.
        origin: `template`, `dynamic`, `code` or `sidekiq-cron`.
        state: whether it fires.
        note: why it does not, or what is skipped.
        classes, queues: of its jobs.
        description: for people.
        pause: the pause in force, with its reason.
        skipped: instants to come that are skipped, epoch seconds.
        next: the next instants at which it fires, epoch seconds; empty if never.
        occurrences: the last ones, newest first; of sidekiq-cron only the last one.
        definition: all of it; None: it cannot be read, or another program's.
    """

    name: str
    expression: str
    timezone: str
    origin: str
    state: State
    note: str = ""
    classes: Sequence[str] = ()
    queues: Sequence[str] = ()
    description: str = ""
    pause: SchedulePause | None = None
    skipped: Sequence[int] = ()
    next: Sequence[float] = ()
    occurrences: Sequence[Occurrence] = ()
    definition: ScheduleDefinition | None = None

    @property
    def next_at(self) -> float | None:
        """The next instant; None: never."""
        return self.next[0] if self.next else None

    @property
    def is_foreign(self) -> bool:
        """Whether another program fires it."""
        return self.definition is None and self.origin != ""

    @property
    def words(self) -> str:
        """Its expression in words; empty if that takes many, or it cannot be read."""
        with contextlib.suppress(ConfigError):
            return words_of(self.definition.when) if self.definition else ""
        return ""

    def firings(self, now: float, most: int) -> Sequence[float]:
        """The next instants from `now` (epoch seconds) on; those that were read, if it does not fire or is another program's."""
        if self.definition is None or self.state != "enabled" or not self.next:
            return self.next
        state = ScheduleState(skipped=tuple(self.skipped))
        return next_firings(self.definition.when, state, now, most)

    @property
    def last(self) -> Occurrence | None:
        """The newest occurrence."""
        return self.occurrences[0] if self.occurrences else None


class ScheduleSet:
    """All schedules; iterating gives them by their next instant, those that do not fire last.

    Args:
        operator: default `default_operator()`.
    """

    def __init__(self, operator: Operator | None = None) -> None:
        self.operator = operator or default_operator()

    def __iter__(self) -> Iterator[ScheduleView]:
        return iter(self.fetch())

    def fetch(self, *, last: int = 20, upcoming: int = 1) -> list[ScheduleView]:
        """All of them.

        Args:
            last: so many occurrences of each.
            upcoming: so many next instants of each.

        Raises:
            RedisUnavailable, RedisRefused: nothing was read.
        """
        rows = self._read("", last, upcoming)
        return sorted(rows, key=lambda row: (row.next_at is None, row.next_at or 0.0, row.name))

    def find(self, name: str, *, last: int = 100, upcoming: int = 10) -> ScheduleView | None:
        """The schedule of this name, None if there is none; arguments and errors as `fetch`."""
        return next(iter(self._read(name, last, upcoming)), None)

    def _read(self, only: str, last: int, upcoming: int) -> list[ScheduleView]:
        pool, keys = self.operator.pool, self.operator.keys
        definitions, states, missed, clock = pool.run(
            *(
                ("HMGET", key, only) if only else ("HGETALL", key)
                for key in (keys.schedules, keys.schedule_states)
            ),
            ("ZRANGE", keys.missed, "+inf", "-inf", "BYSCORE", "REV", "LIMIT", 0, MOST_MISSED),
            ("TIME",),
        )
        now = server_time(clock)
        if only:
            raw = only.encode("utf-8", "surrogateescape")
            texts, held = ({raw: reply[0]} if reply[0] else {} for reply in (definitions, states))
        else:
            texts, held = pairs_of(definitions), pairs_of(states)
        instants: dict[str, list[int]] = {}
        for member in missed:
            at, _, whose = member.partition(b" ")
            if at.isdigit():
                instants.setdefault(text_of(whose), []).append(int(at))
        names = {text_of(raw): raw for raw in texts}
        ledgers = read_ledgers(pool, keys, list(names), most=last, until=now)
        rows = []
        for name, raw in names.items():
            state = held.get(raw, b"")
            known = known_of(name, StoredSchedule(texts[raw], state, b"", 0.0))
            occurrences = occurrences_of(ledgers[name], instants.get(name, []), last)
            rows.append(
                schedule_view(
                    known.definition, ScheduleState.from_text(state), now, occurrences, upcoming
                )
                if known and known.definition
                else ScheduleView(
                    name=name,
                    expression="",
                    timezone="",
                    origin="",
                    state="unreadable",
                    note="cannot be read, so it never fires: save it again, or delete it",
                    occurrences=occurrences,
                )
            )
        others = [] if only and rows else others_schedules(self.operator, now, upcoming)
        return rows + [each for each in others if only in ("", each.name)]

    def run(self, name: str, *, counted: bool = False) -> ScheduleRun:
        """Enqueue its jobs now; see `kiqbridge.Schedules.run`.

        Raises:
            PayloadError: there is no such schedule, or no occurrence that could count.
            RedisUnavailable: look at its occurrences before it is repeated.
        """
        made: ScheduleRun = self._schedules.run(
            name, counted=counted, by=f"{self.operator.via}:{self.operator.by}"
        )
        self._audit(
            "run", name, "in the place of an occurrence" if counted else "extra", len(made.jids)
        )
        return made

    def pause(
        self,
        name: str,
        *,
        reason: str = "",
        for_s: float | None = None,
        until: float | datetime | None = None,
    ) -> SchedulePause:
        """Stop it from firing; see `kiqbridge.Schedules.pause`.

        Raises:
            PayloadError: a wrong value.
            RedisUnavailable: pause again, which does no harm.
        """
        made: SchedulePause = self._schedules.pause(
            name, reason=reason, by=self.operator.by, for_s=for_s, until=until
        )
        self._audit("pause", name, reason)
        return made

    def resume(self, name: str) -> bool:
        """End its pause; whether it was paused.

        Raises:
            RedisUnavailable: resume again, which does no harm.
        """
        was_paused: bool = self._schedules.resume(name)
        if was_paused:
            self._audit("resume", name)
        return was_paused

    def skip(self, name: str, count: int = 1) -> Sequence[int]:
        """Skip its next occurrences; their instants, epoch seconds.

        Raises:
            PayloadError: there is no such schedule, or `count` is out of range.
            RedisUnavailable: look at its state before it is repeated.
        """
        skipped: Sequence[int] = self._schedules.skip_next(name, count)
        self._audit("skip", name, ", ".join(map(instant_text, skipped)), len(skipped))
        return skipped

    @property
    def _schedules(self) -> Any:
        return seams.call("schedules")(self.operator.client)

    def _audit(self, action: str, name: str, detail: str = "", count: int = 1) -> None:
        record_audit(self.operator, action, f"schedule:{name}", detail, count)


def schedule_view(
    definition: ScheduleDefinition,
    state: ScheduleState,
    now: float,
    occurrences: Sequence[Occurrence] = (),
    upcoming: int = 1,
) -> ScheduleView:
    """A schedule as it is at `now` (epoch seconds), with so many next instants."""
    common: dict[str, Any] = {
        "name": definition.name,
        "expression": "; ".join((definition.expression, *definition.also)),
        "origin": definition.origin,
        "classes": definition.classes,
        "queues": definition.queues,
        "description": definition.description,
        "occurrences": occurrences,
        "definition": definition,
    }
    try:
        when = definition.when
    except ConfigError as error:
        return ScheduleView(
            **common, timezone=definition.timezone, state="unreadable", note=str(error)
        )
    pause = state.pause_at(now)
    skipped = [at for at in state.skipped if at > now]
    common |= {"timezone": when.timezone, "pause": pause, "skipped": skipped}
    if not definition.enabled:
        return ScheduleView(**common, state="disabled", note="disabled where it is defined")
    instants = next_firings(when, state, now, upcoming)
    note = "" if instants or pause else "never again"
    return ScheduleView(**common, state="paused" if pause else "enabled", note=note, next=instants)


def others_schedules(operator: Operator, now: float, upcoming: int = 1) -> list[ScheduleView]:
    """The schedules of other programs in this Redis, as they are at `now` (epoch seconds).

    Raises:
        RedisUnavailable: nothing was read.
    """
    return list(seams.brought("schedules", operator, now, upcoming))


def next_firings(
    when: ScheduleExpression, state: ScheduleState, now: float, count: int
) -> list[float]:
    """The next instants, epoch seconds, that are neither paused nor skipped."""
    pause = state.pause_at(now)
    moment = datetime.fromtimestamp(now, UTC)
    if pause is not None:
        if pause.until is None:
            return []
        # An occurrence at the very end of a pause is due.
        moment = datetime.fromtimestamp(pause.until - 0.001, UTC)
    found: list[float] = []
    for _ in range(count + min(len(state.skipped), _MOST_SKIPPED)):
        following = when.next_after(moment)
        if following is None or len(found) >= count:
            break
        if int(following.timestamp()) not in state.skipped:
            found.append(following.timestamp())
        moment = following
    return found


def occurrences_of(
    entries: Sequence[LedgerEntry], missed: Sequence[int], last: int
) -> list[Occurrence]:
    """Those of the ledger, and those that never came, newest first."""
    by_instant = {each.at: each for each in entries}
    instants = sorted({*by_instant, *missed}, reverse=True)[:last]
    return [
        _occurrence(by_instant[at], was_missed=at in missed)
        if at in by_instant
        else Occurrence(at=at, kind="missed")
        for at in instants
    ]


def _occurrence(entry: LedgerEntry, *, was_missed: bool) -> Occurrence:
    return Occurrence(
        at=entry.at,
        kind=_kind(entry, was_missed=was_missed),
        late_s=entry.lateness_s,
        deliveries=entry.attempts,
        by=entry.by,
        jids=entry.jids,
        outcome=entry.outcome,
    )


def _kind(entry: LedgerEntry, *, was_missed: bool) -> Kind:
    if entry.left_out:
        return "paused" if entry.left_out == "paused" else "skipped"
    if was_missed:
        return "caught up"
    if entry.lateness_s > LATE_S:
        return "late"
    return "duplicate" if entry.attempts > 1 else "on time"
