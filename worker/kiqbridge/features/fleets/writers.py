"""Writing each job to the fleet of its queue: a `JobWriter` for each. Loaded only where fleets are set."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Final

from kiqbridge.client.job_writer import JobWriter
from kiqbridge.client.prepare import PreparedJob
from kiqbridge.client.tick_push import find_tick
from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.errors import KiqbridgeError, PayloadError
from kiqbridge.features.fleets.fleets import Fleets
from kiqbridge.store import deadline
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""Seconds that another fleet may keep a tick."""


class FleetWriters:
    """The writers of one client.

    Args:
        fleets: the setting.
        own: writes to the own fleet, and is asked for what the others confirm.

    Attributes:
        own: name of the own fleet; empty: it has none.
        has: whether a queue belongs to the own fleet.
        name_of: the name of a queue's fleet; raises PayloadError if it has none.
        writers: by the name of the fleet.
    """

    def __init__(self, fleets: Fleets, own: JobWriter) -> None:
        self.own = fleets.own
        self.has = fleets.has
        self.name_of = lru_cache(maxsize=1_000)(fleets.name_of)
        self._own = own
        # They connect at the first push.
        self.writers = {
            name: own if name == fleets.own else self._made(each.access)
            for name, each in fleets.fleets.items()
        }

    def writer(self, jobs: Sequence[PreparedJob]) -> JobWriter:
        """The writer for the jobs of one call.

        Raises:
            PayloadError: their queues belong to several fleets, or one to none.
        """
        found = {self.name_of(job.queue): job.queue for job in jobs}
        if not found:
            return self._own
        name, *others = found
        if others:
            raise PayloadError(
                f"queue: {found[name]!r} belongs to fleet {name} and {found[others[0]]!r} to fleet {others[0]}; one "
                "call pushes to one fleet: make a call for each"
            )
        return self.writers[name]

    def check_own(self, queue: str) -> None:
        """Refuse a job that lies in what belongs to the own fleet: a batch, a chain, a schedule.

        Raises:
            PayloadError: its queue belongs to another fleet.
        """
        name = self.name_of(queue)
        if name != self.own:
            raise PayloadError(
                f"queue: {queue!r} belongs to fleet {name}, and this client to "
                f"{f'fleet {self.own}' if self.own else 'none'}; a batch, a chain, a group and a schedule "
                f'lie in one fleet: use Client.of_fleet("{name}")'
            )

    def find_tick(self, writer: JobWriter | None, schedule: str, instant: int) -> list[str] | None:
        """The jids of an occurrence in the ledgers of the fleets; None: it is in none.

        Args:
            writer: writes to the fleet that is left out, since its script looks itself; a fleet that does not answer
                is left out then as well, so that it stops no other. None: all are asked.
            schedule: name of the schedule.
            instant: of the occurrence, epoch seconds.

        Raises:
            RedisUnavailable: one of all does not answer.
        """
        for name, each in self.writers.items():
            if each is writer:
                continue
            try:
                with deadline.within(LOOK_S) if writer else nullcontext():
                    jids = find_tick(each.pool, each.keys, schedule, instant)
            except KiqbridgeError as error:
                if writer is None:
                    raise
                logger.warning(
                    "tick of %s: it is not known whether fleet %s has enqueued it before: %s",
                    schedule,
                    name,
                    error,
                )
                continue
            if jids is not None:
                return jids
        return None

    def others(self) -> Iterator[tuple[str, JobWriter]]:
        """Name and writer of each fleet but the own one."""
        return ((name, each) for name, each in self.writers.items() if each is not self._own)

    def close(self) -> None:
        """Close idle connections to other fleets."""
        for _, writer in self.others():
            writer.pool.close()

    def _made(self, access: RedisAccess) -> JobWriter:
        return JobWriter(
            RedisPool(access),
            Keys(access.namespace),
            replicas=self._own.replicas,
            max_payload_bytes=self._own.max_payload_bytes,
        )
