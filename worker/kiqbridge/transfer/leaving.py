"""What there is of a queue on one shard: what waits there, and what runs."""

from dataclasses import dataclass

from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import pairs_of
from kiqbridge.transfer.form import Place
from kiqbridge.transfer.moving import SETS, Moved, Mover, jobs_of_queue, pending_batch
from kiqbridge.transfer.reading import read_place
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """How many jobs of a queue there are on a shard.

    Attributes:
        queue: wait in the queue.
        schedule, retry: wait for their time there.
        on_the_way: are in a batch that has left the queue, and may not have arrived.
    """

    queue: int
    schedule: int
    retry: int
    on_the_way: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.queue + self.schedule + self.retry + self.on_the_way


def count_present(pool: RedisPool, keys: Keys, queue: str) -> Present:
    """Count them; `schedule` and `retry` are read as a whole, in pages.

    Raises:
        RedisUnavailable: nothing was counted.
    """
    in_sets = {
        name: sum(
            len(jobs_of_queue(queue, members))
            for members, _ in read_place(pool, keys, Place(kind="set", name=name))
        )
        for name in SETS
    }
    batch = pending_batch(pool, keys, queue)
    return Present(
        queue=int(pool.call("LLEN", keys.queue(queue))),
        on_the_way=len(batch.texts) if batch is not None else 0,
        **in_sets,
    )


def count_held(pool: RedisPool, keys: Keys, queue: str) -> int:
    """How many jobs of a queue workers have claimed here, suspects that shall run alone included.

    Raises:
        RedisUnavailable: nothing was counted.
    """
    held = int(pool.call("LLEN", keys.suspects(queue)))
    for incarnation in map(text_of, pool.call("SMEMBERS", keys.inflight)):
        claims = pairs_of(pool.call("HGETALL", keys.claims(incarnation)))
        names = (queue, keys.queue(queue))
        tids = [
            text_of(tid)
            for tid, claim in claims.items()
            if text_of(claim).partition(" ")[2] in names
        ]
        lists = [keys.inflight_list(incarnation, tid, number) for tid in tids for number in (0, 1)]
        held += sum(pool.run(*(("LLEN", each) for each in lists))) if lists else 0
    return held


def move_sets(mover: Mover, pool: RedisPool, keys: Keys, queue: str) -> Moved:
    """Move what waits in `schedule` and `retry`; read in pages, while others write there.

    Raises:
        KiqbridgeError: as `Mover.move_queue`.
    """
    moved = Moved()
    for name in SETS:
        for members, _ in read_place(pool, keys, Place(kind="set", name=name)):
            several = mover.move_members(name, jobs_of_queue(queue, members))
            moved.add(several)
            moved.stayed += several.stayed
    return moved
