"""Rules about time: how long a server takes, and what its clock shows."""

import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from kiqbridge.doctor.finding import Finding, Rule, listed
from kiqbridge.doctor.system import System

PINGS: Final = 11
SLOW_PING_MS: Final = 20.0
VERY_SLOW_PING_MS: Final = 50.0
"""At which a worker's heartbeat warns, too."""

SLOW_COMMAND_MS: Final = 20.0
ENOUGH_CALLS: Final = 50
"""Of a command that ran less often the slowest hundredth says nothing."""

SKEW_S: Final = 1.0
LARGE_SKEW_S: Final = 30.0

_CALLS: Final = re.compile(r"calls=(\d+)")
_P99: Final = re.compile(r"p99=([0-9.]+)")
_NOT_OURS: Final = (
    "debug",
    "flush",
    "shutdown",
    "save",
    "bgsave",
    "config",
    "client|list",
    "slowlog",
)
"""Beginnings of what administrators do."""

_rule: Final = partial(Rule, area="redis")

LATENCY: Final = _rule(
    id="latency",
    reports=f"a round trip above {SLOW_PING_MS:.0f} ms (a problem from {VERY_SLOW_PING_MS:.0f} ms on): the median "
    f"of {PINGS} PINGs from this machine",
    why="each job needs some round trips, so workers perform few jobs a second",
    action="run workers in the region and zone of the server; look at the load of this machine and of the server",
)
SLOW_COMMANDS: Final = _rule(
    id="slow-commands",
    reports=f"commands whose slowest hundredth takes more than {SLOW_COMMAND_MS:.0f} ms at the server",
    why="a server does one thing at a time: all workers wait meanwhile",
    action="SLOWLOG GET 10 shows the calls; keep large data out of arguments, do not use KEYS, and give other "
    "applications a server of their own. CONFIG RESETSTAT begins anew",
)
CLOCK: Final = _rule(
    id="clock",
    reports=f"clocks of server and this machine that differ by more than {SKEW_S:.0f} s (a problem from "
    f"{LARGE_SKEW_S:.0f} s on)",
    why="scheduled jobs and retries run too early or too late, and ages of jobs are shown wrongly",
    action="let chrony or the time service of the cloud set both clocks",
)


def check_latency(system: System) -> Iterator[Finding]:
    """The median, so that one slow answer says nothing."""
    times = []
    for _ in range(PINGS):
        start = time.perf_counter()
        system.connection.call("PING")
        times.append((time.perf_counter() - start) * 1000)
    median = statistics.median(times)
    what = f"a round trip takes {median:.1f} ms"
    if median >= VERY_SLOW_PING_MS:
        yield LATENCY.problem(what)
    elif median >= SLOW_PING_MS:
        yield LATENCY.warning(what)
    else:
        yield LATENCY.ok(what)


def check_slow_commands(system: System) -> Iterator[Finding]:
    """By INFO latencystats, which every user with +info may read."""
    calls = system.info("commandstats")
    slow = {}
    for field, value in system.info("latencystats").items():
        name = field.removeprefix("latency_percentiles_usec_")
        count, p99 = _CALLS.search(calls.get(f"cmdstat_{name}", "")), _P99.search(value)
        if count is None or p99 is None or name.startswith(_NOT_OURS):
            continue
        milliseconds = float(p99[1]) / 1000
        if int(count[1]) >= ENOUGH_CALLS and milliseconds > SLOW_COMMAND_MS:
            slow[name] = milliseconds
    if slow:
        worst = sorted(slow, key=lambda name: -slow[name])
        shown = listed([f"{name.upper()} {slow[name]:,.0f} ms" for name in worst])
        yield SLOW_COMMANDS.warning(f"one call in a hundred takes as long as this: {shown}")
    else:
        yield SLOW_COMMANDS.ok(f"no command takes more than {SLOW_COMMAND_MS:.0f} ms often")


def check_clock(system: System) -> Iterator[Finding]:
    """The answer of TIME belongs to the middle of its round trip."""
    skews = []
    for _ in range(3):
        sent = time.time()
        seconds, microseconds = system.connection.call("TIME")
        took = time.time() - sent
        server = int(seconds) + int(microseconds) / 1_000_000
        skews.append((took, server - sent - took / 2))
    took, skew = min(skews)  # the fastest is the most exact
    if abs(skew) <= SKEW_S + took:
        yield CLOCK.ok(f"the clocks differ by {abs(skew) * 1000:,.0f} ms")
        return
    direction = "ahead of" if skew > 0 else "behind"
    what = f"the server's clock is {abs(skew):,.1f} s {direction} that of this machine"
    yield CLOCK.problem(what) if abs(skew) > LARGE_SKEW_S else CLOCK.warning(what)


CHECKS: Final[Sequence[tuple[Sequence[Rule], Callable[[System], Iterable[Finding]]]]] = (
    ((LATENCY,), check_latency),
    ((SLOW_COMMANDS,), check_slow_commands),
    ((CLOCK,), check_clock),
)
"""Rules, and the function that applies them."""
