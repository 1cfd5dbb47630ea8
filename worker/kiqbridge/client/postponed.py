"""Jobs that are checked now and pushed later, such as after a transaction has committed.

`DeferringClient.push` does all of a push but the writing: the item is normalized, client middleware runs,
the payload is checked and gets its jid. What may be written then is a `Postponed`, which is handed to
whoever knows when.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kiqbridge.client.client import Client
from kiqbridge.client.collecting import collector_of
from kiqbridge.client.prepare import PreparedJob, prepare
from kiqbridge.clock import client_now
from kiqbridge.errors import PayloadError
from kiqbridge.wire import json_text
from kiqbridge.wire.bulk import parse_bulk


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed:
    """Jobs of one call that can be pushed.

    Attributes:
        client: through which.
        jobs: at least one.
    """

    client: "DeferringClient"
    jobs: Sequence[PreparedJob]

    def push(self) -> None:
        """Push them.

        Raises:
            KiqbridgeError: as `DeferringClient.write`.
        """
        self.client.write(self.jobs)


class DeferringClient(Client):
    """A client whose pushes are postponed; for the rest it is the client that it stands for.

    Args:
        client: the one that it stands for, whose middleware, connections and settings it uses.
        defer: gets what is to be pushed; called once for each `push` and each `push_bulk`.
    """

    def __init__(self, client: Client, defer: Callable[[Postponed], object]) -> None:
        vars(self).update(vars(client))  # its connections, too: nothing is opened here
        self.stands_for = client
        self._defer = defer

    def push(self, item: Mapping[str, Any]) -> str | None:
        """As `Client.push`, but that only `PayloadError` can be raised: nothing is written yet."""
        job = self._prepare(item, client_now(), bulk=False)
        if job is None:
            return None
        self._defer(Postponed(client=self, jobs=[job]))
        return job.jid

    def push_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        """As `Client.push_bulk`, with the difference of `push`; refused as a whole."""
        now = client_now()
        bulk = parse_bulk(item, now, random.random)
        prepared = [
            self._prepare(bulk.item(index), now, bulk=True)
            for index in range(len(bulk.argument_lists))
        ]
        jobs = [job for job in prepared if job is not None]
        if jobs:
            self._defer(Postponed(client=self, jobs=jobs))
        return [job.jid if job else None for job in prepared]

    def write(self, jobs: Sequence[PreparedJob]) -> None:
        """Push prepared jobs: plain ones in one round trip, then each that has a rule (docs/flow.md).

        Raises:
            RedisUnavailable, RedisRefused, PushOutcomeUnknown, PushNotReplicated, NotUnique: as `Client.push`.
        """
        self._writer.write([job for job in jobs if job.rule is None])
        for job in jobs:
            if job.rule is not None:
                from kiqbridge.client.ruled_push import push_ruled  # noqa: PLC0415 - few jobs have one

                push_ruled([job], self._writer, now=client_now())

    def _prepare(self, item: Mapping[str, Any], now: float, *, bulk: bool) -> PreparedJob | None:
        # A batch without a client of its own takes those of the default one, which this is now.
        if collector_of(self.stands_for) or collector_of(self):
            raise PayloadError(
                "job: one that waits for a commit cannot belong to the batch of this block, which is written before; "
                "make the batch after the commit, or push the job without waiting"
            )
        job = prepare(
            item, now, self.middleware, self._fleet_profile.current, bulk=bulk, by_rule=True
        )
        if job is not None:
            # A copy: what the caller changes from now on is not pushed, and what has no text, or too
            # long a one, is refused here.
            job.payload = json_text.loads(self._writer.text(job, now))
        return job
