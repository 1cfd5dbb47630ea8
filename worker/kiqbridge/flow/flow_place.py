"""On which of several servers a batch, a chain or a group lies (docs/shards.md): that of its first job's queue.

A script counts its ends, and one script sees one server. So a job whose queue lies on another one is refused
before anything is written. With one server nothing is looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kiqbridge.client.client import Client
from kiqbridge.clock import client_now
from kiqbridge.errors import KiqbridgeError, PayloadError
from kiqbridge.wire.flow_steps import Step


class FlowPlace:
    """Chooses the shard by the first job, and refuses those of other shards.

    Args:
        client: of all shards.
        what: is written, for messages.
        shard: on which the batch lies to which jobs are added; empty = what is written is new. A queue that lay
            there once, and was moved since, fits as well: the batch goes on where it is, and so do its jobs.
    """

    def __init__(self, client: Client, what: str, *, shard: str = "") -> None:
        self._client = client
        self._what = what
        self._shard = shard
        self._is_new = not shard
        self._because = "as it was written there"
        self._fitting: set[str] = set()

    @property
    def client(self) -> Client:
        """Writes it; of several shards the first, if there is no job."""
        return self._client.on(self._shard) if self._shard else self._client

    def take_job(self, payload: Mapping[str, Any]) -> None:
        """One of its jobs.

        Raises:
            PayloadError: its queue lies on another shard, or on none.
        """
        queue = str(payload["queue"])
        if queue in self._fitting or not self._client.shards:
            return
        lies = self._client.shard_of(queue)
        if not self._shard:
            self._shard = lies
            self._because = f"that of queue {queue!r}, of its first job"
        elif lies != self._shard and (self._is_new or not self._lay_here(queue)):
            raise PayloadError(
                f"{self._what}: job {payload['jid']} ({payload['class']}) is for queue {queue!r} on shard {lies}, and "
                f"the others lie on shard {self._shard}, {self._because}: jobs that are counted together lie on one "
                "shard. Choose a queue of that shard, put both queues on one shard (docs/shards.md), or push this "
                "job by itself"
            )
        self._fitting.add(queue)

    def take_steps(self, steps: Sequence[Step]) -> None:
        """All jobs of these steps; raises as `take_job`."""
        if not self._client.shards:
            return
        for step in steps:
            if "job" in step:
                self.take_job(step["job"])
            for member in step.get("group", ()):
                self.take_steps(member)

    def _lay_here(self, queue: str) -> bool:
        held = self._client.holders(queue, client_now())
        return self._shard in held or self._shard == self._client.first_shard_of(queue)


def shard_of_batch(client: Client, bid: str) -> str | None:
    """Name of the shard on which a batch lies; empty = there is one server; None = it lies on none.

    Raises:
        RedisUnavailable: a shard is away, and the batch lies on none of the others.
    """
    if not client.shards:
        return ""
    away: KiqbridgeError | None = None
    for name in client.shards:
        try:
            if client.on(name).pool.call("EXISTS", client.keys.batch(bid)):
                return name
        except KiqbridgeError as error:
            away = away or error
    if away is not None:
        raise away
    return None
