"""The schedules in Redis, for programs and the command line: save, pause, resume, run, skip, delete.

Each change is one script that compares with what was read, and is tried again if another process was faster. What
was placed ahead and is to fire no more is withdrawn in the same script; what the poller has moved to a queue by
then runs.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Unpack

from kiqbridge.client import known_schedules
from kiqbridge.client.client import Client
from kiqbridge.client.default_client import default_client
from kiqbridge.errors import ConfigError, KiqbridgeError, PayloadError, near_names
from kiqbridge.features.dynamic import by_hand, store
from kiqbridge.features.dynamic.due import next_instants
from kiqbridge.features.dynamic.schedule import Schedule, check_expression
from kiqbridge.runtime.redaction import shorten
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import KEEP_SKIPPED_S, SchedulePause, ScheduleState
from kiqbridge.store.pauses import PauseOptions, pause_terms, server_time
from kiqbridge.wire import json_text
from kiqbridge.wire.amounts import instant_text

Change = Literal["created", "changed", "unchanged"]

TRIES: Final = 20
"""Another process may change the same schedule at the same time; so often in a row it does not."""

MOST_SKIPPED: Final = 1000

KEEP_CURSOR_S: Final = 86_400
"""A schedule that is declared beside its job again after so many seconds counts from now."""


class Schedules:
    """The schedules of a namespace; iterating gives all of them by name.

    Args:
        client: default: the one that declared jobs push through.
    """

    def __init__(self, client: Client | None = None) -> None:
        self._client = client or default_client()
        self._keys = self._client.keys
        self._pool = self._client.pool

    def __iter__(self) -> Iterator[known_schedules.KnownSchedule]:
        return iter(self.list())

    def __repr__(self) -> str:
        return f"Schedules({self._client})"

    def save(self, schedule: Schedule | ScheduleDefinition, *, dry_run: bool = False) -> Change:
        """Create a schedule or change it; a pause stays as it is.

        In effect within seconds. If only its job or policies change, occurrences that are due already and not
        placed yet follow the new definition; if its times change, it counts from now.

        Raises:
            ConfigError: it cannot be read, or the name is that of a schedule of another origin.
            PayloadError: the queue of one of its jobs belongs to another fleet.
            RedisUnavailable: save again, which does no harm.
        """
        definition = schedule.definition if isinstance(schedule, Schedule) else schedule
        check_expression(definition)
        if self._client.fleets is not None:
            for queue in definition.queues:
                self._client.fleets.check_own(queue)
        text = json_text.dumps(definition.to_document())
        for read in self._reads(definition.name):
            former = known_schedules.parsed(definition.name, read.definition)
            if former is not None and former.origin != definition.origin:
                raise ConfigError(_taken(former))
            if former is not None and former.to_document() == definition.to_document():
                return "unchanged"
            if dry_run:
                return "changed" if read.definition else "created"
            now = int(read.now)
            is_same_time = _counts_on(former, definition, read)
            if store.save(
                self._pool,
                self._keys,
                definition.name,
                known=read.definition,
                text=text,
                cursor=store.BACK if is_same_time else now,
                # With other times, what has come due by the old ones and is only put off stays.
                withdraw_after=None if is_same_time or not definition.enabled else now,
            ):
                return "changed" if read.definition else "created"
        raise busy(definition.name)

    def save_all(
        self, schedules: Sequence[Schedule | ScheduleDefinition], *, dry_run: bool = False
    ) -> Sequence[tuple[str, Change]]:
        """Save several, after a look at all of them: one that is refused keeps the others from being written.

        Returns:
            The name of each, and its outcome.

        Raises:
            ConfigError: as `save`; nothing was written.
            RedisUnavailable: some may be saved; save all again, which does no harm.
        """
        looked_at = [(each.name, self.save(each, dry_run=True)) for each in schedules]
        return looked_at if dry_run else [(each.name, self.save(each)) for each in schedules]

    def get(self, name: str) -> known_schedules.KnownSchedule | None:
        """The schedule of this name, if there is one that can be read.

        Raises:
            RedisUnavailable: nothing was read.
        """
        return known_schedules.known_of(name, self._read(name))

    def list(self) -> list[known_schedules.KnownSchedule]:
        """All schedules by name, those of templates as well; one that cannot be read is logged and left out.

        Raises:
            RedisUnavailable: nothing was read.
        """
        return known_schedules.list_schedules(self._pool, self._keys)

    def delete(self, name: str) -> bool:
        """Delete a schedule that is not of a template, with its state; whether there was one.

        Raises:
            ConfigError: it is one of a template.
            RedisUnavailable: delete again, which does no harm.
        """
        for read in self._reads(name):
            known = known_schedules.parsed(name, read.definition)
            if known is not None and known.origin == "template":
                raise ConfigError(
                    f"schedule {name!r} is a rule of a template: delete it there and deploy, or pause it"
                )
            if not read.definition and not read.state:
                return False
            if self._hold(name, read, b"", withdraw="all", verb="delete"):
                return bool(read.definition)
        raise busy(name)

    def pause(self, name: str, **options: Unpack[PauseOptions]) -> SchedulePause:
        """Stop a schedule from firing, also one of a template; jobs that are in a queue run.

        What comes due meanwhile is not caught up. Pausing again replaces reason and end. A name that is not
        known is paused for later.

        Args:
            name: of the schedule.
            reason: why; shown to operators.
            by: who.
            for_s: seconds after which the pause ends by itself; default: never.
            until: epoch seconds or an aware datetime at which it ends by itself.

        Raises:
            PayloadError: a wrong value; nothing was written.
            RedisUnavailable: pause again, which does no harm.
        """
        for read in self._reads(name):
            made = SchedulePause(**pause_terms(read.now, **options))
            state = ScheduleState(paused=made, skipped=_skipped(read))
            if self._hold(name, read, state.to_text(), cursor=store.BACK, withdraw="all"):
                return made
        raise busy(name)

    def resume(self, name: str) -> bool:
        """End the pause of a schedule; whether it was paused. It counts from now.

        Raises:
            RedisUnavailable: resume again, which does no harm.
        """
        for read in self._reads(name):
            known = ScheduleState.from_text(read.state)
            if known.paused is None:
                return False
            from_now = int(read.now)
            if known.paused.is_over(read.now):
                # It fires again already. What was not enqueued during the pause stays so.
                from_now = min(from_now, int(known.paused.until or 0))
            cursor = max(int(read.cursor), from_now) if read.cursor else ""
            state = ScheduleState(skipped=_skipped(read))
            if self._hold(name, read, state.to_text(), cursor=cursor):
                return not known.paused.is_over(read.now)
        raise busy(name)

    def skip_next(self, name: str, count: int = 1) -> Sequence[int]:
        """Skip the next occurrences; their instants, epoch seconds. Those skipped already do not count.

        Raises:
            PayloadError: there is no such schedule, or `count` is no number from 1 to 1,000.
            RedisUnavailable: look at its state before it is repeated: further ones would be skipped.
        """
        if type(count) is not int or not 0 < count <= MOST_SKIPPED:
            raise PayloadError(f"count: {shorten(count)} is no number from 1 to {MOST_SKIPPED:,}")
        for read in self._reads(name):
            known = self._required(name, read)
            found = next_instants(known.definition, known.state, after=read.now, count=count)
            if not found:
                return []
            skipped = tuple(sorted({*_skipped(read), *found}))
            state = ScheduleState(paused=known.state.paused, skipped=skipped)
            if self._hold(name, read, state.to_text(), withdraw=found):
                return found
        raise busy(name)

    def run(
        self, name: str, *, counted: bool = False, by: str = "cli"
    ) -> known_schedules.ScheduleRun:
        """Enqueue the jobs of a schedule now, whether or not it is paused.

        Args:
            name: of the schedule.
            counted: False: an extra run, with an entry of its own in the ledger. True: the run stands for an
                occurrence, which does not fire any more: the last one, if that was missed, else the next one.
            by: who asks, for the ledger.

        Raises:
            PayloadError: there is no such schedule, or it has no further occurrence that could count.
            RedisUnavailable: look into its ledger before it is repeated.
        """
        for read in self._reads(name):
            known = self._required(name, read)
            instant = self._instant(known, read, counted=counted)
            jobs = store.jobs_of_occurrence(
                self._client, known.definition, instant, due=int(read.now), by=by, now=read.now
            )
            placement = store.Placement(
                name=name,
                definition=known_schedules.digest_of(read.definition),
                state=store.ANY,
                cursor=store.ANY,
                new_cursor=None,
                occurrences=[jobs],
            )
            [placed] = store.place(self._pool, self._keys, read.now, [placement])
            if placed > 0:
                return known_schedules.ScheduleRun(
                    at=instant, jids=json_text.loads(jobs.entry)["jids"]
                )
            if placed == 0 and counted:
                at = instant_text(instant)
                raise PayloadError(
                    f"schedule {name!r}: its occurrence of {at} was enqueued already; run it without counting it"
                )
            if placed < store.CHANGED:
                raise KiqbridgeError(
                    f"schedule {name!r}: one of its keys holds another type; kiqbridge doctor names it"
                )
        raise busy(name)

    def require(self, name: str) -> known_schedules.KnownSchedule:
        """The schedule of this name.

        Raises:
            PayloadError: there is none; the message names near ones.
            RedisUnavailable: nothing was read.
        """
        return self._required(name, self._read(name))

    def now(self) -> float:
        """The time of Redis' clock, which decides what is due; epoch seconds.

        Raises:
            RedisUnavailable: nothing was read.
        """
        return server_time(self._pool.call("TIME"))

    def counted_instant(
        self, known: known_schedules.KnownSchedule, now: float | None = None
    ) -> int:
        """The occurrence that a counted run would stand for, epoch seconds; `now`: default the clock of Redis.

        Raises:
            PayloadError: there is none.
            RedisUnavailable: nothing was read.
        """
        return by_hand.counted_instant(
            self._pool, self._keys, known, self.now() if now is None else now
        )

    def near_names(self, name: str) -> Sequence[str]:
        """Names of schedules that resemble this one.

        Raises:
            RedisUnavailable: nothing was read.
        """
        return near_names(name, [each.name for each in self])

    def _read(self, name: str) -> known_schedules.StoredSchedule:
        return known_schedules.read_schedule(self._pool, self._keys, name)

    def _reads(self, name: str) -> Iterator[known_schedules.StoredSchedule]:
        """Read a schedule for a change, and again as often as another process was faster."""
        return (self._read(name) for _ in range(TRIES))

    def _required(
        self, name: str, read: known_schedules.StoredSchedule
    ) -> known_schedules.KnownSchedule:
        known = known_schedules.known_of(name, read)
        if known is None:
            near = self.near_names(name)
            hint = (
                f"did you mean {' or '.join(near)}?" if near else "kiqbridge schedule list has all"
            )
            raise PayloadError(f"schedule {name!r} is not known; {hint}")
        return known

    def _hold(
        self, name: str, read: known_schedules.StoredSchedule, state: bytes, **options: Any
    ) -> bool:
        """Write a state; False: another process was faster, read again."""
        return store.hold(self._pool, self._keys, name, known=read.state, state=state, **options)

    def _instant(
        self,
        known: known_schedules.KnownSchedule,
        read: known_schedules.StoredSchedule,
        *,
        counted: bool,
    ) -> int:
        """The instant under which a run by hand is noted."""
        if counted:
            instant = self.counted_instant(known, read.now)
            # If it was placed ahead already: back, to be placed for now.
            self._hold(known.name, read, read.state, cursor=store.BACK, withdraw=[instant])
            return instant
        return by_hand.free_instant(self._pool, self._keys, known, read.now)


def _skipped(read: known_schedules.StoredSchedule) -> tuple[int, ...]:
    known = ScheduleState.from_text(read.state).skipped
    return tuple(each for each in known if each > read.now - KEEP_SKIPPED_S)


def _counts_on(
    former: ScheduleDefinition | None,
    definition: ScheduleDefinition,
    read: known_schedules.StoredSchedule,
) -> bool:
    """Whether what has come due since the cursor belongs to the new definition as well."""
    if former is not None:
        return _timing(former) == _timing(definition)
    # Declared beside its job, and not declared for a while, such as during a deployment.
    is_known = definition.origin == "code" and read.cursor
    return bool(is_known) and read.now - int(read.cursor) < KEEP_CURSOR_S


def _timing(definition: ScheduleDefinition) -> tuple[object, ...]:
    return (
        *(definition.expression, definition.timezone, definition.start, definition.end),
        definition.enabled,
    )


def _taken(known: ScheduleDefinition) -> str:
    where = {
        "template": "a rule of a template: change it there and deploy",
        "code": "declared beside its job: change it there, or pause it",
        "dynamic": "saved by a call, the command line or a file: delete it first",
    }
    return f"schedule {known.name!r} is {where[known.origin]}; or take another name"


def busy(name: str) -> KiqbridgeError:
    """To be raised when others were faster each time."""
    return KiqbridgeError(
        f"schedule {name!r} was changed by another process {TRIES} times in a row; try again"
    )
