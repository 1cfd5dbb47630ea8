"""What happens while the clock of a fake is moved: scheduled jobs, retries and schedules become due.

In order of time, each at its own: the clock shows it while the job goes to its queue, as when a worker's poller
moves it. A job goes through client middleware then, as there. A schedule fires through `Client.push_tick`, so its
jobs carry their `tick`, a pause or a skipped occurrence counts, and nothing fires twice.
"""

import heapq
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from kiqbridge.client.client import Client
from kiqbridge.client.default_client import default_client
from kiqbridge.client.known_schedules import list_schedules
from kiqbridge.client.prepare import prepare_moved
from kiqbridge.client.registry import Registry
from kiqbridge.engine.settle.ending import stopped_ending
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.testing.memory import Memory
from kiqbridge.testing.performing import EndlessJobs, add_effects
from kiqbridge.testing.virtual_clock import VirtualClock
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys

MOST_TICKS: Final = 10_000
"""Occurrences in one move: who means fewer has not set the clock before."""

ClientOf = Callable[[Keys], Client]
Enqueue = Callable[[Keys, str, bytes], object]
"""(keys, queue, text) → to the queue."""


class Due(NamedTuple):
    """A member of `schedule` or `retry` and its time."""

    score: float
    text: bytes
    key: str
    keys: Keys


class Tick(NamedTuple):
    """One occurrence of a schedule; `number` puts those of one instant into order."""

    instant: int
    number: int
    definition: ScheduleDefinition
    keys: Keys


def enqueue_due(
    memory: Memory, clock: VirtualClock, *, client_of: ClientOf, enqueue: Enqueue
) -> None:
    """Move what is due now to its queues."""
    now = clock.now()
    while (due := _earliest(memory, now)) is not None:
        _move(memory, due, client_of(due.keys), now, enqueue)


def pass_time(
    memory: Memory,
    clock: VirtualClock,
    before: float,
    *,
    client_of: ClientOf,
    enqueue: Enqueue,
    registry: Registry | None,
) -> None:
    """Let happen what is due after `before` up to what the clock shows.

    Args:
        memory: where jobs wait.
        clock: already moved; while this runs it shows the time of each step.
        before: epoch seconds.
        client_of: what a worker of a namespace pushes with.
        enqueue: called with each job that is moved.
        registry: whose declared schedules fire, and the saved ones; None: none.

    Raises:
        EndlessJobs: more than 10,000 occurrences.
        BaseException: what `enqueue` raised; the clock stands at that moment then.
    """
    until = clock.now()
    ticks = _ticks(memory, client_of, registry, before, until) if registry is not None else iter(())
    tick = next(ticks, None)
    while True:
        due = _earliest(memory, until)
        if tick is not None and (due is None or tick.instant < due.score):
            clock.set(max(tick.instant, before))
            _fire(tick, client_of(tick.keys))
            tick = next(ticks, None)
        elif due is not None:
            now = max(due.score, before)
            clock.set(now)
            _move(memory, due, client_of(due.keys), now, enqueue)
        else:
            break
    clock.set(until)


def _earliest(memory: Memory, until: float) -> Due | None:
    found = [
        Due(*members[0], key, keys)
        for keys in memory.namespaces()
        for key in (keys.schedule, keys.retry)
        if (members := memory.sorted_set(key)) and members[0][0] <= until
    ]
    return min(found, key=lambda due: (due.score, due.text)) if found else None


def _move(memory: Memory, due: Due, client: Client, now: float, enqueue: Enqueue) -> None:
    with memory.lock:
        if not memory.run_one("ZREM", due.key, due.text):
            return  # another thread was faster
    moved = prepare_moved(
        json_text.loads(due.text), now, client.middleware, client.wire_profile, due.text
    )
    if moved is not None:
        enqueue(due.keys, *moved)
    else:
        with memory.lock:
            add_effects(memory, stopped_ending(due.keys, due.text, now))


def _fire(tick: Tick, client: Client) -> None:
    definition = tick.definition
    put_off_s = definition.put_off_s(tick.instant)
    later = {"at": tick.instant + put_off_s} if put_off_s else {}
    client.push_tick(
        definition.name,
        tick.instant,
        [{**item, **later} for item in definition.jobs],
        by="kiqbridge.testing",
        overlap=definition.overlap,
        max_age_s=definition.max_age_s,
    )


def _ticks(
    memory: Memory, client_of: ClientOf, registry: Registry, before: float, until: float
) -> Iterator[Tick]:
    """The occurrences in order of time."""
    schedules: dict[tuple[str, str], tuple[ScheduleDefinition, Keys]] = {}
    for definition in registry:
        if definition.schedule is not None:
            keys = default_client().keys
            schedules[keys.prefix, definition.schedule.name] = definition.schedule, keys
    for keys in memory.namespaces():
        for known in list_schedules(client_of(keys).pool, keys):
            schedules[keys.prefix, known.name] = known.definition, keys
    due = heapq.merge(
        *(
            _of_one(definition, keys, number, before, until)
            for number, (definition, keys) in enumerate(schedules.values())
            if definition.enabled and definition.origin != "template"
        )
    )
    for count, tick in enumerate(due):
        if count >= MOST_TICKS:
            raise EndlessJobs(
                f"schedule {tick.definition.name} and others fire more than {MOST_TICKS:,} times in "
                f"{until - before:,.0f} s: begin with clock.freeze(at=…), which fires nothing, and move by "
                "less, or without schedules=True"
            )
        yield tick


def _of_one(
    definition: ScheduleDefinition, keys: Keys, number: int, before: float, until: float
) -> Iterator[Tick]:
    start, end = (datetime.fromtimestamp(each, UTC) for each in (before, until))
    for due in definition.when.between(start, end):
        yield Tick(int(due.timestamp()), number, definition, keys)
