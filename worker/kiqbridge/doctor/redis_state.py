"""Rules about how a server is now: persistence, memory, replicas, connections, reply buffers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from kiqbridge.api import Limits
from kiqbridge.doctor.finding import Finding, Rule, counted
from kiqbridge.doctor.system import System

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
    reports="a server that writes neither an append-only file nor snapshots and has no replica; a write of "
    "either that failed",
    why="a restart of the server loses all jobs, schedules and ledgers",
    action="CONFIG SET appendonly yes, and the same in the server's file; on ElastiCache use a replica in "
    "another zone, with automatic failover",
)
MEMORY: Final = _rule(
    id="memory",
    reports=f"{_LIMITS.memory_warning:.0%} of maxmemory in use or more (a problem from {_LIMITS.memory_critical:.0%} on); without maxmemory, "
    "of the machine's memory",
    why="a full server refuses jobs, and workers cannot write what became of theirs",
    action="see what grows with kiqbridge stats; more workers, limits of queues (KIQBRIDGE_QUEUE_LIMITS), fewer "
    "dead jobs, or more memory",
)
REPLICAS: Final = _rule(
    id="replicas",
    reports="a server that is a replica; replicas that are away or late; fewer than it, or a worker's "
    "KIQBRIDGE_SETTLE_REPLICAS, asks for",
    why="a failover loses what a late replica has not yet, and too few replicas make the server refuse writes",
    action="look at INFO replication, and at the network and the memory of the replica",
)
CLIENTS: Final = _rule(
    id="clients",
    reports=f"more than {MANY_CLIENTS:.0%} of maxclients connected",
    why="further workers, functions and pages cannot connect",
    action="raise maxclients, or find with CLIENT LIST who opens so many; each worker process needs about its "
    "concurrency and ten more",
)
OUTPUT_LIMIT: Final = _rule(
    id="output-limit",
    reports=f"a limit for replies below {SMALL_REPLY_BYTES // 1_000_000} MB, or connections that were closed "
    "because of one",
    why="a connection is closed while it reads several large jobs, and the worker begins again",
    action="CONFIG SET client-output-buffer-limit 'normal 0 0 0', Redis' default, and keep large data out of "
    "arguments",
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
                action="look at the server's log, the space on its disk and its memory for a fork",
            )
            return
    if info.get("aof_enabled") == "1":
        yield PERSISTENCE.ok("the append-only file is written")
        return
    replicas = _number(system.info("replication"), "connected_slaves")
    if replicas:
        yield PERSISTENCE.ok(f"no append-only file; the data is on {replicas} replicas, too")
        return
    yield _snapshots(info, system.config("save"), system.server_now)


def _snapshots(info: Mapping[str, str], save: str | None, now: float) -> Finding:
    """Of a server without an append-only file; `save` None = not known."""
    changes = _number(info, "rdb_changes_since_last_save")
    age = max(0, int(now - _number(info, "rdb_last_save_time")))
    if save == "":
        return PERSISTENCE.warning("neither an append-only file nor snapshots are written")
    if changes and age > STALE_SNAPSHOT_S:
        return PERSISTENCE.warning(
            f"no append-only file, and no snapshot for {age / 3600:,.0f} h with {changes:,} changes"
        )
    return PERSISTENCE.ok(
        f"no append-only file; the last snapshot is {age:,} s old, with {changes:,} changes since"
    )


def check_memory(system: System) -> Iterator[Finding]:
    """What is used of what there is."""
    system.info("memory")  # where that is refused, what is used is not known
    used, most = system.facts.memory.taken if system.facts.memory else (0, 0)
    of = f" of {most / 1_000_000:,.0f} MB" if most else "; there is no limit"
    yield from system.judged(MEMORY, f"{used / 1_000_000:,.0f} MB are used{of}")


def check_replicas(system: System) -> Iterator[Finding]:
    """By INFO replication."""
    info = system.info("replication")
    if info.get("role") == "slave":
        yield REPLICAS.problem(
            f"this server is a replica of {info.get('master_host')}:{info.get('master_port')}",
            why="it refuses writes: nothing can be pushed or performed",
            action="write the address of the primary into REDIS_URL; of ElastiCache its primary endpoint, or use "
            "redis+sentinel://",
        )
        return
    good = info.get("min_slaves_good_slaves")
    wanted = int(system.config("min-replicas-to-write") or 1)
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
            action="add replicas, or lower KIQBRIDGE_SETTLE_REPLICAS",
        )
    else:
        yield REPLICAS.ok(f"a primary with {counted(len(replicas), 'replica')}")


def check_clients(system: System) -> Iterator[Finding]:
    """How many more can connect."""
    info = system.info("clients")
    now, most = _number(info, "connected_clients"), _number(info, "maxclients")
    what = f"{now:,} of {most:,} connections are open" if most else f"{now:,} connections are open"
    if most and now / most > MANY_CLIENTS:
        yield CLIENTS.warning(what)
    else:
        yield CLIENTS.ok(what)


def check_output_limit(system: System) -> Iterator[Finding]:
    """What a reply may take."""
    closed = _number(system.info("stats"), "client_output_buffer_limit_disconnections")
    words = (system.config("client-output-buffer-limit") or "").split()
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


CHECKS: Final[Sequence[tuple[Sequence[Rule], Callable[[System], Iterable[Finding]]]]] = (
    ((PERSISTENCE,), check_persistence),
    ((MEMORY,), check_memory),
    ((REPLICAS,), check_replicas),
    ((CLIENTS,), check_clients),
    ((OUTPUT_LIMIT,), check_output_limit),
)
"""Rules, and the function that applies them."""
