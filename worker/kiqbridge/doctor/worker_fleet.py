"""Rules about the processes that live: heartbeats, versions, clocks, who serves what."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from kiqbridge.api import Process
from kiqbridge.doctor.finding import Finding, Rule, counted, printable
from kiqbridge.doctor.system import System

FUTURE_S: Final = 5
SLOW_RTT_US: Final = 50_000
CONNECTIONS_BESIDE_JOBS: Final = 10
"""Of a worker process, besides one for each thread."""
NEW_TIMES: Final = 8
"""The first version of Sidekiq that reads integer milliseconds."""

_rule: Final = partial(Rule, area="worker")

PROCESS_CLOCK: Final = _rule(
    id="process-clock",
    reports=f"processes whose heartbeat is more than {FUTURE_S} s in the future",
    why="their clock is wrong: retries and scheduled jobs get wrong times there",
    action="let chrony or the time service of the cloud set the clock of their machines",
)
QUIET: Final = _rule(
    id="quiet",
    reports="processes that are quiet and have nothing to do",
    why="they take no jobs any more, and nobody has stopped them",
    action="stop them (kiqbridge stop IDENTITY), or start them again; quiet cannot be undone",
)
VERSIONS: Final = _rule(
    id="versions",
    reports="several versions of Kiqbridge, or major versions of Ruby Sidekiq, in one fleet",
    why="a deployment has stopped half way, or workers were forgotten: a job runs with old code by chance",
    action="deploy the version that is meant to all of them",
)
RUBY_VERSION: Final = _rule(
    id="ruby-version",
    reports="Ruby Sidekiq before 6.1.3, which shows neither a version nor its memory",
    why="versions before 6 were never tested beside Kiqbridge, and may not read what it writes",
    action="upgrade them to Sidekiq 6.1.3 or newer (docs/protocol.md, section 19)",
)
WIRE_PROFILE: Final = _rule(
    id="wire-profile",
    reports="KIQBRIDGE_WIRE_PROFILE=8 beside Ruby Sidekiq before 8",
    why="it takes milliseconds for seconds: latencies and retries of such jobs are wrong by 50,000 years",
    action="set KIQBRIDGE_WIRE_PROFILE to 7, which all versions read, or to auto",
)
RTT: Final = _rule(
    id="rtt",
    reports=f"processes with a round trip to Redis above {SLOW_RTT_US // 1000} ms",
    why="each job needs some round trips, so they perform few jobs a second",
    action="run them in the region and zone of the server; look whether they lack CPU",
)
CAPSULES: Final = _rule(
    id="capsules",
    reports="processes of which several capsules serve the same queue",
    why="a capsule limits how many jobs of its queues run at once, and another one that takes them voids that",
    action="name each queue in one capsule only",
)
SINGLE_SERVER: Final = _rule(
    id="single-server",
    reports="queues that one process serves, while processes of several hosts live",
    why="when that process or its host ends, the queue stands still",
    action="let a process of another host serve it, too; ignore the rule if one is meant, as for jobs in order",
)
CONNECTIONS: Final = _rule(
    id="connections",
    reports="a fleet whose processes, all at work, open more connections than maxclients",
    why="the last ones to start cannot connect",
    action="raise maxclients, or lower the concurrency or the number of processes",
)


def check_process_clocks(system: System) -> Iterator[Finding]:
    """A heartbeat carries the time of its machine."""
    now = system.server_now
    ahead = [
        f"{_named(each)} by {each.beat_at - now:,.0f} s"
        for each in system.fleet.processes
        if each.beat_at - now > FUTURE_S
    ]
    yield PROCESS_CLOCK.summed(
        ahead, "no heartbeat is in the future", "clocks ahead of the server: "
    )


def check_quiet(system: System) -> Iterator[Finding]:
    """One that still runs jobs is on its way out."""
    idle = [_named(each) for each in system.fleet.processes if each.is_quiet and not each.busy]
    yield QUIET.summed(idle, "no process is quiet and idle", "quiet and idle: ")


def check_versions(system: System) -> Iterator[Finding]:
    """Ours exactly; Ruby's by its first number."""
    ours = sorted({each.version for each in system.fleet.ours})
    ruby = sorted({_major(each) for each in system.fleet.ruby if each.version})
    mixed = [
        *(ours if len(ours) > 1 else ()),
        *(f"Sidekiq {each}" for each in ruby if len(ruby) > 1),
    ]
    if mixed:
        yield VERSIONS.warning(f"several versions at work: {', '.join(map(printable, mixed))}")
    else:
        names = [*ours, *(f"Sidekiq {each}" for each in ruby)]
        yield VERSIONS.ok(", ".join(map(printable, names)) or "no process lives")


def check_ruby(system: System) -> Iterator[Finding]:
    """Old ones, and those that cannot read what we are set to write."""
    ruby = system.fleet.ruby
    old = [_named(each) for each in ruby if not each.version and "rss" not in each.fields]
    well = f"{counted(len(ruby), 'Ruby process')}, none before 6.1.3"
    yield RUBY_VERSION.summed(old, well, "Sidekiq before 6.1.3: ")
    writes_milliseconds = system.environ.get("KIQBRIDGE_WIRE_PROFILE") == "8"
    yield WIRE_PROFILE.summed(
        [_named(each) for each in ruby if writes_milliseconds and not _reads_milliseconds(each)],
        "each Ruby process reads what is written here",
        "profile 8 is set, and these are older: ",
        is_problem=True,
    )


def check_round_trips(system: System) -> Iterator[Finding]:
    """As the last heartbeat measured it."""
    slow = [
        f"{_named(each)} {each.rtt_us / 1000:,.0f} ms"
        for each in system.fleet.processes
        if each.rtt_us > SLOW_RTT_US
    ]
    yield RTT.summed(slow, "no process has slow round trips", "slow round trips: ")


def check_servers(system: System) -> Iterator[Finding]:
    """Who serves which queue: several capsules, or one process only."""
    fleet = system.fleet
    shared = [
        f"{printable(name)} in {_named(each)}"
        for each in fleet.processes
        for name in shared_queues(each)
    ]
    well = "each queue is in one capsule of a process"
    yield CAPSULES.summed(shared, well, "in several capsules: ")
    hosts = {each.hostname for each in fleet.processes}
    alone = [
        f"{printable(name)} ({_named(who[0])})"
        for name, who in fleet.queues.items()
        if len(hosts) > 1 and len(who) == 1
    ]
    well = f"{counted(len(fleet.queues), 'queue')} served on {counted(len(hosts), 'host')}"
    yield SINGLE_SERVER.summed(alone, well, "served by one process only: ")


def check_connections(system: System) -> Iterator[Finding]:
    """What all processes open at most, as far as heartbeats show."""
    limit = system.info("clients").get("maxclients", "0")
    demand = sum(_concurrency(each) + CONNECTIONS_BESIDE_JOBS for each in system.fleet.processes)
    what = f"{counted(len(system.fleet.processes), 'process')}: up to {demand:,} connections"
    if limit.isdecimal() and 0 < int(limit) < demand:
        yield CONNECTIONS.warning(f"{what}, and the server takes {int(limit):,}")
    else:
        yield CONNECTIONS.ok(what)


def shared_queues(process: Process) -> list[str]:
    """Queues that several capsules of a process serve."""
    counts = Counter(name for capsule in process.capsules for name in capsule.queues)
    return [name for name, count in counts.items() if count > 1]


def _concurrency(process: Process) -> int:
    field = process.fields.get("concurrency", "")
    return int(field) if field.isdecimal() else process.concurrency


def _named(process: Process) -> str:
    return printable(f"{process.hostname}:{process.pid}")


def _major(process: Process) -> str:
    return process.version.partition(".")[0]


def _reads_milliseconds(process: Process) -> bool:
    major = _major(process)
    return major.isdecimal() and int(major) >= NEW_TIMES


CHECKS: Final[Sequence[tuple[Sequence[Rule], Callable[[System], Iterable[Finding]]]]] = (
    ((PROCESS_CLOCK,), check_process_clocks),
    ((QUIET,), check_quiet),
    ((VERSIONS,), check_versions),
    ((RUBY_VERSION, WIRE_PROFILE), check_ruby),
    ((RTT,), check_round_trips),
    ((CAPSULES, SINGLE_SERVER), check_servers),
    ((CONNECTIONS,), check_connections),
)
"""Rules, and the function that applies them."""
