"""Rules about our keys in a server: their types, and what guards and ledgers take."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from kiqbridge.api import search_unregistered
from kiqbridge.api.rulebook import REDIS_CLI
from kiqbridge.api.verdict import Finding, Rule
from kiqbridge.errors import RedisRefused
from kiqbridge.features.doctor.finding import counted, printable
from kiqbridge.features.doctor.system import Checks, System
from kiqbridge.wire.keys import TYPES

SAMPLES: Final = 20
"""Members from which Redis estimates the memory of a key; all of them would block the server."""

MANY_OVER: Final = 10_000

_rule: Final = partial(Rule, area="redis")

TYPE: Final = _rule(
    id="types",
    reports="keys of Sidekiq or of ours that hold a value of another type",
    why="whatever needs this key waits",
    do="look at it, then RENAME or DEL it",
    command=REDIS_CLI + "TYPE KEY",
)
GUARDS: Final = _rule(
    id="guards",
    reports=f"more than {MANY_OVER:,} guards of events that are over and still there",
    why="no process removes them, so they take memory for nothing",
    do="run a worker of this version: the leader of the workers forgets them each hour",
    command="kiqbridge worker",
)
LEDGERS: Final = _rule(
    id="ledgers",
    reports="nothing: it shows how many schedules have a ledger, and what the ledgers take",
    why="they grow with the number of ticks, and are forgotten after 17 days",
    do="nothing",
    command="kiqbridge stats --memory",
)

UNREGISTERED: Final = _rule(
    id="unregistered",
    reports="in-flight lists with jobs whose incarnation is not in kb:inflight: it was deleted or evicted",
    why="no worker performs these jobs, and none gives them back by itself",
    do="run kiqbridge recover, which gives them back; set maxmemory-policy to noeviction",
    command="kiqbridge recover",
)


def check_types(system: System) -> Iterator[Finding]:
    """Our keys that hold a value of another type."""
    keys = system.keys
    wanted = {getattr(keys, name): kind for name, kind in TYPES.items()}
    kinds = system.kinds(list(wanted))
    for name in system.members(keys.queues, kinds[keys.queues]):
        wanted[keys.queue(name)] = "list"
    for name in system.members(keys.ledgers, kinds[keys.ledgers]):
        wanted[keys.ticks(name)] = "zset"
    kinds = system.kinds(list(wanted))
    wrong = {key: kinds[key] for key in wanted if kinds[key] not in ("none", wanted[key])}
    for key, kind in wrong.items():
        yield TYPE.problem(
            f"{key} is a {kind}, not a {wanted[key]}", do=f"look at it, then RENAME or DEL {key}"
        ).naming(KEY=key)
    if not wrong:
        yield TYPE.ok(f"{len(wanted)} keys hold what they should")


def check_unregistered(system: System) -> Iterator[Finding]:
    """As the leader looks for them, among the first keys."""
    names, is_whole = system.scanned
    found = search_unregistered(system.connection, system.keys, names)
    for each in found:
        held = counted(sum(each.lists.values()), "job")
        yield UNREGISTERED.problem(
            f"{held} in flight for {printable(each.incarnation)}, which is not in {system.keys.inflight}"
        )
    if not found:
        among = "" if is_whole else " among the keys that were looked at"
        yield UNREGISTERED.ok(f"each in-flight list{among} has a registered owner")


def check_memory_of_ours(system: System) -> Iterator[Finding]:
    """What guards and ledgers take."""
    keys = system.keys
    named = {name: getattr(keys, name) for name in ("guards", "guards_until", "ledgers")}
    kinds = system.kinds(list(named.values()))
    if any(kinds[key] not in ("none", TYPES[name]) for name, key in named.items()):
        return  # reported by the check of types
    connection = system.connection
    count, over, schedules = connection.run(
        ("HLEN", keys.guards),
        ("ZCOUNT", keys.guards_until, "-inf", int(system.server_now)),
        ("ZCARD", keys.ledgers),
    )
    names = system.members(keys.ledgers, kinds[keys.ledgers])
    of_guards = [keys.guards, keys.guards_until]
    of_ledgers = [keys.ledgers, *(keys.ticks(name) for name in names)]
    taken = _described(system, of_guards, of_ledgers)
    guards = f"{counted(count, 'guard')}{taken[0]}"
    if over > MANY_OVER:
        yield GUARDS.problem(f"{guards}, {over:,} of which are over and still there")
    else:
        yield GUARDS.ok(guards)
    yield LEDGERS.ok(f"ledgers of {counted(schedules, 'schedule')}{taken[1]}")


def _described(system: System, *groups: Sequence[str]) -> list[str]:
    """What the keys of each group take of memory, estimated by Redis; a hint where it refuses to."""
    names = [name for group in groups for name in group]
    try:
        replies = iter(
            system.connection.run(
                *(("MEMORY", "USAGE", name, "SAMPLES", SAMPLES) for name in names)
            )
        )
    except RedisRefused:
        hint = " (their memory is not known: allow +memory|usage in the ACL of this user)"
        return [hint] * len(groups)
    sizes = (sum(size or 0 for size in islice(replies, len(group))) for group in groups)
    return [f" with {size / 1_000_000:,.1f} MB" for size in sizes]


CHECKS: Final[Checks] = (
    ((TYPE,), check_types),
    ((UNREGISTERED,), check_unregistered),
    ((GUARDS, LEDGERS), check_memory_of_ours),
)
"""Rules, and the function that applies them."""
