"""Where there are several Redis servers: on which of them a request's jobs lie, and what follows for pushing.

1. An event whose jobs lie on several is pushed by a script for each. Jobs that nothing identifies get a guard by
   the request then: Lambda repeats an asynchronous event under the same id, so that it is completed, not doubled.
2. The records of a batch are pushed by where their jobs lie, so that those of a server that is away fail alone.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from kiqbridge.aws.depth import queue_of
from kiqbridge.aws.job_forms import EnqueueRequest, JobRequest
from kiqbridge.aws.push import Asked, held_back
from kiqbridge.aws.record import Answering, Result
from kiqbridge.clock import client_now
from kiqbridge.errors import PayloadError, RedisUnavailable
from kiqbridge.wire.guards import Identity, Source

_BY_LAMBDA: Final = "lambda:"
"""How `by` begins where Lambda has named the request."""

Shards = frozenset[str]
"""Names of shards."""


class Locates(Protocol):
    """The calls of a `Client` that are used here."""

    def holders(self, queue: str, now: float) -> Sequence[str]:
        """See `Client.holders`."""

    def first_shard_of(self, queue: str) -> str:
        """See `Client.first_shard_of`."""


class ByShard:
    """Divides requests among the shards.

    Args:
        client: knows where a queue lies.
    """

    def __init__(self, client: Locates) -> None:
        self._client = client

    def of(self, request: EnqueueRequest) -> Shards:
        """The shards that a push of this request asks; none for a queue that belongs to no shard."""
        return self._asked_for(request.jobs)

    def of_queue(self, queue: str) -> Shards:
        """The shards that a push to this queue asks; none if it belongs to no shard."""
        try:
            return frozenset(self._client.holders(queue, client_now()))
        except PayloadError:  # the push says so
            return frozenset()

    def guarded(self, asked: Sequence[Asked], by: str) -> Sequence[Asked]:
        """The same, with guards for jobs that have none, if all together lie on several shards.

        Args:
            asked: of one request.
            by: who delivers; without the id of a request nothing is changed.
        """
        free = [each for each in asked if each.request.tick is None]
        if not by.startswith(_BY_LAMBDA) or not any(
            not job.dedupe_key for each in free for job in each.request.jobs
        ):
            return asked
        jobs = [job for each in free for job in each.request.jobs]
        # The globs as well: a queue that is moved before the repetition must not change the answer.
        if len(self._asked_for(jobs) | self._by_globs(jobs)) < 2:  # noqa: PLR2004 - several
            return asked
        own = Identity(Source.REQUEST, (by.removeprefix(_BY_LAMBDA),))
        first, guarded = 0, []
        for each in asked:
            guarded.append(_with_guards(each, own, first))
            first += len(each.request.jobs)
        return guarded

    def push(
        self,
        asked: Sequence[Asked],
        answering: Answering,
        push: Callable[[Sequence[Asked]], Sequence[Result]],
    ) -> list[Result]:
        """Push records by where their jobs lie; a result for each, in their order.

        Args:
            asked: in the order of delivery.
            answering: EACH or IN_ORDER.
            push: pushes several whose jobs lie on the same shards.
        """
        shards = [self.of(each.request) for each in asked]
        results: dict[int, Result] = {}
        failed: set[str | None] = set()
        away: dict[Shards, RedisUnavailable] = {}
        for here, places in _parts(asked, shards, answering):
            gone = next((error for those, error in away.items() if those <= here), None)
            fit = []
            for place in places:
                record = asked[place].record
                if record.group in failed:
                    results[place] = held_back(record)
                elif gone is not None:
                    results[place] = Result(record=record, error=gone)
                else:
                    fit.append(place)
            if fit:
                results |= dict(zip(fit, push([asked[place] for place in fit]), strict=True))
            for place in places:
                error = results[place].error
                if isinstance(error, RedisUnavailable) and here:
                    away[here] = error
                if error is not None and answering is Answering.IN_ORDER:
                    failed.add(asked[place].record.group)
        return [results[place] for place in range(len(asked))]

    def _asked_for(self, jobs: Iterable[JobRequest]) -> Shards:
        queues = {queue_of(job.item) for job in jobs}
        return frozenset(name for queue in queues for name in self.of_queue(queue))

    def _by_globs(self, jobs: Iterable[JobRequest]) -> Shards:
        queues = {queue_of(job.item) for job in jobs}
        try:
            return frozenset(self._client.first_shard_of(queue) for queue in queues)
        except PayloadError:
            return frozenset()


def _parts(
    asked: Sequence[Asked], shards: Sequence[Shards], answering: Answering
) -> list[tuple[Shards, list[int]]]:
    """Places of records that are pushed together, in an order that keeps that of each group if it counts.

    Those of one shard come before those of several, which a shard that is away may stop as well.
    """
    turns: dict[str | None, tuple[int, Shards]] = {}
    parts: dict[tuple[int, Shards], list[int]] = {}
    for place, (each, here) in enumerate(zip(asked, shards, strict=True)):
        turn = 0
        if answering is Answering.IN_ORDER:
            last, where = turns.get(each.record.group, (0, here))
            turn = last + (where != here)
            turns[each.record.group] = turn, here
        parts.setdefault((turn, here), []).append(place)
    in_turn = sorted(parts.items(), key=lambda part: (part[0][0], len(part[0][1])))
    return [(here, places) for (_, here), places in in_turn]


def _with_guards(asked: Asked, own: Identity, first: int) -> Asked:
    """The same, with a guard for each job that has none; `first` is the place of the first one in the request."""
    request = asked.request
    if request.tick is not None:
        return asked
    jobs = [
        job if job.dedupe_key else replace(job, dedupe_key=own.of_job(first + place))
        for place, job in enumerate(request.jobs)
    ]
    return Asked(asked.record, replace(request, jobs=jobs))
