"""The rule about what a user may do, tried without doing it.

Redis checks the rights to a command when a transaction queues it. So each command is queued, with keys
of the namespace, and the connection is closed before the transaction runs: nothing is carried out.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal

import redis
from redis.connection import AbstractConnection

from kiqbridge.operate.doctor.finding import Finding, Rule
from kiqbridge.operate.doctor.system import Checks, System
from kiqbridge.wire.keys import Keys

Role = Literal["worker", "function", "operator"]
MOST_NAMED: Final = 12

_WORKER: Final = """
time|wait 0 0|type {dead}|exists {dead}|del {it}|unlink {it}|expire {it} 60|pttl {it}|persist {it}
get {it}|set {it} 1|mget {it}|incr {it}|incrby {it} 1|bitfield {it} get u8 0
hget {it} f|hset {it} f v|hsetnx {it} f v|hdel {it} f|hgetall {it}|hmget {it} f|hincrby {it} f 1
hlen {it}|hexists {it} f|hscan {it} 0
lpush {queue} x|rpush {queue} x|lmove {queue} {queue} right left|lrange {queue} 0 0|lindex {queue} 0
llen {queue}|lrem {queue} 1 x|ltrim {queue} 0 0|lpos {queue} x|rpop {queue}|brpop {queue} 0.01
blpop {queue} 0.01
sadd {it} x|srem {it} x|scard {queues}|sismember {queues} x|smismember {queues} x|smembers {queues}
srandmember {queues}|sscan {queues} 0|scan 0
zadd {ticks} 1 x|zrem {ticks} x|zscore {retry} x|zmscore {retry} x|zcard {retry}|zcount {retry} 0 1
zrange {retry} 0 0|zrangebyscore {retry} 0 1|zremrangebyscore {ticks} 0 1|zremrangebyrank {ticks} 0 0
"""
_FUNCTION: Final = """
time|wait 0 0|type {guards}|sadd {queues} x|lpush {queue} x|zadd {schedule} 1 x|hget {states} f
hmget {guards} f|hset {guards} f v|hdel {guards} f|hincrby {attempts} f 1|zrem {until} x
zrangebyscore {until} 0 1|persist {ticks}|zrange {ticks} 0 0
"""
_OPERATOR: Final = (
    "zscan {retry} 0|zrank {retry} x|zrevrange {retry} 0 0|zrevrank {retry} x|rename {it} {it}"
)

NEEDS: Final[Mapping[Role, str]] = {
    "worker": _WORKER,
    "function": _FUNCTION,
    "operator": f"{_WORKER}|{_OPERATOR}",
}
"""Who needs which commands, with arguments by which they can be queued. Those of other rules (PING, INFO,
MEMORY USAGE, EVALSHA, CLIENT TRACKING, CLIENT CACHING) are not among them. What writes names keys of no queue or set."""

_rule: Final = partial(Rule, area="redis")

RIGHTS: Final = _rule(
    id="rights",
    reports="commands and keys that the ACL of this user refuses and a worker (or who `--needs` names) needs",
    why="what needs them fails when it gets there, such as at the first retry",
    action="allow them in the ACL of this user (docs/security.md)",
)


def check_rights(system: System) -> Iterator[Finding]:
    """All commands of the roles that are asked for, queued and not run."""
    commands = dict.fromkeys(words for role in system.needs for words in needed(role, system.keys))
    connection = system.pool.raw_connection(protocol=2)
    try:
        connection.connect()  # type: ignore[no-untyped-call]
        refused, keys = _tried(connection, list(commands))
    finally:
        connection.disconnect()  # type: ignore[no-untyped-call]
    who = " and ".join(system.needs)
    if refused:
        more = f" and {len(refused) - MOST_NAMED} more" if len(refused) > MOST_NAMED else ""
        yield RIGHTS.problem(
            f"this user may not run {', '.join(refused[:MOST_NAMED])}{more}, needed for: {who}",
            action=f"allow them: ACL SETUSER {system.pool.user} {' '.join(f'+{name}' for name in refused)} "
            "(docs/security.md)",
        )
    elif keys:
        yield RIGHTS.problem(
            f"this user may not use {', '.join(keys[:MOST_NAMED])}, needed for: {who}",
            action=f"allow the keys of the namespace: ACL SETUSER {system.pool.user} ~{system.keys.prefix}* "
            "(docs/security.md)",
        )
    else:
        yield RIGHTS.ok(f"this user may run the {len(commands)} commands needed for: {who}")


def needed(role: Role, keys: Keys) -> list[tuple[str, ...]]:
    """Commands that a role needs, with arguments."""
    names = {
        "dead": keys.dead,
        "it": keys.iteration("kiqbridge-doctor"),
        "queue": keys.queue("kiqbridge-doctor"),
        "queues": keys.queues,
        "retry": keys.retry,
        "schedule": keys.schedule,
        "states": keys.schedule_states,
        "guards": keys.guards,
        "until": keys.guards_until,
        "ticks": keys.ticks("kiqbridge-doctor"),
        "attempts": keys.attempts("kiqbridge-doctor"),
    }
    lines = re.split(r"[|\n]", NEEDS[role])
    return [
        tuple(names[word[1:-1]] if word.startswith("{") else word for word in line.split())
        for line in lines
        if line
    ]


def _tried(
    connection: AbstractConnection, commands: Sequence[tuple[str, ...]]
) -> tuple[list[str], list[str]]:
    """Commands and keys that are refused of these; a transaction is begun, and never run."""
    refused: list[str] = []
    keys: list[str] = []
    for opening in ("MULTI", "EXEC", "MULTI"):
        answer = _answer(connection, opening)
        if isinstance(answer, redis.exceptions.NoPermissionError):
            refused.append(opening.lower())
        if isinstance(answer, Exception):
            return refused, keys  # without a transaction what follows would be carried out
    for words in commands:
        answer = _answer(connection, *words)
        if isinstance(answer, redis.exceptions.NoPermissionError):
            if "key" in str(answer) and "command" not in str(answer):
                keys.append(f"{words[0].upper()} {words[1]}")
            else:
                refused.append(words[0])
        elif not isinstance(answer, Exception) and answer != b"QUEUED":
            break  # a proxy that knows no transactions: nothing further is sent
    return refused, keys


def _answer(connection: AbstractConnection, *words: str) -> object:
    connection.send_command(*words)  # type: ignore[no-untyped-call]
    try:
        return connection.read_response()
    except redis.exceptions.ResponseError as error:
        return error


CHECKS: Final[Checks] = (((RIGHTS,), check_rights),)
"""Rules, and the function that applies them."""
