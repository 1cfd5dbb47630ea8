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
from typing import TYPE_CHECKING, Any, Literal, cast

from kiqbridge import active_job, json_text, scripts
from kiqbridge.batches import BATCH_BYTES, slices_by_bytes
from kiqbridge.bulk import BATCH_SIZE, AlikeTexts, Bulk, parse_bulk
from kiqbridge.errors import PayloadError, PushNotReplicated, PushOutcomeUnknown
from kiqbridge.guards import Identity, guard_field
from kiqbridge.interruption import PENDING, checkpoint
from kiqbridge.keys import Keys
from kiqbridge.middleware import Chain, ClientMiddleware, ServerMiddleware
from kiqbridge.names import text_of
from kiqbridge.payload import (
    DEFAULT_OPTIONS,
    Profile,
    check_arguments,
    check_json,
    check_payload,
    check_queue,
    new_jids,
    normalize,
    parse_profile,
    shorten,
    timestamp,
    validate,
)
from kiqbridge.raw_job import (
    DEFAULT_MAX_PAYLOAD_BYTES,
    MAX_PAYLOAD_VARIABLE,
    check_size,
    parse_max_payload_bytes,
)
from kiqbridge.redis_connection import (
    WAIT_TIMEOUT_MS,
    NotReplicated,
    RedisPool,
    ReplyLost,
    parse_replicas,
    url_from_environment,
)
from kiqbridge.registry import definition_of
from kiqbridge.stamping import stamp
from kiqbridge.wire_profile import FleetProfile

if TYPE_CHECKING:
    from datetime import datetime

    import redis

    from kiqbridge.deploy import DeployMark
    from kiqbridge.pauses import Pause

GUARD_TTL_S = 17 * 86_400
"""A guard outlives the longest redelivery: 14 days in a dead-letter queue and its redrive."""

TICK_HORIZON_S = 17 * 86_400
"""How long a ledger remembers; an older occurrence is stale, so memory stays bounded.

Longer than any delivery may take: a day in EventBridge or in Lambda's own queue, then 14 days in the
dead-letter queue (template.yaml), from which somebody sends it again."""

ITERATION_TTL_S = 30 * 86_400
"""As long as Sidekiq keeps an iterable job's progress (§13.1)."""

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
    """What became of one occurrence of a schedule.

    `stale`: too old to tell whether it ran; `future`: further ahead than was allowed. In both cases
    nothing was enqueued, and `jobs` is empty.
    """

    kind: Literal["enqueued", "duplicate", "stale", "future"]
    jobs: list[Enqueued]


@dataclass(slots=True, kw_only=True)
class _Prepared:
    payload: dict[str, Any]
    at: float | None
    own_jid: bool
    """The jid was drawn here, so meeting it in Redis means that an earlier reply was lost."""
    profile: Profile

    @property
    def queue(self) -> str:
        return cast("str", self.payload["queue"])

    @property
    def jid(self) -> str:
        return cast("str", self.payload["jid"])

    def outcome(self, known_jid: str | None = None) -> Enqueued:
        return Enqueued(
            jid=known_jid or self.jid,
            job_class=_shown_class(self.payload),
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
        profile: `7`, `8` or `auto`, see `wire_profile`; default from KIQBRIDGE_WIRE_PROFILE.
        pool: connections to share with others, instead of url and redis.
        wait_replicas: how many replicas must confirm each push, in the same round trip (WAIT), else
            `PushNotReplicated`; default from KIQBRIDGE_WAIT_REPLICAS, or 0.
        wait_timeout_ms: how long they may take.
        max_payload_bytes: bytes of a job's text above which it is refused, 0 = no limit; default from
            KIQBRIDGE_MAX_PAYLOAD_BYTES, or 10,000,000.

    Attributes:
        middleware: functions around each push, also when the poller moves a job.
        server_middleware: functions around each job that `perform_inline` runs.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        redis: "redis.Redis | None" = None,
        namespace: str | None = None,
        profile: str | None = None,
        pool: RedisPool | None = None,
        wait_replicas: int | None = None,
        wait_timeout_ms: int = WAIT_TIMEOUT_MS,
        max_payload_bytes: int | None = None,
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
        self._fleet_profile = FleetProfile(self.profile, pool, self.keys)
        asked: object = wait_replicas
        source = "the argument wait_replicas"
        if asked is None:
            asked, source = environ.get("KIQBRIDGE_WAIT_REPLICAS") or 0, "KIQBRIDGE_WAIT_REPLICAS"
        self._replicas = parse_replicas(asked, wait_timeout_ms, source=source)
        limit: object = max_payload_bytes
        source = "the argument max_payload_bytes"
        if limit is None:
            limit = environ.get(MAX_PAYLOAD_VARIABLE) or DEFAULT_MAX_PAYLOAD_BYTES
            source = MAX_PAYLOAD_VARIABLE
        self._max_payload_bytes = parse_max_payload_bytes(limit, source=source)
        self.middleware: Chain[ClientMiddleware] = Chain()
        self.server_middleware: Chain[ServerMiddleware] = Chain()

    def __repr__(self) -> str:
        return f"Client({self._redis.address}, namespace={self.keys.prefix!r}, profile={self.profile!r})"

    def close(self) -> None:
        """Close idle connections; the client can be used again."""
        self._redis.close()

    def wire_profile(self) -> Profile:
        """The profile in effect; with `auto` it follows live heartbeats and never raises."""
        return self._fleet_profile.current()

    def push(self, item: Mapping[str, Any]) -> str | None:
        """Enqueue one job: SADD queues, LPUSH queue:NAME; or ZADD schedule if the item has `at`.

        Args:
            item: `class` (a name or a declared job) and `args` (list), and any other attribute of
                §3.2; `at` is an absolute time in epoch seconds, however small. `active_job` in the
                place of `class` names a Rails job, see `active_job`.

        Returns:
            The jid, or None when middleware stopped it.

        Raises:
            PayloadError: refused before Redis, naming field and value.
            RedisUnavailable: nothing was written.
            PushOutcomeUnknown: sent, but the reply was lost.
            PushNotReplicated: enqueued, but not confirmed by `wait_replicas` replicas.
        """
        prepared = self._prepare(item, time.time())
        if prepared is None:
            return None
        self._write([prepared])
        return prepared.jid

    def push_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        """Enqueue one job per element of `args`, a list of lists (§5.7), 1,000 or 1 MB a round trip.

        Besides the attributes of `push`: `at` may be a list with one time per job;
        `spread_interval` (seconds) gives each job a random time within it; `batch_size`.

        Returns:
            The jids in order, None in the place of jobs that middleware stopped.

        Raises:
            As `push`; batches before the failing one are enqueued, and after a lost reply the
            jid raised is the first of its batch.
        """
        now = time.time()
        bulk = parse_bulk(item, now, random.random)
        count = len(bulk.argument_lists)
        if count and bulk.are_alike and not len(self.middleware):
            return self._push_alike(bulk, now)
        prepared = [self._prepare(bulk.item(index), now, bulk=True) for index in range(count)]
        jids: list[str | None] = []
        for start in range(0, len(prepared), bulk.batch_size):
            batch = prepared[start : start + bulk.batch_size]
            self._write([job for job in batch if job is not None])
            jids.extend(job.jid if job else None for job in batch)
        return jids

    def _push_alike(self, bulk: Bulk, now: float) -> list[str | None]:
        """Jobs that nothing can tell apart but args, times and ids: a fifth of the time."""
        first = self._prepare(bulk.item(0), now, bulk=True)
        assert first is not None  # noqa: S101 - only middleware stops a job, and there is none
        for args in bulk.argument_lists:
            check_arguments(args)
        jids: list[str | None] = []
        for start in range(0, len(bulk.argument_lists), bulk.batch_size):
            end = start + bulk.batch_size
            batch = new_jids(len(bulk.argument_lists[start:end]))
            self._write_alike(first, bulk, slice(start, end), batch)
            jids += batch
        return jids

    def _write_alike(self, first: _Prepared, bulk: Bulk, batch: slice, jids: list[str]) -> None:
        payload = {name: value for name, value in first.payload.items() if name != "enqueued_at"}
        times = bulk.times[batch]
        try:
            if times[0] is None:
                payload = {
                    **first.payload,
                    "enqueued_at": timestamp(time.time(), first.profile),
                }
            texts = AlikeTexts(payload).texts(bulk.argument_lists[batch], jids)
        except (TypeError, ValueError) as error:
            raise PayloadError(f"job: {shorten(payload)} has no JSON text: {error}") from error
        if sum(map(len, texts)) > self._max_payload_bytes:
            check_size(max(texts, key=len), self._max_payload_bytes)
        for part in slices_by_bytes(texts, BATCH_BYTES):
            commands: list[list[str | bytes]]
            if times[0] is None:
                commands = [
                    ["SADD", self.keys.queues, first.queue],
                    ["LPUSH", self.keys.queue(first.queue), *texts[part]],
                ]
            else:
                scores = [_score(at) for at in times[part] if at is not None]
                pairs = zip(scores, texts[part], strict=True)
                commands = [
                    ["ZADD", self.keys.schedule, *(each for pair in pairs for each in pair)]
                ]
            self._send(commands, jids[part], payload["class"])

    def push_once(
        self,
        items: Sequence[Mapping[str, Any]],
        dedupe_keys: Sequence[str | Identity | None],
        *,
        ttl_s: int = GUARD_TTL_S,
    ) -> list[Enqueued]:
        """Enqueue jobs, each at most once per class and dedupe key within `ttl_s`, all in one script.

        A text is a key of yours, the same as `dedupe_key` of an event for the enqueue function; an
        `Identity` is one of another source. A Rails job goes by its own class. Jobs with a key of None
        are not guarded. A lost reply is repeated if all are guarded.

        Returns:
            One outcome per job that middleware did not stop.

        Raises:
            As `push`; nothing is written when it raises, except after `PushOutcomeUnknown`.
        """
        _check_script_size(len(items))
        now = time.time()
        jobs = [
            (job, _guard_of(job, key))
            for item, key in zip(items, dedupe_keys, strict=True)
            if (job := self._prepare(item, now)) is not None
        ]
        if not jobs:
            return []
        keys: list[str] = [self.keys.queues, self.keys.guards, self.keys.guards_until]
        # More than are added, so that they grow fewer; an unpack takes no more than a script's jobs.
        args: list[str | bytes] = [str(ttl_s), str(min(2 * len(jobs) + 10, BATCH_SIZE))]
        for job, guard in jobs:
            keys.append(self._target(job))
            args += [guard, job.jid, *self._script_args(job, now)]
        repeatable = all(guard for _, guard in jobs)
        try:
            answers, doubt = self._run_script(_PUSH_ONCE, keys, args, repeatable=repeatable)
        except ReplyLost as error:
            raise _unknown(jobs[0][0].jid, jobs[0][0].payload["class"], error) from error
        outcomes = [
            job.outcome(
                None if not known or (job.own_jid and known == job.jid.encode()) else text_of(known)
            )
            for (job, _), known in zip(jobs, answers, strict=True)
        ]
        if doubt:
            raise _not_replicated([job.jid for job in outcomes], doubt) from doubt
        return outcomes

    def push_tick(
        self,
        schedule: str,
        instant: int,
        items: Sequence[Mapping[str, Any]],
        *,
        by: str,
        horizon_s: int = TICK_HORIZON_S,
        ahead_s: float | None = None,
    ) -> TickOutcome:
        """Enqueue the jobs of one occurrence of a schedule, all or none, once whoever asks.

        Args:
            schedule: name of the schedule, the same text whoever delivers (`my-stack/Nightly`).
            instant: the scheduled time in epoch seconds, floored to the minute.
            items: jobs as for `push`.
            by: who delivers, kept in the ledger for operators.
            horizon_s: how long the ledger remembers; an older occurrence is stale.
            ahead_s: how far the instant may lie ahead of the clock of Redis, None = any time.

        Raises:
            As `push`, but a lost reply is repeated: the ledger makes that safe.
        """
        _check_script_size(len(items))
        now = time.time()
        jobs = [job for item in items if (job := self._prepare(item, now)) is not None]
        entry = json_text.dumps(
            {"at": instant, "jids": [job.jid for job in jobs], "by": by, "enqueued_at": now}
        )
        keys = [self.keys.queues, self.keys.ticks(schedule), self.keys.ledgers]
        keys += [self._target(job) for job in jobs]
        args: list[str | bytes | float] = [
            *(str(instant), str(horizon_s), entry, schedule),
            "" if ahead_s is None else str(ahead_s),
        ]
        for job in jobs:
            args += self._script_args(job, now)
        answer, doubt = self._run_script(_PUSH_TICK, keys, args, repeatable=True)
        outcome = _tick_outcome(jobs, answer, entry)
        if doubt and outcome.jobs:
            raise _not_replicated([job.jid for job in outcome.jobs], doubt) from doubt
        return outcome

    def cancel(self, jid: str) -> int:
        """Ask an iterable job to end: HSETNX it-JID cancelled (§13.5); it may be waiting or running.

        It ends as if it were complete, within about 5 seconds if it runs now. Cancelling again
        changes nothing.

        Returns:
            The time of the first request, epoch seconds.

        Raises:
            PayloadError: that is no jid.
            RedisUnavailable: nothing was written.
        """
        if not isinstance(jid, str) or not jid:
            raise PayloadError(f"jid: {shorten(jid)} is not a text with at least one character")
        check_json(jid, "jid")
        key = self.keys.iteration(jid)
        only_first = ["NX"] if self.wire_profile() == "8" else []  # NX needs the Redis of Sidekiq 8
        replies = self._redis.run(
            ("HSETNX", key, "cancelled", int(time.time())),
            # Without a cursor Ruby's worker fails on a job that was cancelled before its first run.
            ("HSETNX", key, "c", "null"),
            ("HGET", key, "cancelled"),
            ("EXPIRE", key, ITERATION_TTL_S, *only_first),
        )
        return int(replies[2])

    def deploy_mark(self, label: str) -> "DeployMark":
        """Draw a deployment into the charts of the Web UI, at this minute (§12.5).

        A label is marked once within 60 seconds, whoever says it; of several labels in one minute the
        first is kept.

        Args:
            label: what people shall read there, such as a version or a commit's subject.

        Raises:
            PayloadError: that is no label.
            RedisUnavailable: nothing was written.
        """
        from kiqbridge.deploy import parse_label, write_mark  # noqa: PLC0415 - few clients mark

        return write_mark(self._redis, self.keys, parse_label(label), time.time())

    def pause_queue(
        self,
        name: str,
        *,
        reason: str = "",
        by: str = "",
        for_s: float | None = None,
        until: "float | datetime | None" = None,
    ) -> "Pause":
        """Let no worker take jobs of this queue, Ruby's with Sidekiq Pro included; running ones go on.

        In effect at once, also for a queue that is empty or unknown. Pausing again replaces reason and
        end.

        Args:
            name: without prefix.
            reason, by: why and who, kept for whoever looks.
            for_s: seconds after which it ends by itself; default: never.
            until: epoch seconds or an aware datetime at which it ends by itself.

        Raises:
            PayloadError: a wrong value; nothing was written.
            RedisUnavailable: pause again, which does no harm.
        """
        from kiqbridge import pauses  # noqa: PLC0415 - few clients pause

        return pauses.pause(
            self._redis, self.keys, "queue", name, reason=reason, by=by, for_s=for_s, until=until
        )

    def unpause_queue(self, name: str) -> bool:
        """End the pause of a queue, whoever made it; whether it was paused. Raises as `pause_queue`."""
        from kiqbridge import pauses  # noqa: PLC0415

        return pauses.unpause(self._redis, self.keys, "queue", name)

    def pause_class(
        self,
        job_class: object,
        *,
        reason: str = "",
        by: str = "",
        for_s: float | None = None,
        until: "float | datetime | None" = None,
    ) -> "Pause":
        """Let our workers run no job of this class: those they meet are put off, a minute each time.

        In effect within a second; Ruby's workers know nothing of it. After the end of the pause jobs
        come back within 70 s.

        Args:
            job_class: a declared job, or a name as on the wire; a Rails job's own class.
            reason, by, for_s, until: as for `pause_queue`.

        Raises:
            As `pause_queue`.
        """
        name = _wire_name(job_class)
        from kiqbridge import pauses  # noqa: PLC0415 - few clients pause

        return pauses.pause(
            self._redis, self.keys, "class", name, reason=reason, by=by, for_s=for_s, until=until
        )

    def unpause_class(self, job_class: object) -> bool:
        """End the pause of a class; whether it was paused. Raises as `pause_queue`."""
        from kiqbridge import pauses  # noqa: PLC0415

        return pauses.unpause(self._redis, self.keys, "class", _wire_name(job_class))

    def pauses(self) -> "list[Pause]":
        """What is paused now: queues, those that Ruby paused included, then classes.

        Raises:
            RedisUnavailable: nothing was read.
        """
        from kiqbridge import pauses  # noqa: PLC0415

        return pauses.list_pauses(self._redis, self.keys)

    def prepare_inline(self, item: Mapping[str, Any]) -> dict[str, Any] | None:
        """A payload as it would arrive, without Redis (§5.8); None when middleware stops it.

        Raises:
            PayloadError: as `push`.
        """
        prepared = self._prepare(item, time.time(), profile=self._fleet_profile.without_redis())
        return None if prepared is None else json_text.loads(self._dumps(prepared.payload))

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
        prepared.payload["enqueued_at"] = timestamp(now, prepared.profile)
        return prepared.queue, json_text.dumps_moved(prepared.payload, original)

    def stamp_moved(self, members: Sequence[bytes], now: float) -> list[tuple[str, bytes] | None]:
        """What `prepare_moved` would say of each member; None where it must be asked (§9.1)."""
        if len(self.middleware):
            return [None] * len(members)
        return stamp(members, json_text.dumps(timestamp(now, self.wire_profile())))

    def _prepare(
        self,
        item: Mapping[str, Any],
        now: float,
        *,
        trusted: bool = False,
        bulk: bool = False,
        profile: Profile | None = None,
    ) -> _Prepared | None:
        own_jid = not isinstance(item, Mapping) or "jid" not in item
        if active_job.is_active_job(item) and not trusted:
            rails_job = active_job.parse(item)
            profile = profile or self.wire_profile()
            item = active_job.wrap(rails_job, now, profile, bulk=bulk)
        declared: object = item.get("class") if isinstance(item, Mapping) else None
        definition = definition_of(declared)
        if definition is not None:
            item = {**item, "class": definition.name}
        item = validate(item)
        profile = profile or self.wire_profile()
        defaults = definition.options if definition else DEFAULT_OPTIONS
        payload = normalize(item, defaults, now, profile)
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
        return _Prepared(payload=payload, at=at, own_jid=own_jid, profile=profile)

    def _write(self, jobs: Sequence[_Prepared]) -> None:
        if not jobs:
            return
        now = time.time()
        texts = [self._text(job, now) for job in jobs]
        for part in slices_by_bytes(texts, BATCH_BYTES):
            self._write_texts(jobs[part], texts[part])

    def _write_texts(self, jobs: Sequence[_Prepared], texts: Sequence[bytes]) -> None:
        commands: list[list[str | bytes]] = []
        scheduled: list[str | bytes] = []
        by_queue: dict[str, list[bytes]] = {}
        for job, text in zip(jobs, texts, strict=True):
            if job.at is None:
                by_queue.setdefault(job.queue, []).append(text)
            else:
                scheduled += [_score(job.at), text]
        if by_queue:
            commands.append(["SADD", self.keys.queues, *by_queue])
        commands += [["LPUSH", self.keys.queue(name), *texts] for name, texts in by_queue.items()]
        if scheduled:
            commands.append(["ZADD", self.keys.schedule, *scheduled])
        self._send(commands, [job.jid for job in jobs], jobs[0].payload["class"])

    def _send(
        self, commands: Sequence[Sequence[str | bytes]], jids: Sequence[str], job_class: str
    ) -> None:
        """Write jobs, of which `job_class` is the first one's."""
        try:
            self._redis.run(*commands, repeatable=False, replicas=self._replicas)
        except ReplyLost as error:
            raise _unknown(jids[0], job_class, error) from error
        except NotReplicated as doubt:
            raise _not_replicated(jids, doubt) from doubt
        finally:
            if PENDING:  # a job that does little but push is interrupted here
                checkpoint()

    def _run_script(
        self,
        script: scripts.Script,
        keys: Sequence[str],
        args: Sequence[str | bytes | float],
        *,
        repeatable: bool,
    ) -> tuple[Any, NotReplicated | None]:
        """The answer, and what is in doubt about it."""
        try:
            answer = self._redis.script(
                script, keys, args, repeatable=repeatable, replicas=self._replicas
            )
        except NotReplicated as doubt:
            return doubt.replies[0], doubt
        finally:
            if PENDING:  # as in `_send`
                checkpoint()
        return answer, None

    def _text(self, job: _Prepared, now: float) -> bytes:
        if job.at is None:
            job.payload["enqueued_at"] = timestamp(now, job.profile)
        else:
            job.payload.pop("enqueued_at", None)
        return self._dumps(job.payload)

    def _dumps(self, payload: Mapping[str, Any]) -> bytes:
        try:
            text = json_text.dumps(payload)
        except (TypeError, ValueError) as error:
            raise PayloadError(f"job: {shorten(payload)} has no JSON text: {error}") from error
        check_size(text, self._max_payload_bytes)
        return text

    def _target(self, job: _Prepared) -> str:
        return self.keys.queue(job.queue) if job.at is None else self.keys.schedule

    def _script_args(self, job: _Prepared, now: float) -> list[str | bytes]:
        return [job.queue, "" if job.at is None else _score(job.at), self._text(job, now)]


_default: Client | None = None
_default_lock = threading.Lock()
_default_middleware: Chain[ClientMiddleware] = Chain()
"""What each client that declared jobs push through begins with, however often it is configured."""


def add_default_middleware(
    entry: ClientMiddleware, *, instead_of: ClientMiddleware | None = None
) -> None:
    """Add middleware to the client that declared jobs push through, and to those configured later."""
    with _default_lock:
        chains = [_default_middleware]
        if _default is not None:
            chains.append(_default.middleware)
        for chain in chains:
            if instead_of is not None:
                chain.remove(instead_of)
            if entry not in list(chain):
                chain.add(entry)


def configure(
    url: str | None = None,
    *,
    redis: "redis.Redis | None" = None,
    namespace: str | None = None,
    profile: str | None = None,
    wait_replicas: int | None = None,
) -> Client:
    """Set the client that `perform_async` and its like use, and return it; arguments as `Client`."""
    global _default  # noqa: PLW0603 - the one process-wide client that declared jobs push through
    client = Client(
        url, redis=redis, namespace=namespace, profile=profile, wait_replicas=wait_replicas
    )
    with _default_lock:
        client.middleware = _default_middleware.copy()
        _default = client
    return client


def adopt_default_client(client: Client) -> None:
    """Let declared jobs push through this one, unless `configure` has chosen another."""
    global _default  # noqa: PLW0603 - as in configure
    with _default_lock:
        if _default is None:
            _default = client


def release_default_client(client: Client) -> None:
    """Undo `adopt_default_client`."""
    global _default  # noqa: PLW0603 - as in configure
    with _default_lock:
        if _default is client:
            _default = None


def default_client() -> Client:
    """The configured client, or one made from the environment at first use."""
    global _default  # noqa: PLW0603 - as in configure
    with _default_lock:
        if _default is None:
            _default = Client()
            _default.middleware = _default_middleware.copy()
        return _default


def _check_script_size(count: int) -> None:
    if count > BATCH_SIZE:
        raise PayloadError(
            f"jobs: {count} jobs in one call, but all or nothing holds for {BATCH_SIZE:,}; split them"
        )


def _score(at: float) -> str:
    """The number's own text; that of a sub-class, such as numpy's, could be anything."""
    return repr(int(at) if isinstance(at, int) else float(at))


def _tick_outcome(jobs: Sequence[_Prepared], answer: list[bytes], entry: bytes) -> TickOutcome:
    kind = cast("Literal['enqueued', 'duplicate', 'stale', 'future']", answer[0].decode())
    if kind in ("stale", "future"):
        return TickOutcome(kind=kind, jobs=[])
    if kind == "enqueued":
        return TickOutcome(kind=kind, jobs=[job.outcome() for job in jobs])
    if answer[1] == entry:  # our own claim, whose reply was lost
        return TickOutcome(kind="enqueued", jobs=[job.outcome() for job in jobs])
    known = json_text.loads(answer[1])["jids"]
    return TickOutcome(
        kind=kind, jobs=[job.outcome(jid) for job, jid in zip(jobs, known, strict=False)]
    )


def _wire_name(job_class: object) -> str:
    definition = definition_of(job_class)
    return definition.name if definition else cast("str", job_class)  # checked by `pauses`


def _shown_class(payload: Mapping[str, Any]) -> str:
    """The class that people know: that inside Active Job's wrapper, as Sidekiq shows it (§17)."""
    wrapped = payload.get("wrapped") if payload["class"] in active_job.WRAPPERS else None
    return cast("str", wrapped if isinstance(wrapped, str) and wrapped else payload["class"])


def _guard_of(job: _Prepared, dedupe_key: str | Identity | None) -> str:
    """The guard's name, empty for none.

    Raises:
        PayloadError: the key cannot be sent.
    """
    if not dedupe_key:
        return ""
    for part in (dedupe_key,) if isinstance(dedupe_key, str) else dedupe_key.parts:
        check_json(part, "dedupe_key")
    return guard_field(dedupe_key, _performed_class(job.payload))


def _performed_class(payload: Mapping[str, Any]) -> str:
    """The class whose code runs: of a Rails job the one inside, whether or not its wrapper names it."""
    shown = _shown_class(payload)
    if shown in active_job.WRAPPERS and payload["args"] and isinstance(payload["args"][0], Mapping):
        inner = payload["args"][0].get("job_class")
        return inner if isinstance(inner, str) and inner else shown
    return shown


def _not_replicated(jids: Sequence[str], doubt: NotReplicated) -> PushNotReplicated:
    several = f"jobs {jids[0]} and {len(jids) - 1} more are"
    return PushNotReplicated(
        f"{several if len(jids) > 1 else f'job {jids[0]} is'} enqueued on the primary, but {doubt}; a "
        "failover now may lose them. Pushing again would run them twice, except with the same dedupe_key "
        "or tick",
        jids,
    )


def _unknown(jid: str, job_class: str, error: ReplyLost) -> PushOutcomeUnknown:
    return PushOutcomeUnknown(
        f"job {jid} ({job_class}) was sent but not confirmed: {error}; it may or may not "
        "be enqueued. Push it again with the same jid if running twice is better than not at all",
        jid,
    )
