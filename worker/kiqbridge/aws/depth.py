"""The limits of queues: what is asked of a push, and what becomes of the records whose queue is at one.

A push is refused as a whole if a queue is at its limit, in the round trip that it costs anyway. Then the
records are divided here, and the others are pushed again. Only jobs that would be pushed now count: not
those that run later, and no duplicates.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kiqbridge.aws.job_forms import JobRequest
from kiqbridge.aws.record import Record
from kiqbridge.config.queue_limits import DepthAction, QueueLimit, limit_of
from kiqbridge.errors import ConfigError, QueueTooDeep
from kiqbridge.runtime.records import dataclass


@dataclass(frozen=True, slots=True)
class DepthGate:
    """The limits in effect.

    Attributes:
        limits: of `KIQBRIDGE_QUEUE_LIMITS`; the first that matches a queue counts.
    """

    limits: Sequence[QueueLimit] = ()

    def check_spill(self, *, has_queue: bool) -> None:
        """Refuse limits that spill where there is no queue for it.

        Raises:
            ConfigError: names the variable that is missing.
        """
        if not has_queue and any(each.action is DepthAction.SPILL for each in self.limits):
            raise ConfigError(
                "queue_limits: spill needs a spill queue, and KIQBRIDGE_SPILL_QUEUE_URL is not set; set it, or "
                "choose reject or delay"
            )

    def lengths(self, jobs: Iterable[JobRequest]) -> Mapping[str, int]:
        """Queue → its limit, for those of the jobs that have one."""
        if not self.limits:
            return {}
        found = {queue: limit_of(self.limits, queue) for queue in {job.queue for job in jobs}}
        return {queue: limit.most for queue, limit in found.items() if limit is not None}

    def delayed(self, record: Record, deep: Mapping[int, int]) -> Record | None:
        """The record with the jobs at these places put off; None = one of them is not to be put off."""
        jobs, now = list(record.jobs), time.time()
        for place in deep:
            limit = limit_of(self.limits, jobs[place].queue)
            if limit is None or limit.action is not DepthAction.DELAY:
                return None
            item = {**jobs[place].item, "at": now + limit.delay_s}
            jobs[place] = replace(jobs[place], item=item)
        return replace(record, jobs=jobs) if deep else record

    def is_spilled(self, error: QueueTooDeep) -> bool:
        """Whether what was refused with this error goes to the spill queue."""
        limits = [limit_of(self.limits, queue) for queue in error.queues]
        return all(limit is not None and limit.action is not DepthAction.REJECT for limit in limits)
