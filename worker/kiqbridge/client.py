"""Pushing jobs in Sidekiq's format (protocol §5): the only place that writes new payloads.

A push goes: item → validate → normalize → client middleware → check of every value → text → Redis.
Bad input is refused before Redis. Three kinds of push differ in what a lost reply means:

- `push`, `push_bulk`: as Sidekiq's; a lost reply raises `PushOutcomeUnknown`, never repeats;
- `push_once`: each job under a guard; repeating it, here or by the caller, enqueues once;
- `push_tick`: all jobs of one occurrence of a schedule, claimed in its ledger in the same script.
"""

import os
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from kiqbridge import json_text, scripts
from kiqbridge.errors import PayloadError, PushOutcomeUnknown
from kiqbridge.keys import Keys
from kiqbridge.middleware import Chain, ClientMiddleware
from kiqbridge.payload import (
    DEFAULT_OPTIONS,
    check_payload,
    check_queue,
    epoch_seconds,
    normalize,
    parse_profile,
    shorten,
    timestamp,
    validate,
)
from kiqbridge.redis_connection import RedisPool, ReplyLost, url_from_environment
from kiqbridge.registry import definition_of

if TYPE_CHECKING:
    import redis

BATCH_SIZE = 1000
"""Jobs per round trip of a bulk push (§5.7), and the most that one script takes."""

GUARD_TTL_S = 15 * 86_400
"""A guard outlives the longest redelivery: 14 days in a dead-letter queue and its redrive."""

TICK_HORIZON_S = 7 * 86_400
"""How long a ledger remembers; an older occurrence is stale, so memory stays bounded."""

SPREAD_MINIMUM_S = 5.0

_PUSH_ONCE = scripts.load("push_once")
_PUSH_TICK = scripts.load("push_tick")


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What became of one guarded job: `jid` is that of the job in Redis, new or earlier."""

    jid: str
    job_class: str
    queue: str
    at: float | None
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TickOutcome:
    """What became of one occurrence of a schedule; `jobs` is empty when it was stale."""

    kind: Literal["enqueued", "duplicate", "stale"]
    jobs: list[Enqueued]


@dataclass(slots=True, kw_only=True)
class _Prepared:
    payload: dict[str, Any]
    at: float | None
    own_jid: bool
    """The jid was drawn here, so meeting it in Redis means that an earlier reply was lost."""

    @property
    def queue(self) -> str:
        return cast("str", self.payload["queue"])

    @property
    def jid(self) -> str:
        return cast("str", self.payload["jid"])

    def outcome(self, known_jid: str | None = None) -> Enqueued:
        return Enqueued(
            jid=known_jid or self.jid,
            job_class=self.payload["class"],
            queue=self.queue,
            at=self.at,
            duplicate=known_jid is not None,
        )


class Client:
    """Enqueues jobs; one client may be shared by all threads.

    Args:
        url: address of Redis; default from REDIS_PROVIDER or REDIS_URL.
        redis: an existing redis-py client whose address and credentials are used instead.
        namespace: key prefix, `myapp` or `myapp:`; default from KIQBRIDGE_NAMESPACE.
        profile: `7` or `8`, see `payload.Profile`; default from KIQBRIDGE_WIRE_PROFILE.
        pool: connections to share with others, instead of url and redis.

    Attributes:
        middleware: functions around each push, also when the poller moves a job.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        redis: "redis.Redis | None" = None,
        namespace: str | None = None,
        profile: str | None = None,
        pool: RedisPool | None = None,
    ) -> None:
        environ = os.environ
        if pool is None:
            address = url if url or redis is not None else url_from_environment(environ)
            pool = RedisPool(address, client=redis)
        self._redis = pool
        self.keys = Keys(environ.get("KIQBRIDGE_NAMESPACE", "") if namespace is None else namespace)
        self.profile = (
            parse_profile(profile, source="the argument profile")
            if profile
            else parse_profile(environ.get("KIQBRIDGE_WIRE_PROFILE") or "7")
        )
        self.middleware: Chain[ClientMiddleware] = Chain()

    def __repr__(self) -> str:
        return f"Client({self._redis.address}, namespace={self.keys.prefix!r}, profile={self.profile!r})"

    def close(self) -> None:
        """Close idle connections; the client can be used again."""
        self._redis.close()

    def push(self, item: Mapping[str, Any]) -> str | None:
        """Enqueue one job: SADD queues, LPUSH queue:NAME; or ZADD schedule if the item has `at`.

        Args:
            item: `class` (a name or a declared job) and `args` (list), and any other attribute of
                §3.2; `at` is an absolute time in epoch seconds, however small.

        Returns:
            The jid, or None when middleware stopped it.

        Raises:
            PayloadError: refused before Redis, naming field and value.
            RedisUnavailable: nothing was written.
            PushOutcomeUnknown: sent, but the reply was lost.
        """
        prepared = self._prepare(item, time.time())
        if prepared is None:
            return None
        self._write([prepared])
        return prepared.jid

    def push_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        """Enqueue one job per element of `args`, a list of lists (§5.7), 1,000 a round trip.

        Besides the attributes of `push`: `at` may be a list with one time per job;
        `spread_interval` (seconds) gives each job a random time within it; `batch_size`.

        Returns:
            The jids in order, None in the place of jobs that middleware stopped.

        Raises:
            As `push`; batches before the failing one are enqueued, and after a lost reply the
            jid raised is the first of its batch.
        """
        if not isinstance(item, Mapping):
            raise PayloadError(
                f"job: {shorten(item)} is not an object with the keys class and args"
            )
        bulk = dict(item)
        batch_size = _batch_size(bulk.pop("batch_size", BATCH_SIZE))
        argument_lists = _argument_lists(bulk)
        now = time.time()
        times = _bulk_times(bulk, len(argument_lists), now)
        jid = bulk.pop("jid", None)
        if jid is not None and len(argument_lists) > 1:
            raise PayloadError(
                f"jid: {shorten(jid)} cannot be that of {len(argument_lists)} jobs; leave it out"
            )
        jids: list[str | None] = []
        prepared = [
            self._prepare(bulk | {"args": args} | ({} if at is None else {"at": at}), now)
            for args, at in zip(argument_lists, times, strict=True)
        ]
        for start in range(0, len(prepared), batch_size):
            batch = prepared[start : start + batch_size]
            self._write([job for job in batch if job is not None])
            jids.extend(job.jid if job else None for job in batch)
        return jids

    def push_once(
        self,
        items: Sequence[Mapping[str, Any]],
        dedupe_keys: Sequence[str | None],
        *,
        ttl_s: int = GUARD_TTL_S,
    ) -> list[Enqueued]:
        """Enqueue jobs, each at most once per dedupe key within `ttl_s`, all in one script.

        Jobs with a key of None are not guarded. A lost reply is repeated if all are guarded.

        Returns:
            One outcome per job that middleware did not stop.

        Raises:
            As `push`; nothing is written when it raises, except after `PushOutcomeUnknown`.
        """
        _check_script_size(len(items))
        now = time.time()
        jobs = [
            (job, key)
            for item, key in zip(items, dedupe_keys, strict=True)
            if (job := self._prepare(item, now)) is not None
        ]
        if not jobs:
            return []
        keys: list[str] = [self.keys.queues]
        args: list[str | bytes] = [str(ttl_s)]
        for job, key in jobs:
            keys += [self.keys.seen(key) if key else self.keys.queues, self._target(job)]
            args += ["1" if key else "0", job.jid, *self._script_args(job, now)]
        repeatable = all(key for _, key in jobs)
        try:
            answers = self._redis.script(_PUSH_ONCE, keys, args, repeatable=repeatable)
        except ReplyLost as error:
            raise _unknown(jobs[0][0], error) from error
        return [
            job.outcome(
                None if not known or (job.own_jid and known == job.jid.encode()) else known.decode()
            )
            for (job, _), known in zip(jobs, answers, strict=True)
        ]

    def push_tick(
        self,
        schedule: str,
        instant: int,
        items: Sequence[Mapping[str, Any]],
        *,
        by: str,
        horizon_s: int = TICK_HORIZON_S,
    ) -> TickOutcome:
        """Enqueue the jobs of one occurrence of a schedule, all or none, once whoever asks.

        Args:
            schedule: name of the schedule, the same text whoever delivers (`my-stack/Nightly`).
            instant: the scheduled time in epoch seconds, floored to the minute.
            items: jobs as for `push`.
            by: who delivers, kept in the ledger for operators.
            horizon_s: how long the ledger remembers; an older occurrence is stale.

        Raises:
            As `push`, but a lost reply is repeated: the ledger makes that safe.
        """
        _check_script_size(len(items))
        now = time.time()
        jobs = [job for item in items if (job := self._prepare(item, now)) is not None]
        entry = json_text.dumps(
            {"at": instant, "jids": [job.jid for job in jobs], "by": by, "enqueued_at": now}
        )
        keys = [self.keys.queues, self.keys.ticks(schedule), *(self._target(job) for job in jobs)]
        args: list[str | bytes | float] = [str(instant), str(horizon_s), entry]
        for job in jobs:
            args += self._script_args(job, now)
        answer = self._redis.script(_PUSH_TICK, keys, args)
        kind = cast("Literal['enqueued', 'duplicate', 'stale']", answer[0].decode())
        if kind == "stale":
            return TickOutcome(kind=kind, jobs=[])
        if kind == "enqueued":
            return TickOutcome(kind=kind, jobs=[job.outcome() for job in jobs])
        if answer[1] == entry:  # our own claim, whose reply was lost
            return TickOutcome(kind="enqueued", jobs=[job.outcome() for job in jobs])
        known = json_text.loads(answer[1])["jids"]
        return TickOutcome(
            kind=kind, jobs=[job.outcome(jid) for job, jid in zip(jobs, known, strict=False)]
        )

    def prepare_moved(
        self, payload: Mapping[str, Any], now: float, original: bytes
    ) -> tuple[str, bytes] | None:
        """A payload that the poller moves: (queue, text to push), None when middleware stops it (§9.1).

        Raises:
            PayloadError: it cannot be a job.
        """
        # As it is: JSON that is no object must be refused here, not fail as a mapping and keep every
        # other due job waiting.
        prepared = self._prepare(payload, now, trusted=True)
        if prepared is None:
            return None
        prepared.payload["enqueued_at"] = timestamp(now, self.profile)
        return prepared.queue, json_text.dumps_moved(prepared.payload, original)

    def _prepare(
        self, item: Mapping[str, Any], now: float, *, trusted: bool = False
    ) -> _Prepared | None:
        declared: object = item.get("class") if isinstance(item, Mapping) else None
        definition = definition_of(declared)
        if definition is not None:
            item = {**item, "class": definition.name}
        payload = normalize(
            validate(item), definition.options if definition else DEFAULT_OPTIONS, now, self.profile
        )
        if len(self.middleware):
            stopped_or_payload = self.middleware.invoke(
                (declared, payload, payload["queue"]), lambda: payload
            )
            if not stopped_or_payload:
                return None
            payload = dict(validate(stopped_or_payload))
            check_queue(payload.get("queue"))
        at = payload.pop("at", None)
        if not trusted:
            check_payload(payload)
        return _Prepared(payload=payload, at=at, own_jid="jid" not in item)

    def _write(self, jobs: Sequence[_Prepared]) -> None:
        if not jobs:
            return
        now = time.time()
        commands: list[list[str | bytes]] = []
        scheduled = [(job.at, job) for job in jobs if job.at is not None]
        by_queue: dict[str, list[bytes]] = {}
        for job in jobs:
            if job.at is None:
                by_queue.setdefault(job.queue, []).append(self._text(job, now))
        if by_queue:
            commands.append(["SADD", self.keys.queues, *by_queue])
        commands += [["LPUSH", self.keys.queue(name), *texts] for name, texts in by_queue.items()]
        if scheduled:
            members = [part for at, job in scheduled for part in (_score(at), self._text(job, now))]
            commands.append(["ZADD", self.keys.schedule, *members])
        try:
            self._redis.run(*commands, repeatable=False)
        except ReplyLost as error:
            raise _unknown(jobs[0], error) from error

    def _text(self, job: _Prepared, now: float) -> bytes:
        if job.at is None:
            job.payload["enqueued_at"] = timestamp(now, self.profile)
        else:
            job.payload.pop("enqueued_at", None)
        try:
            return json_text.dumps(job.payload)
        except (TypeError, ValueError) as error:
            raise PayloadError(f"job: {shorten(job.payload)} has no JSON text: {error}") from error

    def _target(self, job: _Prepared) -> str:
        return self.keys.queue(job.queue) if job.at is None else self.keys.schedule

    def _script_args(self, job: _Prepared, now: float) -> list[str | bytes]:
        return [job.queue, "" if job.at is None else _score(job.at), self._text(job, now)]


_default: Client | None = None
_default_lock = threading.Lock()


def configure(
    url: str | None = None,
    *,
    redis: "redis.Redis | None" = None,
    namespace: str | None = None,
    profile: str | None = None,
) -> Client:
    """Set the client that `perform_async` and its like use, and return it; arguments as `Client`."""
    global _default  # noqa: PLW0603 - the one process-wide client that declared jobs push through
    client = Client(url, redis=redis, namespace=namespace, profile=profile)
    with _default_lock:
        _default = client
    return client


def default_client() -> Client:
    """The configured client, or one made from the environment at first use."""
    global _default  # noqa: PLW0603 - as in configure
    with _default_lock:
        if _default is None:
            _default = Client()
        return _default


def _argument_lists(bulk: Mapping[str, Any]) -> list[list[Any]]:
    args = bulk.get("args")
    if not isinstance(args, list) or not all(isinstance(element, list) for element in args):
        raise PayloadError(
            f"args: {shorten(args)} is not a list of lists, one list of arguments per job"
        )
    return args


def _batch_size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PayloadError(f"batch_size: {shorten(value)} is not a whole number above 0")
    return value


def _bulk_times(bulk: dict[str, Any], count: int, now: float) -> list[float | None]:
    spread = bulk.pop("spread_interval", None)
    if "at" not in bulk:
        if spread is None:
            return [None] * count
        if epoch_seconds(spread, field="spread_interval") <= 0:
            raise PayloadError(f"spread_interval: {spread!r} is not a number of seconds above 0")
        width = max(float(spread), SPREAD_MINIMUM_S)
        return [now + random.random() * width for _ in range(count)]  # noqa: S311 - spreads load
    at = bulk.pop("at")
    if spread is not None:
        raise PayloadError(
            "at: cannot be given together with spread_interval; leave one of them out"
        )
    times = at if isinstance(at, list) else [at] * count
    if len(times) != count or (isinstance(at, list) and not at):
        raise PayloadError(
            f"at: {len(times)} times for {count} jobs; give one number, or one per job"
        )
    return [_absolute(moment) for moment in times]


def _absolute(moment: object) -> float:
    if isinstance(moment, datetime):
        raise PayloadError(f"at: {moment!r} is not a number (epoch seconds)")
    return epoch_seconds(moment)


def _check_script_size(count: int) -> None:
    if count > BATCH_SIZE:
        raise PayloadError(
            f"jobs: {count} jobs in one call, but all or nothing holds for {BATCH_SIZE:,}; split them"
        )


def _score(at: float) -> str:
    """The number's own text; that of a sub-class, such as numpy's, could be anything."""
    return repr(int(at) if isinstance(at, int) else float(at))


def _unknown(job: _Prepared, error: ReplyLost) -> PushOutcomeUnknown:
    return PushOutcomeUnknown(
        f"job {job.jid} ({job.payload['class']}) was sent but not confirmed: {error}; it may or may not "
        "be enqueued. Push it again with the same jid if running twice is better than not at all",
        job.jid,
    )
