"""Where a queue lies from now on: the entries of a move on both shards (wire/routes.py).

1. On the target: which shards held the queue before, so that pushes that must not be doubled ask them.
2. On the source: the route, with a higher number than all before. From here on pushes go to the target.
3. On the target, if its globs match the queue: a route that led away from it is removed.

A kill after any of them leaves a state in which clients agree where the queue lies.
"""

import time
from typing import Final

from kiqbridge.errors import PayloadError, RedisUnavailable
from kiqbridge.store import scripts
from kiqbridge.store.shards import ShardPools
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.routes import LOOK_BACK_S, Route, former_of, text_of_former

_TURNS: Final = 5
_ROUTE: Final = scripts.load("move_route")


def reroute(queue: str, keys: Keys, pools: ShardPools, to: str) -> str | None:
    """Let clients push to another shard, within `REREAD_S` seconds; the shard that held the queue, None if this one does.

    Raises:
        PayloadError: there is no shard of that name, or the queue lies on none.
        RedisUnavailable: a shard is away; repeat it.
    """
    if to not in pools.names:
        raise PayloadError(
            f"shard: {to!r:.100} is not one of the shards ({', '.join(pools.names)})"
        )
    for _ in range(_TURNS):
        source, entry = where_it_lies(queue, keys, pools)
        if source == to:
            _forget_way_back(queue, keys, pools, to)
            return None
        number = _next_number(queue, keys, pools)
        _note_former(queue, keys, pools, source, to)
        route = Route(to, number).to_text()
        if pools.pool(source).script(_ROUTE, [keys.routes], [queue, entry, route]):
            _forget_way_back(queue, keys, pools, to)
            pools.read_moves(keys)
            return source
    raise RedisUnavailable(f"queue {queue}: others move it at this moment; repeat the command")


def where_it_lies(queue: str, keys: Keys, pools: ShardPools) -> tuple[str, bytes]:
    """The shard of a queue, as all shards have it now, and the route that is noted there.

    Raises:
        PayloadError: on none.
        RedisUnavailable: a shard that decides it is away.
    """
    name, entry, last = pools.routes.shard_of(queue), b"", 0
    while True:
        entry = pools.pool(name).call("HGET", keys.routes, queue) or b""
        route = Route.from_text(entry) if entry else None
        if route is None or route.number <= last or route.shard not in pools.names:
            return name, entry
        name, last = route


def moved_at(queue: str, keys: Keys, pools: ShardPools, shard: str) -> float:
    """When a queue was moved to this shard last, epoch seconds; 0 if it was not."""
    former = former_of(pools.pool(shard).call("HGET", keys.routes_from, queue) or b"")
    return max(former.values(), default=LOOK_BACK_S) - LOOK_BACK_S


def _next_number(queue: str, keys: Keys, pools: ShardPools) -> int:
    """Higher than those of all routes, by the clock as well: a shard that is away may have one."""
    numbers = [int(time.time() * 1000)]
    for name in pools.names:
        try:
            entry = pools.pool(name).call("HGET", keys.routes, queue)
        except RedisUnavailable:
            continue
        numbers.append(Route.from_text(entry).number + 1 if entry else 0)
    return max(numbers)


def _note_former(queue: str, keys: Keys, pools: ShardPools, source: str, to: str) -> None:
    now = int(time.time())
    former: dict[str, int] = {}
    for name in (source, to):
        former |= former_of(pools.pool(name).call("HGET", keys.routes_from, queue) or b"")
    former = {name: until for name, until in former.items() if until > now and name != to}
    former[source] = now + LOOK_BACK_S
    pools.pool(to).call("HSET", keys.routes_from, queue, text_of_former(former))


def _forget_way_back(queue: str, keys: Keys, pools: ShardPools, to: str) -> None:
    """Where the globs point no route is needed; one that leads away is over."""
    if pools.routes.shard_of(queue) != to:
        return
    entry = pools.pool(to).call("HGET", keys.routes, queue)
    if entry and where_it_lies(queue, keys, pools)[0] == to:
        pools.pool(to).script(_ROUTE, [keys.routes], [queue, entry, ""])
