"""Writing jobs when there are several servers: each goes to that of its queue (docs/shards.md)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from kiqbridge.client.job_writer import JobWriter, Placed
from kiqbridge.client.prepare import PreparedJob
from kiqbridge.clock import client_now
from kiqbridge.store.shards import ShardPools
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.routes import former_of

T = TypeVar("T")


class ShardWriter:
    """The writers of all shards; see `Writes`.

    Args:
        pools: the shards.
        writers: name of a shard → its writer, all with one namespace.
    """

    def __init__(self, pools: ShardPools, writers: Mapping[str, JobWriter]) -> None:
        self._pools = pools
        self._writers = dict(writers)
        self._home = self._writers[pools.home]

    @property
    def keys(self) -> Keys:
        """The namespace."""
        return self._home.keys

    @property
    def max_payload_bytes(self) -> int:
        """A longer text is refused; 0 = no limit."""
        return self._home.max_payload_bytes

    @property
    def home(self) -> JobWriter:
        """What writes to the first shard, for what belongs to no queue."""
        return self._home

    def on(self, shard: str) -> JobWriter:
        """What writes to this shard; raises KeyError: there is none of that name."""
        return self._writers[shard]

    def of(self, queue: str) -> JobWriter:
        """See `Writes.of`."""
        return self._writers[self._pools.shard_of(queue, self._home.keys)]

    def split(
        self, jobs: Iterable[T], queue_of: Callable[[T], str]
    ) -> list[tuple[JobWriter, list[T]]]:
        """See `Writes.split`."""
        parts: dict[JobWriter, list[T]] = {}
        for job in jobs:
            parts.setdefault(self.of(queue_of(job)), []).append(job)
        return list(parts.items()) or [(self._home, [])]

    def placed(self, writer: JobWriter, queues: Collection[str]) -> Placed | None:
        """See `Writes.placed`."""
        keys, now = self._home.keys, client_now()
        name = next(each for each, other in self._writers.items() if other is writer)
        args: list[str | bytes] = []
        former: dict[str, set[str]] = {}
        for queue in queues:
            known = self._pools.lies_on(name, queue, keys)
            if known is None:
                return None
            came_from = known.former.get(queue, b"")
            args += [queue, known.routes.get(queue, b""), came_from]
            for shard, until in former_of(came_from).items():
                if until > now and shard in self._writers:
                    former.setdefault(shard, set()).add(queue)
        return Placed(
            keys=[keys.routes, keys.routes_from],
            args=args,
            former=[(self._pools.pool(shard), held) for shard, held in former.items()],
        )

    def look_again(self) -> None:
        """See `Writes.look_again`."""
        self._pools.read_moves(self._home.keys)

    def write(self, jobs: Sequence[PreparedJob]) -> None:
        """Write jobs, those of each shard in one round trip; raises as `JobWriter.write`.

        A shard that is away keeps only its own jobs from being written: its error is raised once those of the
        others are.
        """
        failed: Exception | None = None
        for writer, part in self.split(jobs, lambda job: job.queue):
            try:
                writer.write(part)
            except Exception as error:  # noqa: BLE001 - raised below
                failed = failed or error
        if failed is not None:
            raise failed

    def text(self, job: PreparedJob, now: float) -> bytes:
        """See `JobWriter.text`."""
        return self._home.text(job, now)
