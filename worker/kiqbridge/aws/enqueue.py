"""From an event to its answer: read it, check it against the allow-list, push all of it or nothing.

Everything is checked before Redis is asked, and what is pushed goes in one script. Lambda delivers
an asynchronous invocation again after an error; a tick and a job with a `dedupe_key` are then
recognized. A job with neither is pushed without a guard: when its reply is lost,
`PushOutcomeUnknown` is raised, and delivering it again may enqueue it twice.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypedDict

from kiqbridge import active_job
from kiqbridge.aws.allow_list import AllowList
from kiqbridge.aws.events import JobRequest, Tick, parse_event
from kiqbridge.client import Client, Enqueued
from kiqbridge.payload import DEFAULT_OPTIONS
from kiqbridge.raw_job import (
    DEFAULT_MAX_PAYLOAD_BYTES,
    MAX_PAYLOAD_VARIABLE,
    parse_max_payload_bytes,
)
from kiqbridge.redis_connection import url_from_environment


class Answer(TypedDict):
    """What became of each job of an event; one that middleware stopped is in no list."""

    enqueued: list[dict[str, Any]]
    """`jid`, `class`, `queue`, and `at` (epoch seconds) if it runs later."""
    duplicates: list[dict[str, Any]]
    """`jid` of the job that was enqueued before, `class`, `queue`."""
    stale: list[dict[str, Any]]
    """`class`, `queue`, and `schedule` and `at` of the tick: too old to tell whether it ran."""


class Enqueuer:
    """Enqueues what events ask for; one serves all invocations of a warm environment."""

    def __init__(self, client: Client, allowed: AllowList) -> None:
        self._client = client
        self._allowed = allowed

    def __repr__(self) -> str:
        return f"Enqueuer({self._client!r}, {self._allowed!r})"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Compose one from REDIS_URL and KIQBRIDGE_…; connects at the first push.

        Raises:
            ConfigError: the address or a setting is wrong.
        """
        client = Client(
            url_from_environment(environ),
            namespace=environ.get("KIQBRIDGE_NAMESPACE", ""),
            profile=environ.get("KIQBRIDGE_WIRE_PROFILE"),
            max_payload_bytes=parse_max_payload_bytes(
                environ.get(MAX_PAYLOAD_VARIABLE) or DEFAULT_MAX_PAYLOAD_BYTES,
                source=MAX_PAYLOAD_VARIABLE,
            ),
        )
        return cls(client, AllowList.from_environment(environ))

    def enqueue(self, event: object, *, now: float, by: str = "lambda") -> Answer:
        """Enqueue all jobs of the event, or none.

        Args:
            event: as `events.parse_event` takes it.
            now: epoch seconds from which `in` counts.
            by: who delivers, kept in the ledger of ticks for operators.

        Raises:
            EventError, PayloadError, NotAllowed: refused before Redis.
            RedisUnavailable, RedisRefused: nothing was written.
            PushOutcomeUnknown: sent, but the reply was lost; only without tick and dedupe_key.
        """
        request = parse_event(event, now)
        for job in request.jobs:
            self._allowed.check(job.item)
        if request.tick is not None:
            return self._push_tick(request.tick, [job.item for job in request.jobs], by)
        return self._push(request.jobs)

    def _push(self, jobs: Sequence[JobRequest]) -> Answer:
        outcomes = self._client.push_once(
            [job.item for job in jobs], [job.dedupe_key for job in jobs]
        )
        return _answer(outcomes)

    def _push_tick(self, tick: Tick, items: Sequence[Mapping[str, Any]], by: str) -> Answer:
        outcome = self._client.push_tick(tick.schedule, tick.instant, items, by=by)
        if outcome.kind != "stale":
            return _answer(outcome.jobs)
        stale = [
            {
                "class": item.get("class", item.get(active_job.KEY)),
                "queue": item.get("queue", DEFAULT_OPTIONS["queue"]),
                "schedule": tick.schedule,
                "at": tick.at,
            }
            for item in items
        ]
        return Answer(enqueued=[], duplicates=[], stale=stale)


def _answer(outcomes: Sequence[Enqueued]) -> Answer:
    return Answer(
        enqueued=[
            _described(job) | ({} if job.at is None else {"at": job.at})
            for job in outcomes
            if not job.duplicate
        ],
        duplicates=[_described(job) for job in outcomes if job.duplicate],
        stale=[],
    )


def _described(job: Enqueued) -> dict[str, Any]:
    return {"jid": job.jid, "class": job.job_class, "queue": job.queue}
