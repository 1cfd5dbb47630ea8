"""The jobs of a test on a real server, performed on the thread of the test.

Each goes the whole way: a claim into an in-flight list under a lease, perform, the script that settles it, the
acknowledgement. It is what a worker does, one job after the other.
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kiqbridge.client.client import Client
from kiqbridge.client.default_client import configure, own_default_client
from kiqbridge.client.prepare import prepare_moved
from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import Claimer
from kiqbridge.engine.inflight.lease import LeaseKeeper, LeaseTimes
from kiqbridge.engine.settle.ending import stopped_ending
from kiqbridge.engine.settle.settling import Settler
from kiqbridge.errors import ConfigError
from kiqbridge.store.due_jobs import Buried, bury, promote, read_due
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.testing.fake_jobs import MOST_JOBS
from kiqbridge.testing.modes import drained
from kiqbridge.testing.performing import EndlessJobs, JobPerformer, apply_ends
from kiqbridge.testing.recorded import PerformedJob, raise_error_of, read_job
from kiqbridge.wire import json_text
from kiqbridge.wire.names import text_of

RECOVER_AFTER_S: Final = 30.0
"""A worker's default of `recover_after_s`."""


class RealJobs:
    """The value of the fixture `kiqbridge_redis`.

    Args:
        client: of the server.
        url: its address.

    Attributes:
        url: address of the server, which is empty when the test begins.
        client: the default client while the test runs.
        performed: each execution so far, in order.
    """

    def __init__(self, client: Client, url: str) -> None:
        self.url = url
        self.client = client
        self.performed: list[PerformedJob] = []
        self._performer = JobPerformer(time.time)
        self._chunk: Chunk | None = None
        self._settler = Settler(client.keys)

    def __repr__(self) -> str:
        return f"<RealJobs {self.client}, {len(self.performed)} performed>"

    def drain(
        self,
        *,
        queue: str | None = None,
        job: object = None,
        limit: int | None = None,
        raise_errors: bool = True,
    ) -> int:
        """Claim, perform and settle jobs until none is due: queue by queue, in the order of their names.

        Args:
            queue: only jobs in this one.
            job: not here, where jobs are claimed by their queue.
            limit: at most so many.
            raise_errors: raise the error of the first job that fails, after it was settled, with its jid.

        Returns:
            How many were performed.

        Raises:
            ConfigError: `job` was given.
            EndlessJobs: 10,000, without a limit.
            BaseException: what a job raised, or a resource of `server.lifespan` while it was opened.
        """
        if job is not None:
            raise ConfigError(
                "drain: on a server jobs are claimed by their queue; give queue=…, or use the fixture kiqbridge_fake"
            )
        self._move_due()
        apply_ends(self.client)
        count = 0
        with self._claimer() as claimer:
            while limit is None or count < limit:
                if limit is None and count >= MOST_JOBS:
                    raise EndlessJobs(
                        f"{count:,} jobs were performed: do jobs enqueue each other without end? "
                        "drain(limit=…) sets the number"
                    )
                self._chunk = claimer.claim(self._queues(queue), 1)
                if self._chunk is None:
                    break
                count += 1
                self._perform(claimer.connection, self._chunk, raises=raise_errors)
        return count

    def close(self) -> None:
        """Close the resources that jobs opened, and the connections."""
        self._performer.close()
        self.client.pool.close_all()

    def _perform(self, connection: RedisConnection, chunk: Chunk, *, raises: bool) -> None:
        text = chunk.take()
        assert text is not None  # noqa: S101 - it was claimed, and no other thread has the chunk
        job = read_job(text, chunk.queue)
        ran = self._performer.perform(
            self._performer.client(self.client.keys, self.client.pool), job
        )
        settlement = ran.settlement
        if settlement is None or settlement.leaves_with_chunk:
            chunk.finish()
        else:
            self._settler.write(connection, chunk, text, settlement)
            chunk.settled()
        self._chunk = None
        if settlement is not None and settlement.effects:
            apply_ends(self.client)
        if settlement is not None and settlement.notify is not None:
            settlement.notify()
        performed = ran.record(job)
        self.performed.append(performed)
        raise_error_of(performed, raises=raises)

    @contextmanager
    def _claimer(self) -> Iterator[Claimer]:
        """Claims under a lease of its own; at the end all is acknowledged, and the lease is given up."""
        pool, keys = self.client.pool, self.client.keys
        keeper = LeaseKeeper(
            identity=f"testing:{os.getpid()}:{secrets.token_hex(6)}",
            keys=keys,
            connect=pool.connection,
            times=LeaseTimes(RECOVER_AFTER_S),
        )
        keeper.start()
        connection = pool.connection()
        try:
            claimer = Claimer("testing", keeper, connection, keys)
            try:
                yield claimer
            finally:
                if self._chunk is None:  # else it goes back with the lease, after an error of ours
                    claimer.claim((), 0)
        finally:
            keeper.stop()
            connection.close()

    def _queues(self, queue: str | None) -> list[str]:
        if queue is not None:
            return [queue]
        return sorted(map(text_of, self.client.pool.call("SMEMBERS", self.client.keys.queues)))

    def _move_due(self) -> None:
        """Move scheduled jobs and retries that are due to their queues, as the poller does."""
        pool, keys, now = self.client.pool, self.client.keys, time.time()
        client = self._performer.client(keys, pool)
        connection = pool.connection()
        try:
            for source in (keys.retry, keys.schedule):
                for text in read_due(connection, source, now):
                    moved = prepare_moved(
                        json_text.loads(text), now, client.middleware, client.wire_profile, text
                    )
                    if moved is None:
                        left = Buried(text, b"", stopped_ending(keys, text, now))
                        bury(connection, keys, source, [left], now=now)
                    else:
                        queue, pushed = moved
                        jobs = {queue: ([text], [pushed])}
                        promote(connection, keys, source, jobs, now=now)
        finally:
            connection.close()


@contextmanager
def real_jobs(url: str) -> Iterator[RealJobs]:
    """Within, declared jobs push to this server, and `drain` performs its jobs.

    The default client is as before afterwards. It has the middleware of all default clients, too.
    """
    with own_default_client():
        jobs = RealJobs(configure(url), url)
        try:
            with drained(jobs):
                yield jobs
        finally:
            jobs.close()
