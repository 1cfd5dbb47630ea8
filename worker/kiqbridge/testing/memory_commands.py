"""The commands that `Memory` knows: those of the client half, and of `kiqbridge.api` the reading ones.

Each is a function (memory, key, further parts) → the reply, as hiredis gives it for protocol 2.
"""

from collections import deque
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from kiqbridge.errors import KiqbridgeError
from kiqbridge.testing.memory_values import Hash, List, Values, Zset
from kiqbridge.wire.names import text_of

Command = Callable[[Values, str, Sequence[bytes]], Any]


class NotInMemory(KiqbridgeError):  # noqa: N818 - as the other names of errors
    """The fake has no such command or script; a test that needs it uses the fixture `kiqbridge_redis`."""


def _sadd(memory: Values, key: str, members: Sequence[bytes]) -> int:
    found: set[bytes] = memory.edit(key, set)
    before = len(found)
    found.update(members)
    return len(found) - before


def _srem(memory: Values, key: str, members: Sequence[bytes]) -> int:
    found: set[bytes] = memory.get(key, set)
    before = len(found)
    found.difference_update(members)
    return before - len(found)


def _push(memory: Values, key: str, texts: Sequence[bytes], *, left: bool) -> int:
    return max(memory.append(key, text, left=left) for text in texts)


def _lrange(memory: Values, key: str, parts: Sequence[bytes]) -> list[bytes]:
    entries: List = memory.get(key, deque)
    return _slice([each.text for each in entries], int(parts[0]), int(parts[1]))


def _pop(memory: Values, key: str, *, left: bool) -> bytes | None:
    entries: List = memory.get(key, deque)
    if not entries:
        return None
    return (entries.popleft() if left else entries.pop()).text


def _zadd(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    flags, rest = set(), list(parts)
    while rest and rest[0].upper() in (b"NX", b"XX", b"GT", b"LT", b"CH"):
        flags.add(rest.pop(0).upper())
    members: Zset = memory.edit(key, dict)
    before, changed = len(members), 0
    for number, member in zip(rest[::2], rest[1::2], strict=True):
        score, known = float(number), members.get(member)
        if (
            (known is not None and b"NX" in flags)
            or (known is None and b"XX" in flags)
            or (known is not None and b"GT" in flags and score <= known)
            or (known is not None and b"LT" in flags and score >= known)
        ):
            continue
        changed += known != score
        members[member] = score
    return changed if b"CH" in flags else len(members) - before


def _zrem(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    members: Zset = memory.get(key, dict)
    return sum(members.pop(member, None) is not None for member in parts)


def _zrange(memory: Values, key: str, parts: Sequence[bytes]) -> list[bytes]:
    options = {part.upper() for part in parts[2:]}
    if b"BYSCORE" in options:
        return _zrangebyscore(memory, key, parts)
    if options - {b"WITHSCORES", b"REV"}:
        raise NotInMemory(
            "ZRANGE: the fake of kiqbridge.testing takes no BYLEX, and no LIMIT without BYSCORE"
        )
    pairs = memory.sorted_set(key)
    if b"REV" in options:
        pairs.reverse()
    return _replied(
        _slice(pairs, int(parts[0]), int(parts[1])), with_scores=b"WITHSCORES" in options
    )


def _zrangebyscore(memory: Values, key: str, parts: Sequence[bytes]) -> list[bytes]:
    options = [part.upper() for part in parts[2:]]
    lowest, highest = reversed(parts[:2]) if b"REV" in options else parts[:2]
    pairs = [
        pair
        for pair in memory.sorted_set(key)
        if _is_above(pair[0], lowest) and _is_below(pair[0], highest)
    ]
    if b"REV" in options:
        pairs.reverse()
    if b"LIMIT" in options:
        place = options.index(b"LIMIT")
        offset, count = int(options[place + 1]), int(options[place + 2])
        pairs = pairs[offset:] if count < 0 else pairs[offset : offset + count]
    return _replied(pairs, with_scores=b"WITHSCORES" in options)


def _zcount(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    return len(_zrangebyscore(memory, key, parts))


def _zremrangebyscore(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    found = _zrangebyscore(memory, key, parts)
    return _zrem(memory, key, found)


def _zremrangebyrank(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    found = _slice(memory.sorted_set(key), int(parts[0]), int(parts[1]))
    return _zrem(memory, key, [member for _, member in found])


def _lindex(memory: Values, key: str, parts: Sequence[bytes]) -> bytes | None:
    entries: List = memory.get(key, deque)
    index = int(parts[0])
    return entries[index].text if -len(entries) <= index < len(entries) else None


def _ltrim(memory: Values, key: str, parts: Sequence[bytes]) -> bytes:
    entries: List = memory.get(key, deque)
    kept = _slice(list(entries), int(parts[0]), int(parts[1]))
    entries.clear()
    entries.extend(kept)
    return b"OK"


def _type(memory: Values, key: str, _parts: Sequence[bytes]) -> bytes:
    if not _exists(memory, key):
        return b"none"
    value = memory.values[key]
    if isinstance(value, dict):
        return b"zset" if all(isinstance(each, float) for each in value.values()) else b"hash"
    return {set: b"set", deque: b"list"}.get(type(value), b"string")


def _persist(memory: Values, key: str, _parts: Sequence[bytes]) -> int:
    had_end = _exists(memory, key) and memory.ttl_s(key) is not None
    memory.expire(key, None)
    return int(had_end)


def _zscore(memory: Values, key: str, parts: Sequence[bytes]) -> bytes | None:
    score = memory.get(key, dict).get(parts[0])
    return None if score is None else _number(score)


def _zrank(memory: Values, key: str, parts: Sequence[bytes]) -> int | None:
    members = [member for _, member in memory.sorted_set(key)]
    return members.index(parts[0]) if parts[0] in members else None


def _hset(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    fields: Hash = memory.edit(key, dict)
    before = len(fields)
    fields.update(zip(parts[::2], parts[1::2], strict=True))
    return len(fields) - before


def _hsetnx(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    fields: Hash = memory.edit(key, dict)
    if parts[0] in fields:
        return 0
    fields[parts[0]] = parts[1]
    return 1


def _hgetall(memory: Values, key: str, _parts: Sequence[bytes]) -> list[bytes]:
    fields: Hash = memory.get(key, dict)
    return [part for pair in fields.items() for part in pair]


def _hscan(memory: Values, key: str, parts: Sequence[bytes]) -> list[Any]:
    """All fields in one page."""
    fields: Hash = memory.get(key, dict)
    options = dict(zip(parts[1::2], parts[2::2], strict=True))
    wanted = text_of(options.get(b"MATCH", b"*"))
    pairs = [pair for pair in fields.items() if fnmatchcase(text_of(pair[0]), wanted)]
    return [b"0", [part for pair in pairs for part in pair]]


def _hdel(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    fields: Hash = memory.get(key, dict)
    return sum(fields.pop(part, None) is not None for part in parts)


def _hincrby(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    fields: Hash = memory.edit(key, dict)
    value = int(fields.get(parts[0], b"0")) + int(parts[1])
    fields[parts[0]] = b"%d" % value
    return value


def _get(memory: Values, key: str, _parts: Sequence[bytes]) -> bytes | None:
    return memory.get(key, bytes) if _exists(memory, key) else None


def _set(memory: Values, key: str, parts: Sequence[bytes]) -> bytes | None:
    value, *options = parts
    flags = [option.upper() for option in options]
    exists = _exists(memory, key)
    known = memory.get(key, bytes) if exists and b"GET" in flags else None
    if (b"NX" in flags and exists) or (b"XX" in flags and not exists):
        return known
    memory.values[key] = value
    if b"KEEPTTL" not in flags:
        memory.expire(key, None)
    for name, unit in ((b"EX", 1), (b"PX", 1000)):
        if name in flags:
            memory.expire(key, int(flags[flags.index(name) + 1]) / unit)
    return known if b"GET" in flags else b"OK"


def _incr(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    value = int(memory.get(key, bytes) or b"0") + (int(parts[0]) if parts else 1)
    memory.values[key] = b"%d" % value
    return value


def _del(memory: Values, key: str, parts: Sequence[bytes]) -> int:
    return sum(memory.values.pop(each, None) is not None for each in (key, *map(text_of, parts)))


def _expire(memory: Values, key: str, parts: Sequence[bytes], *, unit: int = 1) -> int:
    options = {part.upper() for part in parts[1:]}
    if not _exists(memory, key) or (b"NX" in options and memory.ttl_s(key) is not None):
        return 0
    memory.expire(key, int(parts[0]) / unit)
    return 1


def _ttl(memory: Values, key: str, _parts: Sequence[bytes], *, unit: int = 1) -> int:
    if not _exists(memory, key):
        return -2
    left = memory.ttl_s(key)
    return -1 if left is None else round(left * unit)


def _time(memory: Values, _key: str, _parts: Sequence[bytes]) -> list[bytes]:
    now = memory.now()
    return [b"%d" % int(now), b"%d" % int(now % 1 * 1_000_000)]


def _exists(memory: Values, key: str) -> bool:
    memory.get(key, object)  # one that is over is forgotten
    return key in memory.values


def _slice(found: list[Any], first: int, last: int) -> list[Any]:
    """As Redis counts: both ends included, negative ones from the end."""
    start = max(first + len(found), 0) if first < 0 else first
    end = last + len(found) if last < 0 else last
    return found[start : max(end + 1, 0)]


def _replied(pairs: Sequence[tuple[float, bytes]], *, with_scores: bool) -> list[bytes]:
    if not with_scores:
        return [member for _, member in pairs]
    return [part for score, member in pairs for part in (member, _number(score))]


def _number(score: float) -> bytes:
    return repr(int(score) if score == int(score) else score).encode()


def _is_above(score: float, bound: bytes) -> bool:
    return score > float(bound[1:]) if bound.startswith(b"(") else score >= float(bound)


def _is_below(score: float, bound: bytes) -> bool:
    return score < float(bound[1:]) if bound.startswith(b"(") else score <= float(bound)


COMMANDS: Final[dict[str, Command]] = {
    "PING": lambda _memory, _key, _parts: b"PONG",
    "TIME": _time,
    "DEL": _del,
    "UNLINK": _del,
    "EXISTS": lambda memory, key, parts: sum(
        _exists(memory, each) for each in (key, *map(text_of, parts))
    ),
    "TYPE": _type,
    "PERSIST": _persist,
    "EXPIRE": _expire,
    "PEXPIRE": lambda memory, key, parts: _expire(memory, key, parts, unit=1000),
    "TTL": _ttl,
    "PTTL": lambda memory, key, parts: _ttl(memory, key, parts, unit=1000),
    "GET": _get,
    "SET": _set,
    "INCR": _incr,
    "INCRBY": _incr,
    "SADD": _sadd,
    "SREM": _srem,
    "SCARD": lambda memory, key, _parts: len(memory.get(key, set)),
    "SMEMBERS": lambda memory, key, _parts: sorted(memory.get(key, set)),
    "SISMEMBER": lambda memory, key, parts: int(parts[0] in memory.get(key, set)),
    "LPUSH": lambda memory, key, parts: _push(memory, key, parts, left=True),
    "RPUSH": lambda memory, key, parts: _push(memory, key, parts, left=False),
    "LPOP": lambda memory, key, _parts: _pop(memory, key, left=True),
    "RPOP": lambda memory, key, _parts: _pop(memory, key, left=False),
    "LLEN": lambda memory, key, _parts: len(memory.get(key, deque)),
    "LRANGE": _lrange,
    "LINDEX": _lindex,
    "LTRIM": _ltrim,
    "ZADD": _zadd,
    "ZREM": _zrem,
    "ZCARD": lambda memory, key, _parts: len(memory.get(key, dict)),
    "ZCOUNT": _zcount,
    "ZREMRANGEBYSCORE": _zremrangebyscore,
    "ZREMRANGEBYRANK": _zremrangebyrank,
    "ZSCORE": _zscore,
    "ZRANK": _zrank,
    "ZRANGE": _zrange,
    "ZRANGEBYSCORE": _zrangebyscore,
    "HSET": _hset,
    "HSETNX": _hsetnx,
    "HGET": lambda memory, key, parts: memory.get(key, dict).get(parts[0]),
    "HMGET": lambda memory, key, parts: [memory.get(key, dict).get(part) for part in parts],
    "HGETALL": _hgetall,
    "HKEYS": lambda memory, key, _parts: list(memory.get(key, dict)),
    "HEXISTS": lambda memory, key, parts: int(parts[0] in memory.get(key, dict)),
    "HSCAN": _hscan,
    "HLEN": lambda memory, key, _parts: len(memory.get(key, dict)),
    "HDEL": _hdel,
    "HINCRBY": _hincrby,
}
