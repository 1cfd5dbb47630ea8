"""Which commands and keys a worker, the enqueue function and an operator need, tried without doing anything.

Redis checks the rights to a command when a transaction queues it. So each command is queued, with keys of the
namespace, and the connection is closed before the transaction runs: nothing is carried out. Unlike ACL DRYRUN this
needs no right of its own, and finds commands that were renamed as well.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal

from redis.connection import AbstractConnection

from kiqbridge.runtime.records import dataclass
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.refusals import is_key, is_unknown
from kiqbridge.store.replies import error_text
from kiqbridge.store.round_trip import pack
from kiqbridge.wire.keys import TYPES, Keys

Role = Literal["worker", "function", "operator"]
Words = tuple[str, ...]
"""A command with arguments."""

_WORKER: Final = """
ping|time|wait 0 0|eval x 0|evalsha x 0|type {dead}|exists {dead}|del {it}|unlink {it}|expire {it} 60|pttl {it}|persist {it}
get {it}|set {it} 1|mget {it}|incr {it}|incrby {it} 1|bitfield {it} get u8 0
hget {it} f|hset {it} f v|hsetnx {it} f v|hdel {it} f|hgetall {it}|hmget {it} f|hincrby {it} f 1
hlen {it}|hexists {it} f|hscan {it} 0
lpush {queue} x|rpush {queue} x|lmove {queue} {queue} right left|lrange {queue} 0 0|lindex {queue} 0
llen {queue}|lrem {queue} 1 x|ltrim {queue} 0 0|lpos {queue} x|rpop {queue}|brpop {queue} 0.01
blpop {queue} 0.01
sadd {it} x|srem {it} x|scard {queues}|sismember {queues} x|smismember {queues} x|smembers {queues}
srandmember {queues}|sscan {queues} 0|scan 0
zadd {ticks} 1 x|zrem {ticks} x|zscore {retry} x|zmscore {retry} x|zcard {retry}|zcount {retry} 0 1|zlexcount {retry} - +
zrange {retry} 0 0|zrangebyscore {retry} 0 1|zremrangebyscore {ticks} 0 1|zremrangebyrank {ticks} 0 0
"""
_FUNCTION: Final = """
ping|eval x 0|evalsha x 0|time|wait 0 0|type {guards}|sadd {queues} x|lpush {queue} x|zadd {schedule} 1 x|hget {states} f
hmget {guards} f|hset {guards} f v|hdel {guards} f|hincrby {attempts} f 1|zrem {until} x
zrangebyscore {until} 0 1|persist {ticks}|zrange {ticks} 0 0
"""
_OPERATOR: Final = """
zscan {retry} 0|zrank {retry} x|zrevrange {retry} 0 0|zrevrank {retry} x|rename {it} {it}|hkeys {it}
"""

NEEDS: Final[Mapping[Role, str]] = {
    "worker": _WORKER,
    "function": _FUNCTION,
    "operator": f"{_WORKER}|{_OPERATOR}",
}
"""Who needs which commands, with arguments by which they can be queued. Those of other rules of the doctor (INFO, MEMORY
USAGE, CLIENT TRACKING, CLIENT CACHING) are not among them. What writes names keys of no queue or set."""

_NAME: Final = "kiqbridge-doctor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What a user lacks.

    Attributes:
        commands: names of commands that it may not run.
        keys: patterns of keys that it may not use.
        unknown: names of commands that the server does not have.
    """

    commands: Sequence[str] = field(default_factory=list)
    keys: Sequence[str] = field(default_factory=list)
    unknown: Sequence[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.commands or self.keys or self.unknown)

    def advice(self, user: str) -> str:
        """What to run on the server, or to change there."""
        whole = [key for key in self.keys if key.endswith((":*", "*")) and key.count("*") == 1]
        keys = min(whole, key=len, default="")
        rules = [f"+{name}" for name in self.commands]
        # Nothing may be added to a pattern for all keys, such as that of the hash of a process.
        rules += [
            f"~{key}"
            for key in self.keys
            if not keys or key == keys or not key.startswith(keys[:-1])
        ]
        parts = [f"allow it: ACL SETUSER {user} {' '.join(rules)}"] if rules else []
        if self.unknown:
            parts.append(
                f"restore {', '.join(self.unknown)} on the server, or in the proxy in front of it (rename-command)"
            )
        return "; ".join(parts)


def needed(role: Role, keys: Keys) -> list[Words]:
    """Commands that a role needs, with arguments; for a worker also one for each kind of key."""
    names = {
        "dead": keys.dead,
        "it": keys.iteration(_NAME),
        "queue": keys.queue(_NAME),
        "queues": keys.queues,
        "retry": keys.retry,
        "schedule": keys.schedule,
        "states": keys.schedule_states,
        "guards": keys.guards,
        "until": keys.guards_until,
        "ticks": keys.ticks(_NAME),
        "attempts": keys.attempts(_NAME),
    }
    lines = re.split(r"[|\n]", NEEDS[role])
    commands = [
        tuple(names[word[1:-1]] if word.startswith("{") else word for word in line.split())
        for line in lines
        if line
    ]
    return (
        commands if role == "function" else [*commands, *(("exists", key) for key in _used(keys))]
    )


def _used(keys: Keys) -> list[str]:
    """One key of each kind that a worker uses."""
    named = (
        *(keys.process, keys.work, keys.signals, keys.stat, keys.metrics, keys.marks, keys.result),
        *(
            keys.batch,
            keys.chain,
            keys.claims,
            keys.recovered,
            keys.suspects,
            keys.ends,
            keys.placed,
        ),
        *(keys.stats_flush, keys.metrics_flush, keys.cron_job),
    )
    return [
        *(getattr(keys, name) for name in TYPES),
        *(make(_NAME) for make in named),
        keys.inflight_list(_NAME, _NAME, 0),
        keys.histogram_7(_NAME, _NAME),
        keys.histogram_8(_NAME, _NAME),
        keys.limit("concurrent", _NAME),
        *keys.wake(_NAME),
    ]


def missing_of(connection: AbstractConnection, commands: Sequence[Words]) -> Missing:
    """What is refused of these; a transaction is begun on this connection, and never run.

    Three round trips, however many they are. A command is sent only once the server has queued one.

    Args:
        connection: of RESP 2; to be closed afterwards.
        commands: with arguments.

    Raises:
        RedisError, OSError: not known.
    """
    found = Missing(commands=[], keys=[], unknown=[])
    for opening in ("multi", "exec", "multi"):
        if _note(found, (opening,), *_answers(connection, [(opening,)])):
            return found  # without a transaction what follows would be carried out
    rest = list(commands)
    first: object = None
    while rest and first != b"QUEUED":
        [first] = _answers(connection, rest[:1])
        if not _note(found, rest.pop(0), first) and first != b"QUEUED":
            return found  # a proxy that knows no transactions: nothing further is sent
    for words, answer in zip(rest, _answers(connection, rest), strict=True):
        _note(found, words, answer)
    return found


def _note(found: Any, words: Words, answer: object) -> bool:
    """Note what was refused; whether the answer is an error."""
    if not isinstance(answer, Exception):
        return False
    text = error_text(answer)
    if is_unknown(text):
        kept, name = found.unknown, words[0]
    elif not isinstance(answer, redis.exceptions.NoPermissionError):
        return True
    elif is_key(text):
        kept, name = found.keys, words[1].replace(_NAME, "*")
    else:
        kept, name = found.commands, words[0]
    if name not in kept:
        kept.append(name)
    return True


def _answers(connection: AbstractConnection, commands: Iterable[Words]) -> list[object]:
    sent = list(commands)
    if not sent:
        return []
    connection.send_packed_command([pack(sent)])  # type: ignore[no-untyped-call]
    return [_answer(connection) for _ in sent]


def _answer(connection: AbstractConnection) -> object:
    try:
        return connection.read_response()
    except redis.exceptions.ResponseError as error:
        return error
