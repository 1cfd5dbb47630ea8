"""Pushing jobs in Sidekiq's format (protocol §5).

A push goes: `prepare` builds and checks the payload, `job_writer` writes it. Bad input is refused before
Redis. Three kinds of push differ in what a lost reply means:

- `push`, `push_bulk`: as Sidekiq's; a lost reply raises `PushOutcomeUnknown`, never repeats;
- `push_once`: each job under a guard; repeating it, here or by the caller, enqueues once;
- `push_tick`: all jobs of one occurrence of a schedule, claimed in its ledger in the same script.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kiqbridge import seams
from kiqbridge.client.bulk_push import push_bulk
from kiqbridge.client.job_handle import JobHandle
from kiqbridge.client.job_writer import JobWriter
from kiqbridge.client.middleware import (
    COLLECTOR,
    Chain,
    ClientMiddleware,
    ServerMiddleware,
    collector_of,
)
from kiqbridge.client.off_loop import off_loop
from kiqbridge.client.operations import Operations
from kiqbridge.client.prepare import PreparedJob, prepare, prepare_plain
from kiqbridge.config.client_settings import ForClients, RedisAccess, read_access, read_namespace
from kiqbridge.config.setting import choose
from kiqbridge.runtime.clock import client_now
from kiqbridge.store.redis_pool import RedisPool, has_stand_in
from kiqbridge.store.replies import WAIT_TIMEOUT_MS, parse_replicas
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import TICK_HORIZON_S

if TYPE_CHECKING:
    import redis

    from kiqbridge.client.fleets import FleetWriters
    from kiqbridge.client.group_commit import GroupCommit
    from kiqbridge.client.guarded_push import Enqueued
    from kiqbridge.client.tick_push import TickOutcome
    from kiqbridge.config.config import Fleets
    from kiqbridge.wire.guards import Identity
    from kiqbridge.wire.tick_mark import Overlap


class Client(Operations):
    """Enqueues jobs; one client may be shared by all threads.

    Args:
        url: address of Redis; default from REDIS_PROVIDER or REDIS_URL, REDIS_SECRET_ARN and their like.
        redis: an existing redis-py client whose address and credentials are used instead.
        namespace: key prefix, `myapp` or `myapp:`; default from KIQBRIDGE_NAMESPACE.
        profile: `7`, `8` or `auto`, see `wire_profile`; default from KIQBRIDGE_WIRE_PROFILE.
        pool: connections to share with others, instead of url and redis.
        wait_replicas: how many replicas must confirm each push, in the same round trip (WAIT), else
            `PushNotReplicated`; default from KIQBRIDGE_WAIT_REPLICAS, or 0.
        wait_timeout_ms: milliseconds that they may take, up to 2,500.
        max_payload_bytes: bytes of a job's text above which it is refused, 0 = no limit; default from
            KIQBRIDGE_MAX_PAYLOAD_BYTES, or 10,000,000.

    Raises:
        ConfigError: a wrong value; names the argument or the environment variable.

    Attributes:
        fleets: writes jobs to the fleets of their queues, where KIQBRIDGE_FLEETS is set and no argument says another
            place; else None.
        middleware: functions around each push, also when the poller moves a job.
        server_middleware: functions around each job that `perform_inline` runs.
        writer: writes prepared jobs.
    """

    def __init__(
        self,
        url: str | RedisAccess | None = None,
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
        is_by_settings = not (url or redis or namespace is not None or pool)
        if namespace is None:
            namespace = read_namespace(environ)
        if pool is None:
            where = read_access(environ) if url is None and redis is None else url
            pool = RedisPool(where, client=redis, namespace=namespace)
        replicas = parse_replicas(
            choose(ForClients.wait_replicas, wait_replicas, environ),
            wait_timeout_ms,
            source="wait_replicas",
        )
        most = choose(ForClients.max_payload_bytes, max_payload_bytes, environ)

        super().__init__(
            pool, Keys(namespace), choose(ForClients.profile, profile or None, environ)
        )
        self.writer = JobWriter(pool, self.keys, replicas=replicas, max_payload_bytes=most)
        self.middleware: Chain[ClientMiddleware] = Chain()
        self.server_middleware: Chain[ServerMiddleware] = Chain()
        self.fleets: FleetWriters | None = None
        self._of_fleets: dict[JobWriter, Client] = {}
        self._group: GroupCommit | None = None
        if is_by_settings and environ.get("KIQBRIDGE_FLEETS"):
            self.use_fleets(seams.call("read_fleets")(environ))

    @classmethod
    def of_fleet(cls, name: str) -> "Client":
        """A client of one of the fleets in KIQBRIDGE_FLEETS; results and batches are those of this fleet.

        Raises:
            ConfigError: there is none of this name, or a setting is wrong.
        """
        fleets = seams.call("read_fleets")({**os.environ, "KIQBRIDGE_FLEET": name})
        access = fleets.fleets[name].access
        client = cls(access, namespace=access.namespace)
        client.use_fleets(fleets)
        return client

    def use_fleets(self, fleets: "Fleets") -> None:
        """Push each job to the fleet of its queue; all other calls stay with the Redis of this client."""
        self.fleets = seams.call("fleet_writers")(fleets, self.writer)

    def _writer_of(self, jobs: Sequence[PreparedJob]) -> JobWriter:
        """Writes the jobs of one call.

        Raises:
            PayloadError: they belong to several fleets, or to none.
        """
        return self.writer if self.fleets is None else self.fleets.writer(jobs)

    def __repr__(self) -> str:
        address, namespace = self.pool.address, self.keys.prefix
        return f"Client({address}, {namespace=}, profile={self.profile!r})"

    @property
    def max_payload_bytes(self) -> int:
        """Bytes of a job's text above which it is refused; 0 = no limit."""
        return self.writer.max_payload_bytes

    def close(self) -> None:
        """Close idle connections; the client can be used again."""
        self.pool.close()
        if self.fleets is not None:
            self.fleets.close()

    def handle(self, jid: str) -> JobHandle:
        """The handle of a job that was pushed; nothing is read.

        Args:
            jid: of a job that was pushed to this client's Redis; with fleets, to its own.
        """
        handle = JobHandle(jid)
        handle.client = self
        return handle

    def handle_from(self, jid: str, writer: JobWriter) -> JobHandle:
        """A handle of a job that this writer wrote, whatever its fleet."""
        if writer is self.writer:
            return self.handle(jid)
        client = self._of_fleets.get(writer)
        if client is None:
            pool, namespace = writer.pool, writer.keys.prefix
            client = Client(pool=pool, namespace=namespace, profile=self.profile)
            client.middleware = self.middleware
            self._of_fleets[writer] = client
        return client.handle(jid)

    def push(self, item: Mapping[str, Any]) -> JobHandle | None:
        """Enqueue one job: LPUSH queue:NAME, and SADD queues once a minute; or ZADD schedule if the item has `at`.

        Args:
            item: `class` (a name or a declared job) and `args` (list), and any other attribute of
                §3.2; `at` is an absolute time in epoch seconds, however small. `active_job` in the
                place of `class` names a Rails job, see `active_job`.

        Returns:
            The jid, which can be asked about the job; None when middleware stopped it, or a rule of the job left it
            out (docs/how_to/flow.md).

        Raises:
            NotUnique: a unique job that is to raise.
            PayloadError: refused before Redis, naming field and value.
            RedisUnavailable: nothing was written.
            PushOutcomeUnknown: sent, but the reply was lost.
            PushNotReplicated: enqueued, but not confirmed by `wait_replicas` replicas.
        """
        if COLLECTOR.get() is not None and (collector := collector_of(self)) is not None:
            jid = collector.push(item)
            return None if jid is None else self.handle(jid)
        now = client_now()
        job = prepare(item, now, self.middleware, self.fleet_profile.current, by_rule=True)
        if job is None:
            return None
        writer = self.writer if self.fleets is None else self.fleets.writer([job])
        if job.rule is not None:
            from kiqbridge.client.guarded_push import GuardedPush, push_jobs  # noqa: PLC0415 - few jobs have one

            if push_jobs([GuardedPush(0, job)], writer, now=now)[0].duplicate:
                return None
        else:
            writer.write_one(job)
        return self.handle_from(job.jid, writer)

    def push_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        """Enqueue one job per element of `args`, a list of lists (§5.7), 1,000 or 1 MB a round trip.

        Besides the attributes of `push`: `at` may be a list with one time per job;
        `spread_interval` (seconds) gives each job a random time within it; `batch_size`.

        Returns:
            The jids in order, None in the place of jobs that middleware stopped or a rule left out.

        Raises:
            KiqbridgeError: as `push`; jobs before it may be enqueued: `pushed`, `not_pushed` and `unknown` of the
                error say which. After a lost reply the jid raised is the first of its round trip.
        """
        if COLLECTOR.get() is not None and (collector := collector_of(self)) is not None:
            return collector.push_bulk(item)
        return push_bulk(item, self.middleware, self.fleet_profile, self._writer_of)

    async def apush(self, item: Mapping[str, Any]) -> JobHandle | None:
        """Enqueue one job as `push` does, without blocking the event loop.

        Jobs of a class and arguments alone travel with those that other tasks push at the same time (group_commit.py);
        all else is pushed on a thread (`off_loop`).
        """
        job = self._prepare_for_group(item)
        if job is None:
            return await off_loop(self.push, item)
        if self._group is None:
            from kiqbridge.client.group_commit import GroupCommit  # noqa: PLC0415 - needs asyncio

            self._group = GroupCommit(self.writer)
        await self._group.write(job)
        return self.handle(job.jid)

    def _prepare_for_group(self, item: Mapping[str, Any]) -> PreparedJob | None:
        """The job, if its push can wait for nothing but the round trip; else None."""
        if (
            type(item) is not dict
            or len(item) != 2  # noqa: PLR2004 - class and args, see `prepare`
            or len(self.middleware)
            or self.fleets is not None
            or COLLECTOR.get() is not None
            or has_stand_in()
            or self.fleet_profile.known() is None
        ):
            return None
        return prepare_plain(item, client_now(), self.fleet_profile.current)

    async def apush_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        """Enqueue many jobs as `push_bulk` does, on a thread, so that the event loop continues (`off_loop`)."""
        return await off_loop(self.push_bulk, item)

    def push_once(
        self,
        items: Sequence[Mapping[str, Any]],
        dedupe_keys: "Sequence[str | Identity | None]",
        *,
        ttl_s: int | None = None,
        jids: "Sequence[str | None] | None" = None,
        limits: "Mapping[str, int] | None" = None,
        checked: bool = False,
    ) -> "list[Enqueued]":
        """Enqueue jobs, each at most once per class and dedupe key, all in one script.

        A text is a key of yours, the same as `dedupe_key` of an event for the enqueue function; an
        `Identity` is one of another source. For a Rails job its own class counts. Jobs with a key of None
        are not guarded, and one alone is written by the commands of `push`. A lost reply is repeated if all are guarded.

        Args:
            items: jobs as for `push`.
            dedupe_keys: one for each.
            ttl_s: seconds to remember each; default: as long as its source may deliver again
                (`keep_s` of `wire.guards.Source`), 17 days for a key of yours.
            jids: drawn by the caller, for items without one, None for others. One that is found in Redis
                under its own guard was enqueued by an earlier call of this caller: no duplicate.
            limits: queue → number of waiting jobs from which nothing more is pushed to it; a job that
                runs later, or is a duplicate, passes.
            checked: the caller has called `wire.payload.check_payload` for each item.

        Returns:
            One outcome per job that middleware did not stop.

        Raises:
            KiqbridgeError: as `push`; nothing is written when it raises, except after
                `PushOutcomeUnknown`.
            QueueTooDeep: names all queues that are at their limit.
        """
        # The names, not their module: Python looks longer for that, at each call.
        from kiqbridge.client.guarded_push import check_count, guarded, push_jobs  # noqa: PLC0415 - few clients guard

        check_count(len(items))
        now, profile = client_now(), self.fleet_profile.current
        drawn = [None] * len(items) if jids is None else jids
        jobs = []
        for index, (item, key, jid) in enumerate(zip(items, dedupe_keys, drawn, strict=True)):
            job = prepare(
                item, now, self.middleware, profile, by_rule=True, jid=jid, checked=checked
            )
            if job is not None:
                jobs.append(guarded(index, job, key, ttl_s))
        writer = self._writer_of([each.job for each in jobs])
        return push_jobs(jobs, writer, now=now, limits=limits)

    def push_tick(
        self,
        schedule: str,
        instant: int,
        items: Sequence[Mapping[str, Any]],
        *,
        by: str,
        horizon_s: int = TICK_HORIZON_S,
        ahead_s: float | None = None,
        limits: "Mapping[str, int] | None" = None,
        overlap: "Overlap" = "allow",
        max_age_s: float | None = None,
        ignore_pause: bool = False,
    ) -> "TickOutcome":
        """Enqueue the jobs of one occurrence of a schedule, all or none, once however many callers ask.

        Each job gets the attribute `tick`, by which its end is added to the ledger.

        Args:
            schedule: name of the schedule, the same text from every caller (`my-stack/Nightly`).
            instant: the scheduled time in epoch seconds, floored to the minute.
            items: jobs as for `push`.
            by: the clock that delivers; the ledger stores it for operators.
            horizon_s: how long the ledger remembers; an older occurrence is stale.
            ahead_s: how far the instant may lie ahead of the clock of Redis, None = any time.
            limits: as for `push_once`.
            overlap: what each job does while an earlier job of the schedule runs.
            max_age_s: seconds after `instant` from which a job is not begun any more; None = never.
            ignore_pause: enqueue also while the schedule is paused, or to skip this occurrence.

        Raises:
            As `push_once`, but a lost reply is repeated: the ledger makes that safe.
        """
        from kiqbridge.client import tick_push  # noqa: PLC0415 - as push_once
        from kiqbridge.client.guarded_push import check_count  # noqa: PLC0415
        from kiqbridge.wire.tick_mark import TickMark  # noqa: PLC0415

        check_count(len(items))
        now, profile = client_now(), self.fleet_profile.current
        prepared = [prepare(item, now, self.middleware, profile, by_rule=True) for item in items]
        occurrence = tick_push.Occurrence(
            mark=TickMark(schedule=schedule, at=instant, overlap=overlap, max_age_s=max_age_s),
            by=by,
            horizon_s=horizon_s,
            ahead_s=ahead_s,
            ignore_pause=ignore_pause,
            scope=tick_push.scope_of(items),
        )
        jobs = [(index, job) for index, job in enumerate(prepared) if job is not None]
        writer = self._writer_of([job for _, job in jobs])
        fleets = self.fleets
        jids = None if fleets is None else fleets.find_tick(writer, schedule, instant)
        if jids is not None:
            return tick_push.known_tick(jobs, jids, "enqueued" if jids and jobs else "skipped")
        return tick_push.push_tick(occurrence, jobs, writer, now=now, limits=limits or {})

    def find_enqueued(
        self, items: Sequence[Mapping[str, Any]], dedupe_keys: "Sequence[str | Identity | None]"
    ) -> list[str | None]:
        """For each item the jid under which `push_once` enqueued it, or None; nothing is written.

        Raises:
            PayloadError: an item is no job.
            RedisUnavailable: nothing was read.
        """
        from kiqbridge.client import guarded_push  # noqa: PLC0415 - as push_once

        now, none = client_now(), Chain[ClientMiddleware]()
        found = (prepare(item, now, none, self.fleet_profile.without_redis) for item in items)
        jobs = [job for job in found if job is not None]  # all of them: there is no middleware
        keyed = zip(jobs, dedupe_keys, strict=True)
        guards = [guarded_push.guard_of(job, key) for job, key in keyed]
        there = self._writer_of(jobs)
        return guarded_push.find_jids(there.pool, there.keys, guards, now)

    def find_tick(self, schedule: str, instant: int) -> list[str] | None:
        """The jids that `push_tick` enqueued for this occurrence, or None; nothing is written.

        Raises:
            RedisUnavailable: nothing was read.
        """
        from kiqbridge.client import tick_push  # noqa: PLC0415 - as push_once

        if self.fleets is not None:
            return self.fleets.find_tick(None, schedule, instant)
        return tick_push.find_tick(self.pool, self.keys, schedule, instant)
