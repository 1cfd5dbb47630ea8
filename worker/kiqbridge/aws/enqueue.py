"""From an event to its answer: read it, check it against the allow-list, push all of it or nothing.

Everything is checked before Redis is asked, and what is pushed goes in one script. Lambda delivers
an asynchronous invocation again after an error; a tick and a job with a `dedupe_key` are then
recognized. A job with neither is pushed without a guard: when its reply is lost,
`PushOutcomeUnknown` is raised, and delivering it again may enqueue it twice.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypedDict

from kiqbridge.aws.allow_list import AllowList
from kiqbridge.aws.events import JobRequest, Tick, parse_event
from kiqbridge.client.client import TICK_HORIZON_S, Client
from kiqbridge.client.guarded_push import Enqueued
from kiqbridge.config.client_settings import (
    MAX_PAYLOAD_BYTES,
    NAMESPACE,
    PROFILE,
    REDIS_URL,
    WAIT_REPLICAS,
)
from kiqbridge.config.function_settings import TICK_AHEAD_S
from kiqbridge.config.setting import read
from kiqbridge.errors import EventError
from kiqbridge.wire import active_job
from kiqbridge.wire.payload import DEFAULT_OPTIONS, shorten


class Answer(TypedDict):
    """What became of each job of an event; one that middleware stopped is in no list."""

    enqueued: list[dict[str, Any]]
    """`jid`, `class`, `queue`, and `at` (epoch seconds) if it runs later."""
    duplicates: list[dict[str, Any]]
    """`jid` of the job that was enqueued before, `class`, `queue`."""
    stale: list[dict[str, Any]]
    """`class`, `queue`, and `schedule` and `at` of a tick so old that nobody knows whether it ran; only
    one that says `"on_stale": "ignore"`, others are an error."""


class Enqueuer:
    """Enqueues what events ask for; one serves all invocations of a warm environment.

    Args:
        client: pushes.
        allowed: what may be enqueued.
        tick_ahead_s: seconds that a tick may lie ahead of the clock of Redis: clocks differ a little.
    """

    def __init__(
        self, client: Client, allowed: AllowList, *, tick_ahead_s: float = TICK_AHEAD_S.default
    ) -> None:
        self._client = client
        self._allowed = allowed
        self._tick_ahead_s = tick_ahead_s

    def __repr__(self) -> str:
        return f"Enqueuer({self._client!r}, {self._allowed!r})"

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Compose one from REDIS_URL and KIQBRIDGE_…; connects at the first push.

        Raises:
            ConfigError: the address or a setting is wrong.
        """
        client = Client(
            read(REDIS_URL, environ),
            namespace=read(NAMESPACE, environ),
            profile=read(PROFILE, environ),
            wait_replicas=read(WAIT_REPLICAS, environ),
            max_payload_bytes=read(MAX_PAYLOAD_BYTES, environ),
        )
        allowed = AllowList.from_environment(environ)
        return cls(client, allowed, tick_ahead_s=read(TICK_AHEAD_S, environ))

    def enqueue(self, event: object, *, now: float, by: str = "lambda") -> Answer:
        """Enqueue all jobs of the event, or none.

        Args:
            event: as `events.parse_event` takes it.
            now: epoch seconds from which `in` counts.
            by: who delivers, kept in the ledger of ticks for operators.

        Raises:
            EventError, PayloadError, NotAllowed: refused; nothing was written. Also a tick that is not
                due yet, and one so old that nobody knows whether it ran.
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
        outcome = self._client.push_tick(
            tick.schedule, tick.instant, items, by=by, ahead_s=self._tick_ahead_s
        )
        if outcome.kind == "future":
            raise EventError(
                f"tick.at: {shorten(tick.at)} is more than {self._tick_ahead_s:g} s ahead of the clock of "
                "Redis; a tick is delivered when it is due, or its true delivery would be taken for a "
                f"duplicate (a clock that is wrong by more: {TICK_AHEAD_S.env[0]})"
            )
        if outcome.kind != "stale":
            return _answer(outcome.jobs)
        if not tick.ignore_stale:
            raise EventError(
                f"tick.at: {shorten(tick.at)} is older than the {TICK_HORIZON_S // 86_400} days that the "
                "ledger remembers, so nobody knows whether it was enqueued; to enqueue it, invoke the "
                'function with the job and no tick; to let it pass, add "on_stale": "ignore" to the tick'
            )
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
