"""Rules about queues, sets and namespaces: who serves them, what is due, what lies elsewhere."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from kiqbridge.doctor.finding import Finding, Rule, counted, listed, printable
from kiqbridge.doctor.system import System
from kiqbridge.store.dead_set import KEPT_S, dropped_in
from kiqbridge.wire.dead_bounds import FIELD, WARNING_SHARE, fleet_bounds
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import MILLISECONDS_FROM

FAR_S: Final = 366 * 86_400
SCANNED: Final = 10_000
SCAN_COUNT: Final = 1_000
_MARK: Final = b"queue:"

NAMESPACE: Final = Rule(
    id="namespace",
    area="wire",
    reports="queues with jobs under another namespace than the configured one, where no process lives",
    why="a client and its workers disagree about the namespace: nobody performs these jobs",
    action="set KIQBRIDGE_NAMESPACE to the same for clients and workers, and move the jobs by RENAME",
)
FAR_FUTURE: Final = Rule(
    id="far-future",
    area="wire",
    reports="jobs in schedule or retry that are due in more than a year",
    why="a time in milliseconds, where seconds are expected, is due in 50,000 years",
    action="correct the time where they are enqueued, and reschedule or delete them",
)
DEAD_FULL: Final = Rule(
    id="dead-full",
    area="wire",
    reports=f"a dead set with at least {WARNING_SHARE:.0%} of the jobs that the living workers keep (dead_max_jobs), "
    "and dead jobs that were dropped within a day since it was full",
    why="each further job that dies removes the oldest one; with dead_overflow: keep the set grows until Redis is full",
    action="remove the cause, then retry or delete the jobs: kiqbridge dead; to keep more, raise dead_max_jobs, set "
    "dead_overflow: keep, or name a dead_archive",
)


def check_namespaces(system: System) -> Iterator[Finding]:
    """By a look at some keys: those of queues show their namespace."""
    own = system.keys.prefix.removesuffix(":")
    names: set[bytes] = set()
    looked_at, cursor = 0, 0
    while looked_at < SCANNED:
        reply = system.connection.call("SCAN", cursor, "COUNT", SCAN_COUNT, "MATCH", "*queue:*")
        cursor, looked_at = int(reply[0]), looked_at + SCAN_COUNT
        names.update(reply[1])
        if cursor == 0:
            break
    scope = "all keys were looked at" if cursor == 0 else f"about {looked_at:,} keys were looked at"
    elsewhere = Counter(
        space for name in names if (space := namespace_of(name)) is not None and space != own
    )
    # A queue of ours may itself be called `a:queue:b`, so what lies under our prefix is never elsewhere.
    foreign = [
        space
        for space in elsewhere
        if not (own and space.startswith(f"{own}:")) and not _lives(system, space)
    ]
    if foreign:
        shown = [
            f"{printable(space) or 'no namespace'} ({counted(elsewhere[space], 'queue')})"
            for space in foreign
        ]
        here = f"the namespace {own}" if own else "no namespace"
        yield NAMESPACE.warning(
            f"queues under {listed(shown)}, where no process lives; {here} is configured; {scope}"
        )
    else:
        yield NAMESPACE.ok(f"no queues under another namespace; {scope}")


def namespace_of(name: bytes) -> str | None:
    """The namespace of a queue's key; None if it is no queue's."""
    before, mark, queue = name.partition(_MARK)
    if not mark or not queue or before.endswith((b"kb:suspects:", b"kb:")):
        return None
    if before and not before.endswith(b":"):
        return None
    return before.removesuffix(b":").decode("utf-8", "surrogateescape")


def _lives(system: System, space: str) -> bool:
    """Whether processes are registered there; where that may not be read, they are taken for living."""
    replies = system.try_run(("EXISTS", Keys(space).processes))
    return replies is None or bool(replies[0])


def check_times(system: System) -> Iterator[Finding]:
    """What is due in an age."""
    now = system.server_now
    far = []
    for name, key in system.sets("schedule", "retry").items():
        distant, last = system.connection.run(
            ("ZCOUNT", key, f"({now + FAR_S}", "+inf"),
            ("ZRANGE", key, -1, -1, "WITHSCORES"),
        )
        if distant:
            far.append(f"{distant:,} in {name}, the last {_due(float(last[1]), now)}")
    yield (
        FAR_FUTURE.warning(", ".join(far)) if far else FAR_FUTURE.ok("nothing is due after a year")
    )


def check_dead(system: System) -> Iterator[Finding]:
    """How many dead jobs there are, and how many were dropped."""
    place = system.sets("dead")
    count = system.connection.call("ZCARD", place["dead"]) if place else 0
    key = system.keys.dead_trimmed
    notes = (
        system.connection.call("ZRANGE", key, repr(system.server_now - KEPT_S), "+inf", "BYSCORE")
        if system.kinds([key])[key] == "zset"
        else []
    )
    bounds = fleet_bounds(each.fields.get(FIELD) for each in system.fleet.processes)
    more = ", and more, since dead_overflow is keep" if bounds.is_kept else ""
    what = f"{counted(count, 'job')} {'is' if count == 1 else 'are'} dead, and {bounds.most:,} are kept{more}"
    if dropped := dropped_in(notes):
        yield DEAD_FULL.problem(
            f"{counted(dropped, 'dead job')} {'was' if dropped == 1 else 'were'} dropped within a day; {what}"
        )
    elif bounds.is_near(count):
        yield DEAD_FULL.warning(what)
    else:
        yield DEAD_FULL.ok(what)


def _due(score: float, now: float) -> str:
    if score >= MILLISECONDS_FROM:
        return f"at {score:.0f}, which looks like milliseconds"
    return f"in {_span(score - now)}"


def _span(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "ever"
    for size, unit in ((31_557_600, "years"), (86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"


CHECKS: Final[Sequence[tuple[Sequence[Rule], Callable[[System], Iterable[Finding]]]]] = (
    ((NAMESPACE,), check_namespaces),
    ((FAR_FUTURE,), check_times),
    ((DEAD_FULL,), check_dead),
)
"""Rules, and the function that applies them."""
