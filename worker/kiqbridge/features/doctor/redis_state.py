"""Rules about how a server is now: persistence, memory, replicas, connections, its speed and its clock."""

import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from kiqbridge.api import Limits, fetch_memory_by_kind, rulebook
from kiqbridge.api.rulebook import REDIS_CLI
from kiqbridge.api.verdict import Finding, Rule
from kiqbridge.api.wording import listed
from kiqbridge.errors import RedisRefused
from kiqbridge.features.doctor.finding import counted, printable
from kiqbridge.features.doctor.system import Checks, System
from kiqbridge.wire.amounts import size_text

STALE_SNAPSHOT_S: Final = 7200
"""Redis' own rules write a snapshot after an hour at most, if anything has changed."""

_LIMITS: Final = Limits()

LATE_REPLICA_S: Final = 10
MANY_CLIENTS: Final = 0.8
SMALL_REPLY_BYTES: Final = 32_000_000
"""A claim, or a page of a set, with some jobs of 10 MB each."""

_RULES_IN_BYTES: Final = 4
"""Words of a class of clients in client-output-buffer-limit."""

_rule: Final = partial(Rule, area="redis")

PERSISTENCE: Final = _rule(
    id="persistence",
    reports="neither an append-only file nor snapshots nor a replica; a write of either that failed",
    why="a restart of the server loses all jobs, schedules and ledgers",
    do="CONFIG SET appendonly yes, also in the server's file; on ElastiCache a replica in another zone",
    command=REDIS_CLI + "CONFIG SET appendonly yes",
)

MEMORY: Final = rulebook.MEMORY

REPLICAS: Final = _rule(
    id="replicas",
    reports="a server that is a replica; replicas that are away, late, or fewer than KIQBRIDGE_SETTLE_REPLICAS",
    why="a failover loses what a late replica has not yet, and too few replicas make the server refuse writes",
    do="look at INFO replication, and at the network and the memory of the replica",
    command=REDIS_CLI + "INFO replication",
)

CLIENTS: Final = _rule(
    id="clients",
    reports=f"more than {MANY_CLIENTS:.0%} of maxclients connected",
    why="further workers, functions and pages cannot connect",
    do="raise maxclients, or find with CLIENT LIST who opens so many; a worker needs its concurrency and ten more",
    command=REDIS_CLI + "CLIENT LIST",
)

OUTPUT_LIMIT: Final = _rule(
    id="output-limit",
    reports=f"a limit for replies below {SMALL_REPLY_BYTES // 1_000_000} MB, or connections that one has closed",
    why="a connection is closed while it reads several large jobs, and the worker begins again",
    do="CONFIG SET client-output-buffer-limit 'normal 0 0 0', and keep large data out of arguments",
    command=REDIS_CLI + "CONFIG SET client-output-buffer-limit 'normal 0 0 0'",
)

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
    *("debug", "flush", "shutdown", "save", "bgsave", "config", "client|list", "slowlog"),
)
"""Beginnings of what administrators do."""

LATENCY: Final = _rule(
    id="latency",
    reports=f"a median round trip above {SLOW_PING_MS:.0f} ms (a problem from {VERY_SLOW_PING_MS:.0f} ms on)",
    why="each job needs some round trips, so workers perform few jobs a second",
    do="run workers in the region and zone of the server; look at the load of this machine and of the server",
    command=REDIS_CLI + "--latency",
)

SLOW_COMMANDS: Final = _rule(
    id="slow-commands",
    reports=f"commands whose slowest hundredth takes more than {SLOW_COMMAND_MS:.0f} ms at the server",
    why="a server does one thing at a time: all workers wait meanwhile",
    do="SLOWLOG GET 10 shows the calls; keep large data out of arguments; CONFIG RESETSTAT begins anew",
    command=REDIS_CLI + "SLOWLOG GET 10",
)

CLOCK: Final = _rule(
    id="clock",
    reports=f"clocks of server and machine that differ by {SKEW_S:.0f} s (a problem from {LARGE_SKEW_S:.0f} s on)",
    why="scheduled jobs and retries run too early or too late, and ages of jobs are shown wrongly",
    do="let chrony or the time service of the cloud set both clocks",
    command="chronyc tracking",
)


def check_persistence(system: System) -> Iterator[Finding]:
    """By INFO persistence, and by CONFIG GET save where that may be asked for."""
    info = system.info("persistence")
    failed = {
        "the append-only file": info.get("aof_last_write_status"),
        "a snapshot": info.get("rdb_last_bgsave_status"),
        "the append-only file anew": info.get("aof_last_bgrewrite_status"),
    }
    for what, status in failed.items():
        if status not in (None, "ok"):
            yield PERSISTENCE.problem(
                f"the server could not write {what}",
                why="it refuses further writes, or a restart loses what it could not write",
                do="look at the server's log, the space on its disk and its memory for a fork",
            )
            return
    changes = _number(info, "rdb_changes_since_last_save")
    age = max(0, int(system.server_now - _number(info, "rdb_last_save_time")))
    if info.get("aof_enabled") == "1":
        yield PERSISTENCE.ok("the append-only file is written")
    elif replicas := _number(system.info("replication"), "connected_slaves"):
        yield PERSISTENCE.ok(f"no append-only file; the data is on {replicas} replicas, too")
    elif system.config.get("save") == "":
        yield PERSISTENCE.warning("neither an append-only file nor snapshots are written")
    elif changes and age > STALE_SNAPSHOT_S:
        yield PERSISTENCE.warning(
            f"no append-only file, and no snapshot for {age / 3600:,.0f} h with {changes:,} changes"
        )
    else:
        yield PERSISTENCE.ok(
            f"no append-only file; the last snapshot is {age:,} s old, with {changes:,} changes since"
        )


def check_memory(system: System) -> Iterator[Finding]:
    """What is used of what there is."""
    system.info("memory")  # where that is refused, what is used is not known
    used, most = system.facts.memory.taken if system.facts.memory else (0, 0)
    of = f" of {most / 1_000_000:,.0f} MB" if most else "; there is no limit"
    by = _by_kind(system)
    for found in system.judged(MEMORY, f"{used / 1_000_000:,.0f} MB are used{of}"):
        yield replace(found, what=f"{found.what}{by}")


def _by_kind(system: System) -> str:
    """What takes the memory, as a clause that ends a sentence; a hint where the server refuses to say."""
    try:
        memory = fetch_memory_by_kind(system.operator, scanned=system.scanned)
    except RedisRefused:
        return "; by what is not known: allow +scan and +memory|usage in the ACL of this user"
    kinds = [
        f"{printable(each.kind)} {size_text(each.bytes)}" for each in memory.kinds if each.bytes
    ]
    if not kinds:
        return ""
    how = f", estimated from {memory.looked_at:,} of {memory.total:,} keys"
    return f"; by {listed(kinds)}{how if memory.is_estimate else ''}"


def check_replicas(system: System) -> Iterator[Finding]:
    """By INFO replication."""
    info = system.info("replication")
    if info.get("role") == "slave":
        yield REPLICAS.problem(
            f"this server is a replica of {info.get('master_host')}:{info.get('master_port')}",
            why="it refuses writes: nothing can be pushed or performed",
            do="write the address of the primary (its endpoint in ElastiCache) into REDIS_URL, or use redis+sentinel://",
        )
        return
    good = info.get("min_slaves_good_slaves")
    wanted = int(system.config.get("min-replicas-to-write") or 1)
    if good is not None and int(good) < wanted:
        yield REPLICAS.problem(
            f"the server writes with {wanted} replicas or more, and has {good}",
            why="it refuses all writes until there are enough",
        )
        return
    replicas = [
        dict(pair.split("=", 1) for pair in value.split(",") if "=" in pair)
        for name, value in info.items()
        if name.startswith("slave") and name[5:].isdecimal()
    ]
    late = [
        f"{each.get('ip')}:{each.get('port')} ({each.get('state')}, {each.get('lag')} s late)"
        for each in replicas
        if each.get("state") != "online" or int(each.get("lag") or 0) > LATE_REPLICA_S
    ]
    settle = system.environ.get("KIQBRIDGE_SETTLE_REPLICAS", "")
    if late:
        yield REPLICAS.warning(f"replicas that are not up to date: {', '.join(late)}")
    elif settle.isdecimal() and int(settle) > len(replicas):
        yield REPLICAS.problem(
            f"KIQBRIDGE_SETTLE_REPLICAS is {settle}, and there are {len(replicas)} replicas",
            why="each job that ends waits for a confirmation that cannot come",
            do="add replicas, or lower KIQBRIDGE_SETTLE_REPLICAS",
        )
    else:
        yield REPLICAS.ok(f"a primary with {counted(len(replicas), 'replica')}")


def check_clients(system: System) -> Iterator[Finding]:
    """How many more can connect."""
    info = system.info("clients")
    now, most = _number(info, "connected_clients"), _number(info, "maxclients")
    what = f"{now:,} of {most:,} connections are open" if most else f"{now:,} connections are open"
    yield CLIENTS.rated(what, warning=now > MANY_CLIENTS * most > 0)


def check_output_limit(system: System) -> Iterator[Finding]:
    """What a reply may take."""
    closed = _number(system.info("stats"), "client_output_buffer_limit_disconnections")
    words = system.config.get("client-output-buffer-limit", "").split()
    limits = {words[at]: words[at + 1] for at in range(0, len(words) - 1, _RULES_IN_BYTES)}
    hard = int(limits.get("normal", "0"))
    if 0 < hard < SMALL_REPLY_BYTES:
        yield OUTPUT_LIMIT.warning(f"a reply may have {hard / 1_000_000:,.1f} MB")
    elif closed:
        yield OUTPUT_LIMIT.warning(
            f"{closed:,} connections were closed since the server's start: they read too slowly, or too much"
        )
    else:
        yield OUTPUT_LIMIT.ok("replies are not limited, and none was cut")


def _number(info: Mapping[str, str], name: str) -> int:
    value = info.get(name, "0")
    return int(value) if value.isdecimal() else 0


def check_latency(system: System) -> Iterator[Finding]:
    """The median, so that one slow answer says nothing."""
    median = statistics.median(took for took, _ in system.clocked) * 1000
    what = f"a round trip takes {median:.1f} ms"
    yield LATENCY.rated(what, problem=median >= VERY_SLOW_PING_MS, warning=median >= SLOW_PING_MS)


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
    worst = sorted(slow, key=lambda name: -slow[name])
    yield SLOW_COMMANDS.summed(
        [f"{name.upper()} {slow[name]:,.0f} ms" for name in worst],
        f"no command takes more than {SLOW_COMMAND_MS:.0f} ms often",
        "one call in a hundred takes as long as this: ",
    )


def check_clock(system: System) -> Iterator[Finding]:
    """The answer of TIME belongs to the middle of its round trip."""
    took, skew = min(system.clocked)  # the fastest is the most exact
    if abs(skew) <= SKEW_S + took:
        yield CLOCK.ok(f"the clocks differ by {abs(skew) * 1000:,.0f} ms")
        return
    direction = "ahead of" if skew > 0 else "behind"
    what = f"the server's clock is {abs(skew):,.1f} s {direction} that of this machine"
    yield CLOCK.rated(what, problem=abs(skew) > LARGE_SKEW_S, warning=True)


CHECKS: Final[Checks] = (
    ((PERSISTENCE,), check_persistence),
    ((MEMORY,), check_memory),
    ((REPLICAS,), check_replicas),
    ((CLIENTS,), check_clients),
    ((OUTPUT_LIMIT,), check_output_limit),
    ((LATENCY,), check_latency),
    ((SLOW_COMMANDS,), check_slow_commands),
    ((CLOCK,), check_clock),
)
"""Rules, and the function that applies them."""
