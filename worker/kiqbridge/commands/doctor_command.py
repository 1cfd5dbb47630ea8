"""`kiqbridge doctor`: what is wrong with the Redis that jobs are trusted to, and what to do about it.

Each check only reads, and gives findings. A check that the server refuses to this user ends as
`unknown`, not as a problem.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

import redis

from kiqbridge.config.merge import merge
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store.eviction import (
    NOEVICTION,
    WHAT_TO_DO,
    fetch_policy,
    parse_info,
    what_can_be_lost,
)
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.scripts import from_text
from kiqbridge.store.server_check import (
    CLUSTERED,
    TOO_OLD,
    UNCLUSTER,
    UPGRADE,
    has_hash_tag,
    is_clustered,
    is_too_old,
    server_version,
)
from kiqbridge.wire.keys import TYPES, Keys

SCAN: Final = 1000
"""Queues and ledgers that are looked at, so that a check never takes long."""

SAMPLES: Final = 20
"""Members from which Redis estimates the memory of a key; all of them would block the server."""

MANY_OVER: Final = 10_000
UNREACHABLE: Final = 3

_PROBE: Final = from_text("#!lua flags=no-writes,allow-oom\nreturn 1\n")


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    """The server does not answer that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        check: its name.
        status: how it ended.
        what: what was found.
        why: why that matters; empty where all is well.
        action: what to do about it; empty where all is well.
    """

    check: str
    status: Status
    what: str
    why: str = ""
    action: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How to answer."""
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def run(options: argparse.Namespace) -> int:
    """Examine the server: 0 all is well, 1 something is wrong, 3 it cannot be reached."""
    config = merge(environ=os.environ, flags={})
    pool = RedisPool(config.redis)
    code = 0
    try:
        findings = examine(pool, Keys(config.namespace))
    except RedisUnavailable as error:
        findings, code = [_unreachable(str(pool.probe(error) or error))], UNREACHABLE
    if any(finding.status is Status.PROBLEM for finding in findings):
        code = code or 1
    if options.json:
        answer = {
            "redis": pool.address,
            "ok": code == 0,
            "findings": [asdict(finding) for finding in findings],
        }
        sys.stdout.write(json.dumps(answer) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(findings)))
    return code


def examine(pool: RedisPool, keys: Keys) -> list[Finding]:
    """All findings about a server and what we keep in it.

    Raises:
        RedisUnavailable: it cannot be reached, or refuses us.
    """
    connection = pool.connection()
    try:
        checks: dict[str, Callable[[], Iterable[Finding]]] = {
            "reachable": lambda: [_reachable(connection)],
            "version": lambda: [_version(connection)],
            "cluster": lambda: [_cluster(connection, keys)],
            "eviction": lambda: [_eviction(connection)],
            "scripts": lambda: [_scripts(connection)],
            "tracking": lambda: [_tracking(pool)],
            "types": lambda: _types(connection, keys),
            "memory": lambda: _memory(connection, keys),
        }
        return [finding for name, check in checks.items() for finding in _checked(name, check)]
    finally:
        connection.close()


def _unreachable(text: str) -> Finding:
    what, _, action = text.partition("; ")
    return Finding(
        check="reachable",
        status=Status.PROBLEM,
        what=what,
        why="nothing can be pushed or performed",
        action=action or "wait until the server is done with it, or look at its log",
    )


def _lines(findings: Sequence[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        lines.append(f"{finding.status:<8} {finding.check}: {finding.what}")
        lines += [f"{'':<9}why: {finding.why}"] if finding.why else []
        lines += [f"{'':<9}do:  {finding.action}"] if finding.action else []
    return lines


def _checked(name: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except RedisRefused as error:
        return [
            Finding(
                check=name,
                status=Status.UNKNOWN,
                what=f"the server does not answer: {error}",
                why="what is not known may be wrong",
                action="give this command a user who may read it (docs/security.md)",
            )
        ]


def _reachable(connection: RedisConnection) -> Finding:
    connection.call("PING")
    return Finding(check="reachable", status=Status.OK, what="the server answers")


def _version(connection: RedisConnection) -> Finding:
    info = parse_info(connection.call("INFO", "server"))
    shown = " ".join(server_version(info))
    if not is_too_old(info):
        return Finding(check="version", status=Status.OK, what=shown)
    return Finding(
        check="version",
        status=Status.PROBLEM,
        what=f"{shown} is too old",
        why=TOO_OLD,
        action=UPGRADE,
    )


def _cluster(connection: RedisConnection, keys: Keys) -> Finding:
    if not is_clustered(parse_info(connection.call("INFO", "cluster"))):
        return Finding(check="cluster", status=Status.OK, what="cluster mode is off")
    if has_hash_tag(keys.prefix):
        return Finding(
            check="cluster", status=Status.OK, what="all keys lie in one slot of the cluster"
        )
    return Finding(
        check="cluster",
        status=Status.PROBLEM,
        what="the server is in cluster mode",
        why=CLUSTERED,
        action=UNCLUSTER,
    )


def _eviction(connection: RedisConnection) -> Finding:
    policy = fetch_policy(connection.run)
    if policy is None:
        return Finding(
            check="eviction",
            status=Status.UNKNOWN,
            what="neither INFO memory nor CONFIG GET answers the eviction policy",
            why="with another policy than noeviction a full server forgets what it holds",
            action="allow +info in the ACL of this user, or look at the parameter group",
        )
    if policy == NOEVICTION:
        return Finding(check="eviction", status=Status.OK, what=f"the policy is {policy}")
    return Finding(
        check="eviction",
        status=Status.PROBLEM,
        what=f"the eviction policy is {policy}",
        why=f"when memory is full this server loses {what_can_be_lost(policy)}",
        action=WHAT_TO_DO,
    )


def _scripts(connection: RedisConnection) -> Finding:
    try:
        connection.script(_PROBE, [], [])
    except RedisRefused as error:
        return Finding(
            check="scripts",
            status=Status.PROBLEM,
            what=f"scripts are refused: {error}",
            why="each move of a job is a script",
            action="allow +eval and +evalsha in the ACL of this user, and use no proxy that refuses them",
        )
    return Finding(check="scripts", status=Status.OK, what="scripts run")


def _tracking(pool: RedisPool) -> Finding:
    connection = pool.raw_connection(protocol=3)
    try:
        connection.connect()  # type: ignore[no-untyped-call]
        connection.send_command("CLIENT", "TRACKING", "ON")  # type: ignore[no-untyped-call]
        connection.read_response()
    except (redis.exceptions.RedisError, OSError) as error:
        return Finding(
            check="tracking",
            status=Status.PROBLEM,
            what=f"CLIENT TRACKING is refused: {error}",
            why="an idle worker then looks for jobs ten times a second, and begins them up to 100 ms late",
            action="allow +client|tracking and +hello in the ACL of this user; a proxy must pass RESP3",
        )
    finally:
        connection.disconnect()  # type: ignore[no-untyped-call]
    return Finding(check="tracking", status=Status.OK, what="CLIENT TRACKING is allowed")


def _types(connection: RedisConnection, keys: Keys) -> Iterator[Finding]:
    """Our keys that hold a value of another type."""
    wanted = {getattr(keys, name): kind for name, kind in TYPES.items()}
    kinds = _kinds(connection, list(wanted))
    for name in _members(connection, keys.queues, kinds):
        wanted[keys.queue(name)] = "list"
    for name in _members(connection, keys.ledgers, kinds):
        wanted[keys.ticks(name)] = "zset"
    kinds = _kinds(connection, list(wanted))
    wrong = [
        Finding(
            check="types",
            status=Status.PROBLEM,
            what=f"{key} is a {kind}, not a {wanted[key]}",
            why="whatever needs this key waits",
            action=f"look at it, then RENAME or DEL {key}",
        )
        for key, kind in kinds.items()
        if kind not in ("none", wanted[key])
    ]
    if wrong:
        yield from wrong
    else:
        yield Finding(
            check="types", status=Status.OK, what=f"{len(wanted)} keys hold what they should"
        )


def _kinds(connection: RedisConnection, names: Sequence[str]) -> dict[str, str]:
    replies = connection.run(*(("TYPE", name) for name in names))
    return {name: reply.decode() for name, reply in zip(names, replies, strict=True)}


def _members(connection: RedisConnection, key: str, kinds: Mapping[str, str]) -> list[str]:
    """Names in a set or sorted set, not more than are looked at."""
    if kinds[key] == "set":
        found: list[bytes] = connection.call("SSCAN", key, 0, "COUNT", SCAN)[1]
    elif kinds[key] == "zset":
        found = connection.call("ZRANGE", key, 0, SCAN - 1)
    else:
        found = []
    return [name.decode("utf-8", "surrogateescape") for name in found]


def _memory(connection: RedisConnection, keys: Keys) -> Iterator[Finding]:
    """What guards and ledgers take."""
    names = [keys.guards, keys.guards_until, keys.ledgers]
    kinds = _kinds(connection, names)
    if any(kinds[name] not in ("none", TYPES[attribute]) for attribute, name in _named(keys)):
        return  # reported by the check of types
    count, over, schedules = connection.run(
        ("HLEN", keys.guards),
        ("ZCOUNT", keys.guards_until, "-inf", int(connection.call("TIME")[0])),
        ("ZCARD", keys.ledgers),
    )
    ledgers = [keys.ticks(name) for name in _members(connection, keys.ledgers, kinds)]
    guards = _described(connection, [keys.guards, keys.guards_until])
    if over > MANY_OVER:
        yield Finding(
            check="guards",
            status=Status.PROBLEM,
            what=f"{count:,} guards{guards}, {over:,} of which are over and still there",
            why="no process removes them, so they take memory for nothing",
            action="run a worker of this version: the leader of its pollers forgets them each hour",
        )
    else:
        yield Finding(check="guards", status=Status.OK, what=f"{count:,} guards{guards}")
    yield Finding(
        check="ledgers",
        status=Status.OK,
        what=f"ledgers of {schedules:,} schedules{_described(connection, [keys.ledgers, *ledgers])}",
    )


def _named(keys: Keys) -> list[tuple[str, str]]:
    return [(name, getattr(keys, name)) for name in ("guards", "guards_until", "ledgers")]


def _described(connection: RedisConnection, names: Sequence[str]) -> str:
    """What keys take of memory, estimated by Redis; a hint where it refuses to."""
    try:
        replies = connection.run(*(("MEMORY", "USAGE", name, "SAMPLES", SAMPLES) for name in names))
    except RedisRefused:
        return " (their memory is not known: allow +memory|usage in the ACL of this user)"
    return f" take {sum(reply or 0 for reply in replies) / 1_000_000:,.1f} MB"
