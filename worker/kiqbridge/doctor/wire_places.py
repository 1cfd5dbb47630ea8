"""Rules about queues, sets and namespaces: who serves them, what is due, what lies elsewhere."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from kiqbridge.clocks.declared import undeclared
from kiqbridge.doctor.finding import Finding, Rule, counted, listed, printable
from kiqbridge.doctor.system import System
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import MILLISECONDS_FROM

FAR_S: Final = 366 * 86_400
SCANNED: Final = 10_000
SCAN_COUNT: Final = 1_000
_MARK: Final = b"queue:"

_rule: Final = partial(Rule, area="wire")

NAMESPACE: Final = _rule(
    id="namespace",
    reports="queues with jobs under another namespace than the configured one, where no process lives",
    why="a client and its workers disagree about the namespace: nobody performs these jobs",
    action="set KIQBRIDGE_NAMESPACE to the same for clients and workers, and move the jobs by RENAME",
)
FAR_FUTURE: Final = _rule(
    id="far-future",
    reports="jobs in schedule or retry that are due in more than a year",
    why="a time in milliseconds, where seconds are expected, is due in 50,000 years",
    action="correct the time where they are enqueued, and reschedule or delete them",
)


UNDECLARED: Final = _rule(
    id="undeclared-schedule",
    reports="schedules that were declared beside a job, and that no living worker declares any more",
    why="they go on firing: only a worker of the application that declared them removes them",
    action="if they were taken out of the code for good: kiqbridge schedule delete NAME",
)


def check_declared(system: System) -> Iterator[Finding]:
    """Schedules whose code is gone."""
    names = undeclared(system.connection, system.keys)
    yield UNDECLARED.summed(names, "each declared schedule is declared by a living worker")


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
    yield FAR_FUTURE.summed(far, "nothing is due after a year")


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
    ((UNDECLARED,), check_declared),
)
"""Rules, and the function that applies them."""
