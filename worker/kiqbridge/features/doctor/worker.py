"""Rules about the processes that live, and about the settings of a worker in the environment of the doctor."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from kiqbridge.api import Process
from kiqbridge.api.acts import stop
from kiqbridge.api.rulebook import REDIS_CLI
from kiqbridge.api.verdict import Finding, Rule
from kiqbridge.api.wording import MOST_NAMED
from kiqbridge.config.merge import merge
from kiqbridge.errors import ConfigError
from kiqbridge.features.doctor.finding import counted, printable
from kiqbridge.features.doctor.system import Checks, System

OFF_S: Final = 5
SLOW_RTT_US: Final = 50_000
CONNECTIONS_BESIDE_JOBS: Final = 10
"""Of a worker process, besides one for each thread."""

NEW_TIMES: Final = 8
"""The first version of Sidekiq that reads integer milliseconds."""

_rule: Final = partial(Rule, area="worker", link="/processes")

PROCESS_CLOCK: Final = _rule(
    id="process-clock",
    reports=f"processes whose clock, by their heartbeat, is more than {OFF_S} s off that of the server",
    why="their clock is wrong: retries and scheduled jobs get wrong times there",
    do="let chrony or the time service of the cloud set the clock of their machines",
    command="chronyc tracking",
)

QUIET: Final = _rule(
    id="quiet",
    reports="processes that are quiet and have nothing to do",
    why="they take no jobs any more, and no operator has stopped them",
    do="stop them (kiqbridge stop IDENTITY), or start them again; quiet cannot be undone",
    command="kiqbridge stop IDENTITY",
)

VERSIONS: Final = _rule(
    id="versions",
    reports="several versions of Kiqbridge, or major versions of Ruby Sidekiq, in one fleet",
    why="a deployment has stopped half way, or workers were forgotten: a job runs with old code by chance",
    do="deploy the version that is meant to all of them",
    command="kiqbridge ps",
)

RUBY_VERSION: Final = _rule(
    id="ruby-version",
    reports="Ruby Sidekiq before 6.1.3, which shows neither a version nor its memory",
    why="versions before 6 were never tested beside Kiqbridge, and may not read what it writes",
    do="upgrade them to Sidekiq 6.1.3 or newer (docs/protocol.md, section 19)",
    command="bundle update sidekiq",
)

WIRE_PROFILE: Final = _rule(
    id="wire-profile",
    reports="KIQBRIDGE_WIRE_PROFILE=8 beside Ruby Sidekiq before 8",
    why="it takes milliseconds for seconds: latencies and retries of such jobs are wrong by 50,000 years",
    do="set KIQBRIDGE_WIRE_PROFILE to 7, which all versions read, or to auto",
    command="export KIQBRIDGE_WIRE_PROFILE=7",
)

RTT: Final = _rule(
    id="rtt",
    reports=f"processes with a round trip to Redis above {SLOW_RTT_US // 1000} ms",
    why="each job needs some round trips, so they perform few jobs a second",
    do="run them in the region and zone of the server; look whether they lack CPU",
    command="kiqbridge ps",
)

CAPSULES: Final = _rule(
    id="capsules",
    reports="processes of which several capsules serve the same queue",
    why="a capsule limits how many jobs of its queues run at once, and another one that takes them voids that",
    do="name each queue in one capsule only",
    command="kiqbridge ps",
)

SINGLE_SERVER: Final = _rule(
    id="single-server",
    reports="queues that one process serves, while processes of several hosts live",
    why="when that process or its host ends, the queue stands still",
    do="let a process of another host serve it, too; ignore the rule if one is meant, as for jobs in order",
    command="kiqbridge worker -q QUEUE",
)

CONNECTIONS: Final = _rule(
    id="connections",
    reports="a fleet whose processes, all at work, open more connections than maxclients",
    why="the last ones to start cannot connect",
    do="raise maxclients, or lower the concurrency or the number of processes",
    command=REDIS_CLI + "CONFIG GET maxclients",
)

TO_GIVE_BACK_S: Final = 5.0
"""What a worker needs after its timeout, to give unfinished jobs back and sign off; ten are better."""

ORCHESTRATORS: Final[Mapping[str, tuple[str, str]]] = {
    "ECS_CONTAINER_METADATA_URI_V4": (
        "ECS",
        "StopTimeout of the container, 30 s by default, 120 s at most",
    ),
    "KUBERNETES_SERVICE_HOST": ("Kubernetes", "terminationGracePeriodSeconds, 30 s by default"),
    "INVOCATION_ID": ("systemd", "TimeoutStopSec, 90 s by default"),
}
"""A variable that each of them sets → its name, and where it has the time."""

_ECS: Final = "ECS_CONTAINER_METADATA_URI_V4"
_ECS_MOST_S: Final = 120.0
_LEAST_DEFAULT_S: Final = 30.0
SETTINGS: Final = _rule(
    id="settings",
    reports="variables of the environment that a worker refuses at its start",
    why="a worker does not start with them",
    do="correct the variable; docs/reference/settings.md has them all",
    command="kiqbridge doctor --rule settings",
)

STOP_TIMEOUT: Final = _rule(
    id="stop-timeout",
    reports="a KIQBRIDGE_TIMEOUT_S that ends later than the orchestrator kills (--stop-timeout gives its time)",
    why="a worker that is killed before it gives its jobs back lets them wait for half a minute, and begin again",
    do="set KIQBRIDGE_TIMEOUT_S 10 s below it, or raise StopTimeout (ECS), terminationGracePeriodSeconds "
    "(Kubernetes), TimeoutStopSec (systemd)",
    command="export KIQBRIDGE_TIMEOUT_S=SECONDS",
)

POOL: Final = _rule(
    id="pool",
    reports="more child processes (KIQBRIDGE_POOL_SIZE) than jobs that run at once (KIQBRIDGE_CONCURRENCY)",
    why="a job in a child takes a thread as well, so the others are never used, and each takes memory",
    do="lower KIQBRIDGE_POOL_SIZE, or raise KIQBRIDGE_CONCURRENCY",
    command="export KIQBRIDGE_POOL_SIZE=auto",
)


def check_process_clocks(system: System) -> Iterator[Finding]:
    """A heartbeat carries the time of its machine, and sets a term by the clock of the server."""
    by_name = {_named(each): each.clock_ahead_s(system.facts.at) for each in system.processes}
    off = [
        f"{name} {abs(ahead_s):,.0f} s {'ahead' if ahead_s > 0 else 'behind'}"
        for name, ahead_s in by_name.items()
        if abs(ahead_s) > OFF_S
    ]
    yield PROCESS_CLOCK.summed(
        off, "each process has the time of the server", "clocks that differ from the server's: "
    )


def check_quiet(system: System) -> Iterator[Finding]:
    """One that still runs jobs is on its way out."""
    idle = [each for each in system.processes if each.is_quiet and not each.busy]
    found = QUIET.summed([*map(_named, idle)], "no process is quiet and idle", "quiet and idle: ")
    named = {"IDENTITY": idle[0].identity} if idle else {}
    yield found.naming(*(stop(each.identity, _named(each)) for each in idle[:MOST_NAMED]), **named)


def check_versions(system: System) -> Iterator[Finding]:
    """Ours exactly; Ruby's by its first number."""
    ours = sorted({printable(each.version) for each in system.processes if each.is_ours})
    majors = {_major(each) for each in _ruby(system) if each.version}
    ruby = [printable(f"Sidekiq {each}") for each in sorted(majors)]
    mixed = [name for names in (ours, ruby) if len(names) > 1 for name in names]
    what = f"several versions at work: {', '.join(mixed)}" if mixed else ", ".join([*ours, *ruby])
    yield VERSIONS.rated(what or "no process lives", warning=bool(mixed))


def check_ruby(system: System) -> Iterator[Finding]:
    """Old ones, and those that cannot read what we are set to write."""
    ruby = _ruby(system)
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
        for each in system.processes
        if each.rtt_us > SLOW_RTT_US
    ]
    yield RTT.summed(slow, "no process has slow round trips", "slow round trips: ")


def check_servers(system: System) -> Iterator[Finding]:
    """Who serves which queue: several capsules, or one process only."""
    shared = [
        f"{printable(name)} in {_named(each)}"
        for each in system.processes
        for name in shared_queues(each)
    ]
    well = "each queue is in one capsule of a process"
    yield CAPSULES.summed(shared, well, "in several capsules: ")
    served: dict[str, list[Process]] = {}
    for each in system.processes:
        for name in each.queues:
            served.setdefault(name, []).append(each)
    hosts = {each.hostname for each in system.processes}
    alone = [
        f"{printable(name)} ({_named(who[0])})"
        for name, who in served.items()
        if len(hosts) > 1 and len(who) == 1
    ]
    well = f"{counted(len(served), 'queue')} served on {counted(len(hosts), 'host')}"
    yield SINGLE_SERVER.summed(alone, well, "served by one process only: ")


def check_connections(system: System) -> Iterator[Finding]:
    """What all processes open at most, as far as heartbeats show."""
    limit = system.info("clients").get("maxclients", "0")
    demand = sum(_concurrency(each) + CONNECTIONS_BESIDE_JOBS for each in system.processes)
    what = f"{counted(len(system.processes), 'process')}: up to {demand:,} connections"
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


def _ruby(system: System) -> list[Process]:
    return [each for each in system.processes if not each.is_ours]


def _named(process: Process) -> str:
    return printable(f"{process.hostname}:{process.pid}")


def _major(process: Process) -> str:
    return process.version.partition(".")[0]


def _reads_milliseconds(process: Process) -> bool:
    major = _major(process)
    return major.isdecimal() and int(major) >= NEW_TIMES


def check_settings(system: System) -> Iterator[Finding]:
    """As a worker reads them."""
    try:
        config = merge(environ=system.environ, flags={})
    except ConfigError as error:
        yield SETTINGS.problem(str(error))
        return
    yield SETTINGS.ok("a worker accepts the settings of this environment")
    yield _stop_timeout(config.timeout_s, system)
    slots = config.concurrency + sum(each.concurrency for each in config.capsules)
    yield POOL.rated(
        f"KIQBRIDGE_POOL_SIZE is {config.pool_size}, and {slots} jobs run at once",
        warning=config.pool_size != "auto" and config.pool_size > slots,
    )


def _stop_timeout(timeout_s: float, system: System) -> Finding:
    found = next((name for name in ORCHESTRATORS if name in system.environ), None)
    killed_s = system.stop_timeout_s
    if killed_s is None and found == _ECS and timeout_s + TO_GIVE_BACK_S > _ECS_MOST_S:
        killed_s = _ECS_MOST_S
    if killed_s is not None:
        what = f"workers end within {timeout_s:.0f} s, and are killed after {killed_s:.0f} s"
        return STOP_TIMEOUT.rated(what, problem=timeout_s + TO_GIVE_BACK_S > killed_s)
    if found is None or timeout_s + TO_GIVE_BACK_S <= _LEAST_DEFAULT_S:
        return STOP_TIMEOUT.ok(f"workers end within {timeout_s:.0f} s")
    name, where = ORCHESTRATORS[found]
    return STOP_TIMEOUT.unknown(
        f"workers end within {timeout_s:.0f} s, and when {name} kills them is not visible from here",
        do=f"give --stop-timeout: {where}",
    )


CHECKS: Final[Checks] = (
    ((PROCESS_CLOCK,), check_process_clocks),
    ((QUIET,), check_quiet),
    ((VERSIONS,), check_versions),
    ((RUBY_VERSION, WIRE_PROFILE), check_ruby),
    ((RTT,), check_round_trips),
    ((CAPSULES, SINGLE_SERVER), check_servers),
    ((CONNECTIONS,), check_connections),
    ((SETTINGS, STOP_TIMEOUT, POOL), check_settings),
)
"""Rules, and the function that applies them."""
