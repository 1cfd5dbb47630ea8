"""The limits of queues: what is asked of a push, and what becomes of the records whose queue is at one.

A push is refused as a whole if a queue is at its limit, in the round trip that it costs anyway. Then the
records are divided here, and the others are pushed again. Only jobs that would be pushed now count: not
those that run later, and no duplicates.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kiqbridge.aws.job_forms import EnqueueRequest, JobRequest
from kiqbridge.config.queue_limits import DepthAction, QueueLimit, limit_of
from kiqbridge.errors import ConfigError, QueueTooDeep
from kiqbridge.wire import active_job
from kiqbridge.wire.payload import DEFAULT_OPTIONS


class DepthGate:
    """The limits in effect.

    Args:
        limits: of `KIQBRIDGE_QUEUE_LIMITS`; the first that matches a queue counts.
    """

    def __init__(self, limits: Sequence[QueueLimit] = ()) -> None:
        self._limits = limits

    def __repr__(self) -> str:
        return f"DepthGate({list(self._limits)})"

    def check_spill(self, *, has_queue: bool) -> None:
        """Refuse limits that spill where there is no queue for it.

        Raises:
            ConfigError: names the variable that is missing.
        """
        if not has_queue and any(each.action is DepthAction.SPILL for each in self._limits):
            raise ConfigError(
                "queue_limits: spill needs a spill queue, and KIQBRIDGE_SPILL_QUEUE_URL is not set; set it, or "
                "choose reject or delay"
            )

    def lengths(self, jobs: Iterable[JobRequest]) -> Mapping[str, int]:
        """Queue → its limit, for those of the jobs that have one."""
        if not self._limits:
            return {}
        found = {queue: self._limit(queue) for queue in {queue_of(job.item) for job in jobs}}
        return {queue: limit.most for queue, limit in found.items() if limit is not None}

    def actions(self, request: EnqueueRequest, deep: Mapping[int, int]) -> set[DepthAction]:
        """What is to be done with a request some of whose jobs (their places: `deep`) are refused."""
        limits = [self._limit(queue_of(request.jobs[place].item)) for place in deep]
        return {DepthAction.REJECT if limit is None else limit.action for limit in limits}

    def delayed(self, request: EnqueueRequest, deep: Mapping[int, int]) -> EnqueueRequest:
        """The same request, with those jobs put off."""
        now = time.time()
        return replace(
            request,
            jobs=[
                self._put_off(job, now) if place in deep else job
                for place, job in enumerate(request.jobs)
            ],
        )

    def is_spilled(self, error: QueueTooDeep) -> bool:
        """Whether what was refused with this error goes to the spill queue."""
        limits = [self._limit(queue) for queue in error.queues]
        return all(limit is not None and limit.action is not DepthAction.REJECT for limit in limits)

    def _put_off(self, job: JobRequest, now: float) -> JobRequest:
        limit = self._limit(queue_of(job.item))
        return replace(job, item={**job.item, "at": now + (limit.delay_s if limit else 0)})

    def _limit(self, queue: str) -> QueueLimit | None:
        return limit_of(self._limits, queue)


def queue_of(item: Mapping[str, Any]) -> str:
    """The queue to which a checked item is pushed."""
    return str(item.get("queue") or DEFAULT_OPTIONS["queue"])


def class_of(item: Mapping[str, Any]) -> str:
    """The class of a checked item, as answers show it."""
    return str(item.get("class", item.get(active_job.KEY)))
