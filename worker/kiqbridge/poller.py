"""Moving due jobs from `retry` and `schedule` to their queues, to the millisecond (protocol §9).

One process of the fleet leads at a time, so the cost does not grow with the number of processes.
The leader knows when the next job is due and is told when somebody schedules an earlier one.
Losing the lead costs at worst that middleware runs twice for a job, never the job: each move is one
script that checks the score again. Ruby's pollers may move the same sets.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import redis
from redis.connection import AbstractConnection

from kiqbridge import json_text, scripts, threads, user_code
from kiqbridge.agreed_time import AgreedTime
from kiqbridge.client import Client
from kiqbridge.errors import KiqbridgeError, PayloadError, RedisRefused
from kiqbridge.forgetting import forget_what_is_over
from kiqbridge.keys import Keys
from kiqbridge.names import text_of
from kiqbridge.raw_job import (
    MOST_PARSED_BYTES,
    most_kept_bytes,
    moved_text,
    too_long_to_keep,
    unreadable_job,
)
from kiqbridge.redis_connection import Command, RedisConnection
from kiqbridge.retry import RetryPolicy, error_class, error_message, failed_payload
from kiqbridge.threads import keep_running
from kiqbridge.unregistered import UnregisteredWatch
from kiqbridge.wakeup import SAFETY_LOOK_S, TrackingConnection
from kiqbridge.wrong_types import WrongTypes

logger = logging.getLogger(__name__)

BATCH = 1000
"""Members moved per script, at most; see also `RedisConnection.batch_bytes`."""

LEAD_S = 8.0
"""How long a leader that died blocks the others, at most."""

RENEW_S = 3.0
HEAR_S = 15.0
"""How often Redis is asked for the time while nothing waits."""

GATHER_S = 0.005
"""How long changes are gathered before the heads are read again: many failures are as many changes."""

CLEANUP_S = 60
FORGET_S = 3600.0
"""How often the leader forgets guards and ledgers that are over; pushes forget some as well."""
RETRY_S = 1.0

_DUE = scripts.load("due")
_LEAD = scripts.load("lead")
_PROMOTE = scripts.load("promote")
_BURY = scripts.load("bury")

_FAILURES = (KiqbridgeError, redis.exceptions.RedisError, OSError)


class Poller:
    """The thread that moves due jobs while this process leads.

    Attributes:
        earliest_due: epoch seconds at which the first job is due, as of the last look; None = nothing
            waits, or another process leads.
    """

    def __init__(
        self,
        *,
        identity: str,
        keys: Keys,
        client: Client,
        connection: RedisConnection,
        track: Callable[[], AbstractConnection],
        dead_bounds: Callable[[float], tuple[float, int]],
        max_payload_bytes: int = 0,
    ) -> None:
        self._identity = identity
        self._keys = keys
        self._client = client
        self._connection = connection
        self._tracking = TrackingConnection(track, watched="scheduled jobs")
        self._time = AgreedTime()
        self._dead_bounds = dead_bounds
        self._most_bytes = most_kept_bytes(max_payload_bytes)
        self._renew_at = float("inf")
        self.earliest_due: float | None = None
        self._leads = False
        self._clean_up_at = 0.0
        self._forget_at = 0.0
        self._look_at = 0.0
        self._hear_at = 0.0
        self._waits = True  # for all that is known
        self._stuck = False
        self._wrong_types = WrongTypes(
            logger, "the poller (retry, schedule, dead, queues, kb:poller)"
        )
        self._unregistered = UnregisteredWatch(keys)
        self._stopping = threading.Event()
        self._thread = self._new_thread()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def quiet(self) -> None:
        """Move nothing any more; another process takes the lead."""
        self._stopping.set()

    def stop(self) -> None:
        """End, and hand over the lead at once."""
        self._stopping.set()
        self._tracking.close()  # ends its wait
        if self._thread.is_alive():
            self._thread.join(RENEW_S + RETRY_S)

    def move_due(self, source: str, now: float) -> int:
        """Move all jobs of one set that are due at `now` (epoch seconds); returns how many.

        Raises:
            RedisUnavailable: what was not moved is still in the set.
        """
        moved = left = 0
        while not self._stopping.is_set():
            threads.beat()
            if time.monotonic() >= self._renew_at and not self._lead():
                break
            due = self._connection.script(
                _DUE, [source], [repr(now), left, BATCH, self._connection.batch_bytes]
            )
            if not due:
                break
            done = self._move(source, due, now)
            moved += done
            # Left are those that somebody else moves at this moment, and those whose queue's key is
            # of a foreign type or whose middleware fails: they must not hold up what is behind them.
            left += len(due) - done
        self._stuck = self._stuck or left > 0
        return moved

    def restart(self) -> None:
        """Start its thread anew, after that has ended though it should run."""
        self._thread = self._new_thread()
        self._thread.start()

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name="kiqbridge-poller", daemon=True)

    def _run(self) -> None:
        keep_running(
            "poller",
            self._poll,
            is_ending=self._stopping.is_set,
            wait=self._stopping.wait,
        )

    def _poll(self) -> None:
        while not self._stopping.is_set():
            threads.beat()
            try:
                if self._lead():
                    self._serve()
                else:
                    self.earliest_due = None
                    self._stopping.wait(RENEW_S)
                self._wrong_types.mended()
            except _FAILURES as error:
                logger.debug("polling waits for Redis: %s", error)
                self._wrong_types.note(error)
                self._look_at = 0.0  # another connection is told nothing before it has looked
                self._stopping.wait(RETRY_S)
            except Exception:
                self._look_at = 0.0
                if not self._stopping.is_set():
                    logger.exception("moving due jobs failed; it is tried again")
                    self._tracking.close()  # it may be out of step
                self._stopping.wait(RETRY_S)
        self._hand_over()

    def _lead(self) -> bool:
        lead_ms = int(LEAD_S * 1000)
        self._renew_at = time.monotonic() + RENEW_S
        if self._leads:
            # One command, where the script takes three. Should somebody else lead by now, that lead is
            # prolonged once, which costs nothing as long as its holder lives.
            leader = self._connection.call("GETEX", self._keys.poller, "PX", lead_ms)
            self._leads = leader == self._identity.encode()
        if not self._leads:
            self._leads = self._take_lead(lead_ms)
        if self._leads and time.monotonic() >= self._clean_up_at:
            self._clean_up_at = time.monotonic() + CLEANUP_S
            self._clean_up_processes()
            self._forget()
        if self._leads:
            self._unregistered.step(self._connection, time.monotonic())
        return self._leads

    def _take_lead(self, lead_ms: int) -> bool:
        # Looking first is what most processes do, most of the time; not SET … NX, which a server whose
        # memory is full refuses: due jobs would wait for a leader until there is room again.
        # Who does not lead hears the time as well, to know it when the lead falls to it.
        # Nor EXISTS, to which a key of a foreign type is a leader, for ever.
        leader, *time_of_redis = self._connection.run(("GET", self._keys.poller), *self._ask_time())
        self._hear(time_of_redis)
        self._look_at, self._waits = 0.0, True
        return leader is None and bool(
            self._connection.script(_LEAD, [self._keys.poller], [self._identity, lead_ms])
        )

    def _hand_over(self) -> None:
        try:
            self._connection.script(_LEAD, [self._keys.poller], [self._identity, 0])
        except KiqbridgeError as error:
            logger.debug("the lead ends by itself in %.0f s: %s", LEAD_S, error)

    def _move_all_due(self) -> None:
        self._stuck = False
        for source in (self._keys.retry, self._keys.schedule):
            self.move_due(source, self._time.now())

    def _serve(self) -> None:
        """Move what is due, and wait for what comes, until the lead must be renewed."""
        while not self._stopping.is_set():
            threads.beat()
            if time.monotonic() >= self._look_at:
                seconds = self._seconds_to_next()
                self._look_at = time.monotonic() + min(seconds, SAFETY_LOOK_S)
                if seconds <= 0:
                    self._move_all_due()
                    if self._stuck:  # looking again at once would find the same
                        self._stopping.wait(RETRY_S)
                        return
            now = time.monotonic()
            if now >= self._renew_at:
                return
            news = self._tracking.wait(max(min(self._look_at, self._renew_at) - now, 0))
            if news:
                self._stopping.wait(GATHER_S)
            if news or not self._tracking.tracks:
                self._look_at = self._hear_at = 0.0

    def _seconds_to_next(self) -> float:
        """Reading the keys also arms them: a change ends the wait."""
        keys = (self._keys.retry, self._keys.schedule)
        if not self._waits:
            found, *time_of_redis = self._tracking.read(("EXISTS", *keys), *self._ask_time())
            self._hear(time_of_redis)
            if not found:
                self.earliest_due = None
                return float("inf")
        retry, schedule, *time_of_redis = self._tracking.read(
            *(("ZRANGE", key, 0, 0, "WITHSCORES") for key in keys), *self._ask_time()
        )
        self._hear(time_of_redis)
        scores = [float(head[0][1]) for head in (retry, schedule) if head]
        self._waits = bool(scores)
        self.earliest_due = min(scores, default=None)
        return min(scores, default=float("inf")) - self._time.now()

    def _ask_time(self) -> list[Command]:
        """Each time while something waits for its moment, else now and then."""
        is_near = self._leads and self._waits
        return [("TIME",)] if is_near or time.monotonic() >= self._hear_at else []

    def _hear(self, replies: Sequence[Sequence[bytes]]) -> None:
        for seconds, micros in replies:  # one, if it was asked for
            self._time.hear(int(seconds) + int(micros) / 1_000_000)
            self._hear_at = time.monotonic() + HEAR_S

    def _move(self, source: str, due: Sequence[bytes], now: float) -> int:
        jobs: dict[str, tuple[list[bytes], list[bytes]]] = {}
        dropped: list[bytes] = []
        buried: list[bytes] = []
        for member, stamped in zip(due, self._client.stamp_moved(due, now), strict=True):
            try:
                pushed = stamped or self._prepared(member, now)
            except (json_text.MalformedJSON, PayloadError) as error:
                buried += [member, self._with_reason(member, error, now)]
                continue
            except BaseException as error:  # noqa: BLE001 - whatever it is, the other jobs must go on
                user_code.log_error(
                    logger,
                    error,
                    "client middleware failed; the job stays where it is and is due again",
                )
                continue
            if pushed is None:
                dropped.append(member)
                continue
            queue, text = pushed
            members, texts = jobs.get(queue) or jobs.setdefault(queue, ([], []))
            members.append(member)
            texts.append(text)
        moved = self._promote(source, jobs, dropped, now) if jobs or dropped else 0
        if buried:
            cutoff, most = self._dead_bounds(now)
            moved += int(
                self._connection.script(
                    _BURY, [source, self._keys.dead], [repr(now), repr(cutoff), most, *buried]
                )
            )
        return moved

    def _promote(
        self,
        source: str,
        jobs: Mapping[str, tuple[Sequence[bytes], Sequence[bytes]]],
        dropped: Sequence[bytes],
        now: float,
    ) -> int:
        """Move jobs, by queue as (members, texts), and drop others; returns how many were still due."""
        args: list[str | bytes | float] = [repr(now)]
        for queue, (members, texts) in jobs.items():
            args += [queue, len(members), *members, *texts]
        keys = [source, self._keys.queues, *(self._keys.queue(queue) for queue in jobs)]
        return int(self._connection.script(_PROMOTE, keys, [*args, *dropped]))

    def _prepared(self, member: bytes, now: float) -> tuple[str, bytes] | None:
        """Queue and text to push for what `stamp_moved` did not tell; None when middleware stops it.

        Raises:
            MalformedJSON, PayloadError: it cannot be a job.
        """
        if len(member) > self._most_bytes:
            raise too_long_to_keep(member, self._most_bytes)
        if len(member) > MOST_PARSED_BYTES and not len(self._client.middleware):
            return moved_text(member, now, self._client.wire_profile())
        return self._client.prepare_moved(json_text.loads(member), now, member)

    def _with_reason(self, member: bytes, error: Exception, now: float) -> bytes:
        """The text for the dead set, with the reason; see `unreadable_job` for what is no object."""
        logger.error(
            "a scheduled member cannot become a job (%s); it is kept in the dead set", error
        )
        profile = self._client.wire_profile()
        payload = None
        if len(member) <= MOST_PARSED_BYTES:
            with contextlib.suppress(json_text.MalformedJSON):
                payload = json_text.loads(member)
        # Ruby's pages cannot show what is no object, nor tags that are no list.
        if not isinstance(payload, dict) or not isinstance(payload.get("tags") or [], list):
            return unreadable_job(
                member,
                error_class=error_class(error),
                error_message=error_message(error),
                queue="default",
                now=now,
                profile=profile,
            )
        queue = str(payload.get("queue") or "default")
        failed = failed_payload(
            payload, error, queue=queue, policy=RetryPolicy(max_retries=0, profile=profile), now=now
        )
        return json_text.dumps_moved(failed, member)

    def _forget(self) -> None:
        """Guards and ledgers that are over, hourly; every minute while more are left than one turn takes."""
        if time.monotonic() < self._forget_at:
            return
        try:
            is_all = forget_what_is_over(self._connection, self._keys)
        except RedisRefused as error:  # due jobs must not wait for it
            self._forget_at = time.monotonic() + FORGET_S
            logger.warning("guards and ledgers that are over stay in Redis: %s", error)
        else:
            self._forget_at = time.monotonic() + (FORGET_S if is_all else 0.0)

    def _clean_up_processes(self) -> None:
        """Take processes off the list whose hash is gone, at most once a minute (§9.3)."""
        if not self._connection.call("SET", self._keys.process_cleanup, "1", "NX", "EX", CLEANUP_S):
            return
        names = [text_of(name) for name in self._connection.call("SMEMBERS", self._keys.processes)]
        if not names:
            return
        infos = self._connection.run(
            *(("HGET", self._keys.process(name), "info") for name in names)
        )
        gone = [name for name, info in zip(names, infos, strict=True) if info is None]
        if gone:
            self._connection.call("SREM", self._keys.processes, *gone)
