"""Rules about several shards together: servers, workers, and where queues lie (docs/shards.md)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kiqbridge.api import Operator, ProcessSet
from kiqbridge.doctor.finding import Finding, Rule, counted, listed, printable
from kiqbridge.doctor.shard_moves import UNFINISHED, check_moves
from kiqbridge.errors import PayloadError, RedisRefused
from kiqbridge.store.eviction import parse_info
from kiqbridge.wire.names import text_of
from kiqbridge.wire.routes import Route

TWICE: Final = Rule(
    id="shard-twice",
    area="redis",
    reports="one server under the names of several shards (only with shards)",
    why="what is meant to be divided lies together: with one database jobs are counted twice, with several nothing is "
    "gained",
    action="correct the addresses in KIQBRIDGE_SHARDS, or make one shard of them",
)
ALIKE: Final = Rule(
    id="shard-settings",
    area="redis",
    reports="shards of different versions, or with different eviction policies (only with shards)",
    why="a queue that is moved meets another behaviour, and a fault shows on one shard only",
    action="upgrade the older servers, and give all of them the same parameter group",
)
WORKERS: Final = Rule(
    id="shard-workers",
    area="worker",
    reports="shards that no process serves (only with shards)",
    why="what is pushed there is not performed, nor moved to its queue when it is due",
    action="start kiqbridge worker without --shard, or with the name of this one",
)
PLACES: Final = Rule(
    id="shard-places",
    area="wire",
    reports="queues with jobs on a shard to which clients do not push them, and where no process serves them (only "
    "with shards)",
    why="these jobs wait for ever: workers look for them on another shard",
    action="start a worker of this shard that serves the queue, or move it: kiqbridge queue move NAME --to SHARD",
)
NAMES: Final = Rule(
    id="shard-names",
    area="wire",
    reports="queues whose names no glob of a shard matches (only with shards)",
    why="clients refuse to push to them, and only Ruby, or a client with other settings, still can",
    action="add the name, or '*', to queues of a shard in KIQBRIDGE_SHARDS",
)
MOVES: Final = Rule(
    id="shard-moves",
    area="wire",
    reports="queues that were moved to a shard that the settings do not name (only with shards)",
    why="clients with these settings go on pushing to the shard that held the queue before",
    action="add the shard to KIQBRIDGE_SHARDS, or move the queue to one of those that are there",
)
RULES: Final = (TWICE, ALIKE, WORKERS, PLACES, NAMES, MOVES, UNFINISHED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What was read of one.

    Attributes:
        name: in the settings.
        server: identity of the server's process; empty if it does not say.
        database: its number.
        version: of the server.
        eviction: its policy; empty if it does not say.
        sizes: queue → jobs that wait.
        served: queues that a process serves, quiet ones included.
        processes: how many live.
        moves: queue → shard to which it was moved from here.
    """

    name: str
    server: str
    database: str
    version: str
    eviction: str
    sizes: Mapping[str, int]
    served: frozenset[str]
    processes: int
    moves: Mapping[str, str]


def check_shards(operator: Operator) -> Iterator[Finding]:
    """What is wrong with shards together.

    Args:
        operator: of those that answer.

    Raises:
        RedisUnavailable: one went away meanwhile.
    """
    try:
        shards = operator.gather(_read)
    except RedisRefused as error:
        yield TWICE.unknown(f"a shard does not answer: {error}")
        return
    for check in (_twice, _alike, _without_workers):
        yield from check(shards)
    yield from _places(operator, shards)
    known = set(operator.client.shards)
    lost = [
        f"{printable(queue)} from {each.name} to {printable(to)}"
        for each in shards
        for queue, to in each.moves.items()
        if to not in known
    ]
    if lost:
        yield MOVES.problem(f"moved to a shard that is not in the settings: {listed(lost)}")
    else:
        yield MOVES.ok("no queue was moved to an unknown shard")
    yield from check_moves(operator)


def together(found: Iterable[tuple[str, Sequence[Finding]]]) -> list[Finding]:
    """The findings about each shard, with its name; what is the same on several is one.

    Args:
        found: name of a shard, and what was found there.
    """
    names: dict[Finding, list[str]] = defaultdict(list)
    for name, findings in found:
        for finding in findings:
            names[finding].append(name)
    return [
        replace(finding, what=f"shard{'s' if len(of) > 1 else ''} {', '.join(of)}: {finding.what}")
        for finding, of in names.items()
    ]


def _read(operator: Operator) -> Shard:
    pool, keys = operator.pool, operator.keys
    server, memory, client, queues, moves = pool.run(
        ("INFO", "server"),
        ("INFO", "memory"),
        ("CLIENT", "INFO"),
        ("SMEMBERS", keys.queues),
        ("HGETALL", keys.routes),
    )
    about, names = parse_info(server), sorted(text_of(name) for name in queues)
    sizes = pool.run(*(("LLEN", keys.queue(name)) for name in names)) if names else []
    processes = list(iter(ProcessSet(operator)))
    fields = dict(part.partition(b"=")[::2] for part in client.split())
    return Shard(
        name=operator.shard,
        server=about.get("run_id", ""),
        database=fields.get(b"db", b"").decode(),
        version=about.get("valkey_version") or about.get("redis_version", ""),
        eviction=parse_info(memory).get("maxmemory_policy", ""),
        sizes=dict(zip(names, sizes, strict=True)),
        served=frozenset(name for each in processes for name in each.queues),
        processes=len(processes),
        moves={
            text_of(queue): Route.from_text(entry).shard
            for queue, entry in zip(moves[::2], moves[1::2], strict=True)
        },
    )


def _twice(shards: Sequence[Shard]) -> Iterator[Finding]:
    servers: dict[str, list[Shard]] = defaultdict(list)
    for each in shards:
        servers[each.server or each.name].append(each)
    shared = [several for several in servers.values() if len(several) > 1]
    for several in shared:
        names = ", ".join(each.name for each in several)
        if len({each.database for each in several}) < len(several):
            yield TWICE.problem(f"one database has several names: {names}")
        else:
            yield TWICE.warning(f"one server has several names, with a database for each: {names}")
    if not shared:
        yield TWICE.ok("each shard is a server of its own")


def _alike(shards: Sequence[Shard]) -> Iterator[Finding]:
    different = [
        f"{what}: {', '.join(f'{name} {value}' for name, value in values.items())}"
        for what, values in (
            ("versions", {each.name: each.version for each in shards}),
            ("eviction policies", {each.name: each.eviction for each in shards}),
        )
        if len(set(values.values())) > 1
    ]
    if different:
        yield ALIKE.warning(f"the shards have different {'; different '.join(different)}")
    else:
        yield ALIKE.ok("all shards have the same version and eviction policy")


def _without_workers(shards: Sequence[Shard]) -> Iterator[Finding]:
    idle = [each for each in shards if not each.processes]
    waiting = sum(size for each in idle for size in each.sizes.values())
    names = ", ".join(each.name for each in idle)
    if idle and waiting:
        yield WORKERS.problem(f"no process serves {names}, where {counted(waiting, 'job')} wait")
    elif idle:
        yield WORKERS.warning(f"no process serves {names}")
    else:
        yield WORKERS.ok("each shard has a worker")


def _places(operator: Operator, shards: Sequence[Shard]) -> Iterator[Finding]:
    stray: list[str] = []
    nameless: set[str] = set()
    for each in shards:
        for queue, size in each.sizes.items():
            try:
                own = operator.client.shard_of(queue)
            except PayloadError:
                own = ""
                nameless.add(queue)
            if size and own != each.name and queue not in each.served:
                stray.append(f"{printable(queue)} ({counted(size, 'job')} on {each.name})")
    if stray:
        yield PLACES.problem(f"nobody serves {listed(stray)}")
    else:
        yield PLACES.ok("what lies on another shard than its queue is served there")
    if nameless:
        yield NAMES.warning(f"no shard takes {listed(sorted(map(printable, nameless)))}")
    else:
        yield NAMES.ok("each queue belongs to a shard")
