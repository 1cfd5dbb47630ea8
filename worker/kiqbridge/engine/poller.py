"""Moving due jobs from `retry` and `schedule` to their queues, to the millisecond (protocol §9).

1. Look for the earliest score of `retry` and `schedule`, and wait until it is due, or an earlier one comes.
2. Take up to 1,000 due jobs: `{"class":"Mail","args":[7],"jid":"b4a5…","retry_count":0,…}` at 1700000017.5.
3. Through client middleware, if there is any; `enqueued_at` is set, and all other bytes are kept.
4. Move them to their queues by one script (promote.lua), which checks each score again.
5. What cannot be a job goes to `dead`.

One process of the fleet leads at a time, so the cost does not grow with the number of processes.
The others hear from the beat of their lease (engine/inflight/beat.py) when no process leads, and ask for nothing themselves.
The leader knows when the next job is due and is notified when an earlier one is scheduled.
Losing the lead costs at worst that middleware runs twice for a job, never the job: each move is one
script that checks the score again. Ruby's pollers may move the same sets.
"""

import logging
import time
from collections.abc import Callable, Sequence

from redis.connection import AbstractConnection

from kiqbridge.client.client import Client
from kiqbridge.client.prepare import prepare_moved
from kiqbridge.engine.settle.ending import Settlement, dead, dead_unread, stopped_ending
from kiqbridge.engine.settle.retry import failed_payload
from kiqbridge.engine.skew_tolerant_clock import SAME_WITHIN_S, Look, SkewTolerantClock
from kiqbridge.errors import KiqbridgeError, PayloadError
from kiqbridge.runtime import threads, user_code
from kiqbridge.runtime.hints import Hint
from kiqbridge.runtime.role import Role, Until
from kiqbridge.store.due_jobs import Buried, bury, promote, read_due
from kiqbridge.store.leadership import Lead
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.replies import first_score
from kiqbridge.store.round_trip import Command
from kiqbridge.store.tracking_connection import TrackingConnection
from kiqbridge.store.wake_connection import SAFETY_LOOK_S
from kiqbridge.wire import json_text, raw_job
from kiqbridge.wire.job_record import JobText
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import timestamp
from kiqbridge.wire.stamping import stamp

logger = logging.getLogger(__name__)

LEAD_S = 8.0
"""How long a leader that died blocks the others, at most."""

RENEW_S = 3.0
ASK_TIME_S = 15.0
"""How often Redis is asked for the time while nothing waits."""

GATHER_S = 0.005
"""How long changes are gathered before the heads are read again: many failures are as many changes."""

LOOK_KEPT_S = 3600
"""For how long it is known what a leader has found when it looked at the clocks; it is written twice as often."""

RETRY_S = 1.0


class Poller(Role):
    """The thread that moves due jobs while this process leads.

    Attributes:
        client: what prepares moved jobs, with its middleware.
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
        track: Callable[..., AbstractConnection],
        max_payload_bytes: int = 0,
    ) -> None:
        super().__init__(
            "poller",
            self._poll,
            work="moving due jobs and retries",
            until=Until.QUIET,
            join_s=RENEW_S + RETRY_S,
        )
        self._keys = keys
        self.client = client
        self._connection = connection
        self._identity = identity
        self._lead = Lead(connection, keys.poller, identity, LEAD_S)
        self._tracking = TrackingConnection(track, watched="scheduled jobs")
        self._clock = SkewTolerantClock()
        self._max_bytes = raw_job.max_kept_bytes(max_payload_bytes)
        self._renew_at = float("inf")
        self.earliest_due: float | None = None
        self._leads = False
        self._look_at = 0.0
        self._ask_time_at = 0.0
        self._look_written: tuple[float, float] = 0.0, 0.0  # seconds ahead of Redis, until when
        self._waits = True  # for all that is known
        self._stuck = False
        self._vacant = Hint()
        self._unled_since: float | None = None
        self._heard: tuple[float, float] | None = None

    @property
    def leads(self) -> bool:
        """Whether this process led the fleet at its last look; another one may lead meanwhile."""
        return self._leads

    @property
    def unled_s(self) -> float:
        """For how many seconds no process of the fleet has led, as the beats have found it."""
        return 0.0 if self._unled_since is None else time.monotonic() - self._unled_since

    def note(self, *, leader: bytes, server_time: float) -> None:
        """What the beat of the lease has found out, so that a process that does not lead asks for nothing.

        Args:
            leader: text of the leader's key; empty = there was none.
            server_time: of Redis, epoch seconds.
        """
        self._heard = server_time, time.monotonic()
        nobody_leads = self._lead.is_vacant(leader)
        self._vacant.give(is_some=nobody_leads)
        if not nobody_leads:
            self._unled_since = None
        elif self._unled_since is None:
            self._unled_since = time.monotonic()
        if nobody_leads:
            self._some.set()

    def stop(self, timeout_s: float | None = None) -> None:
        """End, and hand over the lead at once."""
        self.quiet()
        self._tracking.interrupt()
        super().stop(timeout_s)
        self._tracking.close()

    def move_due(self, source: str, now: float) -> int:
        """Move all jobs of one set that are due at `now` (epoch seconds); returns how many.

        Raises:
            RedisUnavailable: what was not moved is still in the set.
        """
        moved = left = 0
        while not self._stopping.is_set():
            threads.beat()
            if time.monotonic() >= self._renew_at and not self.lead():
                break
            due = read_due(self._connection, source, now, left_out=left)
            if not due or self._stopping.is_set():  # a quiet process moves nothing that came later
                break
            done = self._move(source, due, now)
            moved += done
            # Left are those that another process moves at this moment, and those whose queue's key is
            # of a foreign type or whose middleware fails: they must not hold up what is behind them.
            left += len(due) - done
        self._stuck = self._stuck or left > 0
        return moved

    def _poll(self) -> None:
        while not self._stopping.is_set():
            threads.beat()
            if not self.tried(self._turn):
                self._look_at = 0.0  # a new connection is notified only of what it has read
                self._tracking.close()  # it may be out of step
                if self.is_refused:  # with the next beat of another process that one takes the lead
                    self._leave()
                self._stopping.wait(RETRY_S)
        self._leave()

    def _turn(self) -> None:
        """Lead for a while, or wait until no process does."""
        heard, self._heard = self._heard, None
        if heard is not None:
            server_time, at = heard
            self._observe(server_time + time.monotonic() - at)
        if (self._leads or not self._vacant.says_nothing) and self.lead():
            self._serve()
            return
        if self.is_refused:  # whether it would be refused is known by trying alone
            self._seconds_to_next()
        self.earliest_due = None
        self._connection.close()  # of those that do not lead there are many
        self._tracking.close()
        self._some.wait(RENEW_S)
        if not self._stopping.is_set():
            self._some.clear()

    def _leave(self) -> None:
        if self._leads:
            self._leads = False
            self.hand_over()

    def lead(self) -> bool:
        """Take the lead or prolong it; whether this process leads.

        Raises:
            RedisUnavailable, RedisRefused: the lead is not known.
        """
        self._renew_at = time.monotonic() + RENEW_S
        self._leads = (self._leads and self._lead.take()) or self._take_lead()
        if self._leads:
            self._write_look()
        return self._leads

    def _take_lead(self) -> bool:
        # Looking first is what most processes do, most of the time.
        # A process that does not lead reads the time as well, to know it when it takes the lead.
        # Nor EXISTS, for which a key of a foreign type would be a leader for ever.
        leader, *time_of_redis = self._connection.run(("GET", self._keys.poller), *self._ask_time())
        self._observe_time(time_of_redis)
        self._look_at, self._waits = 0.0, True
        return self._lead.is_vacant(leader) and self._lead.take()

    def hand_over(self) -> None:
        """Give the lead up, if this process has it; without Redis it ends by itself."""
        try:
            self._lead.release()
        except KiqbridgeError as error:
            logger.debug("the lead expires in %.0f s: %s", LEAD_S, error)

    def _serve(self) -> None:
        """Move what is due, and wait for what comes, until the lead must be renewed."""
        while not self._stopping.is_set():
            threads.beat()
            if time.monotonic() >= self._look_at:
                seconds = self._seconds_to_next()
                self._look_at = time.monotonic() + min(seconds, SAFETY_LOOK_S)
                if seconds <= 0:
                    self._stuck = False
                    for source in (self._keys.retry, self._keys.schedule):
                        self.move_due(source, self._clock.now())
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
                self._look_at = self._ask_time_at = 0.0

    def _seconds_to_next(self) -> float:
        """Reading the keys also arms them: a change ends the wait."""
        keys = (self._keys.retry, self._keys.schedule)
        if not self._waits:
            found, *time_of_redis = self._tracking.read(("EXISTS", *keys), *self._ask_time())
            self._observe_time(time_of_redis)
            if not found:
                self.earliest_due = None
                return float("inf")
        retry, schedule, *time_of_redis = self._tracking.read(
            *(("ZRANGE", key, 0, 0, "WITHSCORES") for key in keys), *self._ask_time()
        )
        self._observe_time(time_of_redis)
        scores = [first_score(head) for head in (retry, schedule) if head]
        self._waits = bool(scores)
        self.earliest_due = min(scores, default=None)
        return min(scores, default=float("inf")) - self._clock.now()

    def _ask_time(self) -> list[Command]:
        """Each time while something waits for its moment, else now and then."""
        is_near = self._leads and self._waits
        return [("TIME",)] if is_near or time.monotonic() >= self._ask_time_at else []

    def _observe_time(self, replies: Sequence[Sequence[bytes]]) -> None:
        for seconds, micros in replies:  # one, if it was asked for
            self._observe(int(seconds) + int(micros) / 1_000_000)

    def _observe(self, redis_time: float) -> None:
        look = None
        if self._clock.is_at_odds(redis_time):
            asked = time.monotonic()
            look = Look.from_text(self._connection.call("GET", self._keys.poller_clock))
            redis_time += time.monotonic() - asked
        self._clock.observe(redis_time, look)
        self._ask_time_at = time.monotonic() + ASK_TIME_S

    def _write_look(self) -> None:
        """Keep for the next leader how far the clock of Redis is wrong."""
        now, ahead_s = time.monotonic(), self._clock.ahead_of_redis_s
        before, until = self._look_written
        if ahead_s is None or (now < until and abs(ahead_s - before) < SAME_WITHIN_S):
            return
        look = ("SET", self._keys.poller_clock, Look(ahead_s, self._identity).to_text())
        # A full memory, or a right that is missing: due jobs must not wait for it.
        if self.tried(
            lambda: self._connection.call(*look, "EX", LOOK_KEPT_S),
            "keeping how far the clock of Redis is wrong",
        ):
            self._look_written = ahead_s, now + LOOK_KEPT_S / 2

    def _move(self, source: str, due: Sequence[bytes], now: float) -> int:
        jobs: dict[str, tuple[list[bytes], list[bytes]]] = {}
        dropped: list[bytes] = []
        buried: list[Buried] = []
        for member, stamped in zip(due, stamp_moved(self.client, due, now), strict=True):
            try:
                pushed = stamped or self._prepared(member, now)
            except (json_text.MalformedJSON, PayloadError) as error:
                death = self._dead(member, error, now)
                buried.append(Buried(member, death.text, death.effects))
                continue
            except BaseException as error:  # noqa: BLE001 - whatever it is, the other jobs must go on
                user_code.log_error(
                    logger,
                    error,
                    "client middleware failed; the job stays where it is and is due again",
                )
                continue
            if pushed is None:
                effects = stopped_ending(self._keys, member, now)
                if effects:
                    buried.append(Buried(member, b"", effects))
                else:
                    dropped.append(member)
                continue
            queue, text = pushed
            members, texts = jobs.get(queue) or jobs.setdefault(queue, ([], []))
            members.append(member)
            texts.append(text)
        connection, keys = self._connection, self._keys
        moved = 0
        if jobs or dropped:
            moved = promote(connection, keys, source, jobs, now=now, dropped=dropped)
        if buried:
            moved += bury(connection, keys, source, buried, now=now)
        return moved

    def _prepared(self, member: bytes, now: float) -> tuple[str, bytes] | None:
        """Queue and text to push for what `stamp_moved` did not handle; None when middleware stops it.

        Raises:
            MalformedJSON, PayloadError: it cannot be a job.
        """
        if len(member) > self._max_bytes:
            raise raw_job.too_long_to_keep(member, self._max_bytes)
        if len(member) > raw_job.MAX_PARSED_BYTES and not len(self.client.middleware):
            return raw_job.moved_text(member, now, self.client.wire_profile())
        return prepare_moved(
            json_text.loads(member), now, self.client.middleware, self.client.wire_profile, member
        )

    def _dead(self, member: bytes, error: Exception, now: float) -> Settlement:
        logger.error(
            "a scheduled member cannot become a job (%s); it is kept in the dead set", error
        )
        keys, profile = self._keys, self.client.wire_profile()
        job = JobText(member)
        # Ruby's pages cannot show what is no object, nor tags that are no list.
        if not job.is_readable or not isinstance(job.item.get("tags") or [], list):
            return dead_unread(keys, member, error, queue="default", now=now, profile=profile)
        queue = str(job.item.get("queue") or "default")
        kept = failed_payload(job.item, error, queue=queue, profile=profile, now=now)
        return dead(keys, member, job.item, kept, error, now=now)


def stamp_moved(
    client: Client, members: Sequence[bytes], now: float
) -> list[tuple[str, bytes] | None]:
    """The result of `prepare_moved` for each member; None where that must be asked."""
    if len(client.middleware):
        return [None] * len(members)
    return stamp(members, json_text.dumps(timestamp(now, client.wire_profile())))
