"""Writing prepared jobs to Redis: the only place that pushes new payloads (protocol §5.5).

A job for now: SADD queues, once a minute for each queue, and LPUSH queue:NAME. A job for later: ZADD schedule.
A push whose reply was lost is never repeated here: `PushOutcomeUnknown`.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field
from typing import Any, Final

from kiqbridge import errors
from kiqbridge.client.prepare import PreparedJob, text_of_payload
from kiqbridge.runtime.clock import client_now
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.enqueueing import push_commands, schedule_commands
from kiqbridge.store.redis_pool import RedisPool, has_stand_in
from kiqbridge.store.replies import NotReplicated, Replicas, ReplyLost
from kiqbridge.store.round_trip import Command
from kiqbridge.store.scripts import Script
from kiqbridge.wire.batches import BATCH_BYTES, slices_by_bytes
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import timestamp

LISTED_S: Final = 60.0
"""Seconds for which a queue that was put into the set of queues is taken to be there."""
_MOST_LISTED = 1_000

_NOT_WRITTEN: Final = (errors.RedisUnavailable, errors.RedisRefused)


@dataclass(slots=True, eq=False)
class JobWriter:
    """Writes jobs through one pool of connections.

    Attributes:
        pool: connections.
        keys: the namespace.
        replicas: replicas that must confirm each write; None: none.
        max_payload_bytes: a longer text is refused; 0 = no limit.
    """

    pool: RedisPool
    keys: Keys
    _: KW_ONLY
    replicas: Replicas | None
    max_payload_bytes: int
    _listed: dict[str, float] = field(init=False, default_factory=dict)
    """Queue → epoch seconds at which it was put into the set of queues."""

    def write(self, jobs: Sequence[PreparedJob]) -> None:
        """Write jobs in one round trip, or several if they are more than `BATCH_BYTES`.

        Raises:
            PayloadError: one has no text, or one that is too long; nothing was written.
            RedisUnavailable, RedisRefused: the batch was not written; those before it were.
            PushOutcomeUnknown, PushNotReplicated: as `Client.push`.
        """
        if not jobs:
            return
        if len(jobs) == 1:
            self.write_one(jobs[0])
            return
        now = client_now()
        texts = [self.text(job, now) for job in jobs]
        for part in slices_by_bytes(texts, BATCH_BYTES):
            self._send_jobs(self._commands(jobs[part], texts[part]), jobs[part])

    def write_one(self, job: PreparedJob) -> None:
        """Write one job. Most pushes are of one job, and `write` takes longer for it."""
        now, payload = client_now(), job.payload
        text, queue = self.text(job, now), payload["queue"]
        commands: Sequence[Command]
        if job.at is not None:
            commands = schedule_commands(self.keys, (score(job.at), text))
        elif self._is_listed(queue, now):
            commands = (("LPUSH", self.keys.queue(queue), text),)
        else:
            commands = push_commands(self.keys, {queue: (text,)})
        job.is_pushed = None
        try:
            self.send(commands, (payload["jid"],), payload["class"])
        except errors.KiqbridgeError as error:
            job.is_pushed = are_pushed_after(error, commands)
            raise
        job.is_pushed = True

    def write_each(self, jobs: Sequence[PreparedJob]) -> list[errors.KiqbridgeError | None]:
        """Write jobs of several callers, all of which run now, in as few round trips as `write`.

        Returns:
            For each job its own error, as `write` would raise it for this job alone; None: it is enqueued.
        """
        now = client_now()
        outcomes: list[errors.KiqbridgeError | None] = [None] * len(jobs)
        places, texts = list[int](), list[bytes]()
        for place, job in enumerate(jobs):
            try:
                texts.append(self.text(job, now))
            except errors.PayloadError as error:
                outcomes[place] = error
            else:
                places.append(place)
        for part in slices_by_bytes(texts, BATCH_BYTES):
            written = [jobs[place] for place in places[part]]
            commands = self._commands(written, texts[part])
            try:
                self._send_jobs(commands, written)
            except errors.KiqbridgeError as error:
                queues = list(dict.fromkeys(job.queue for job in written))
                for place in places[part]:
                    outcomes[place] = _own_error(error, jobs[place], queues, commands)
        return outcomes

    def text(self, job: PreparedJob, now: float) -> bytes:
        """The text to write; `enqueued_at` is `now` (epoch seconds), but for a job that runs later.

        Raises:
            PayloadError: as `write`.
        """
        if job.at is None:
            job.payload["enqueued_at"] = timestamp(now, job.profile)
        else:
            job.payload.pop("enqueued_at", None)
        return text_of_payload(job.payload, self.max_payload_bytes)

    def push_commands(self, by_queue: Mapping[str, Sequence[bytes]]) -> list[Command]:
        """As of `store.enqueueing`; names the queues that were not put into the set of queues within `LISTED_S`."""
        now = client_now()
        listed = [name for name in by_queue if self._is_listed(name, now)]
        return push_commands(self.keys, by_queue, listed)

    def _is_listed(self, queue: str, now: float) -> bool:
        return 0.0 <= now - self._listed.get(queue, 0.0) < LISTED_S and not has_stand_in()

    def _commands(self, jobs: Sequence[PreparedJob], texts: Sequence[bytes]) -> list[Command]:
        scheduled: list[str | bytes] = []
        by_queue: dict[str, list[bytes]] = {}
        for job, text in zip(jobs, texts, strict=True):
            if job.at is None:
                by_queue.setdefault(job.queue, []).append(text)
            else:
                scheduled += [score(job.at), text]
        return self.push_commands(by_queue) + schedule_commands(self.keys, scheduled)

    def _send_jobs(self, commands: Sequence[Command], jobs: Sequence[PreparedJob]) -> None:
        are_pushed: bool | None = None
        try:
            self.send(commands, [job.jid for job in jobs], jobs[0].payload["class"])
            are_pushed = True
        except errors.KiqbridgeError as error:
            are_pushed = are_pushed_after(error, commands)
            raise
        finally:
            for job in jobs:
                job.is_pushed = are_pushed

    def send(self, commands: Sequence[Command], jids: Sequence[str], job_class: str) -> None:
        """Run commands that push jobs with these jids; `job_class` is that of the first one.

        Raises:
            RedisUnavailable, RedisRefused: nothing was written.
            PushOutcomeUnknown, PushNotReplicated: as `Client.push`.
        """
        try:
            self.pool.run(*commands, repeatable=False, replicas=self.replicas)
        except BaseException as error:
            self._listed.clear()  # what answers next may be another server
            if isinstance(error, ReplyLost):
                raise outcome_unknown(jids[0], job_class, error) from error
            if isinstance(error, NotReplicated):
                raise not_replicated(jids, error) from error
            raise
        if commands[0][0] == "SADD" and not has_stand_in():
            self._note_listed(commands[0][2:])

    def _note_listed(self, queues: Sequence[object]) -> None:
        if len(self._listed) > _MOST_LISTED:  # names that are made for each push
            self._listed.clear()
        self._listed.update(dict.fromkeys(map(str, queues), client_now()))

    def run_script(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str | bytes | float],
        *,
        repeatable: bool,
    ) -> tuple[Any, NotReplicated | None]:
        """The answer of a script that pushes, and the doubt about it: too few replicas confirmed.

        Raises:
            RedisUnavailable, RedisRefused: nothing was written.
            ReplyLost: sent, but no reply, and not `repeatable`.
        """
        try:
            answer = self.pool.script(
                script, keys, args, repeatable=repeatable, replicas=self.replicas
            )
        except NotReplicated as doubt:
            return doubt.replies[0], doubt
        return answer, None


def _own_error(
    error: errors.KiqbridgeError,
    job: PreparedJob,
    queues: Sequence[str],
    commands: Sequence[Command],
) -> errors.KiqbridgeError | None:
    """What an error of a round trip for these queues means for one of its jobs; sets its `is_pushed`.

    The commands of the round trip are those of `push_commands`: SADD perhaps, then a push to each queue.
    """
    job.is_pushed = None
    if isinstance(cause := error.__cause__, ReplyLost):
        return outcome_unknown(job.jid, job.payload["class"], cause)
    job.is_pushed = True
    if isinstance(cause, NotReplicated):
        return not_replicated([job.jid], cause)
    refused = error.refused if isinstance(error, _NOT_WRITTEN) else ()
    first = len(commands) - len(queues)
    job.is_pushed = bool(refused) and first + queues.index(job.queue) not in refused
    is_listed = not first or 0 not in refused
    return None if job.is_pushed and is_listed else copy.copy(error)


def are_pushed_after(error: errors.KiqbridgeError, commands: Sequence[Command]) -> bool | None:
    """Whether the jobs of a `send` that failed are in Redis; None: unknown, at least of some."""
    if isinstance(error, errors.PushNotReplicated):
        return True
    if not isinstance(error, _NOT_WRITTEN):
        return None
    pushes = {place for place, command in enumerate(commands) if command[0] != "SADD"}
    refused = pushes.intersection(error.refused or pushes)
    return not refused or (False if refused == pushes else None)


def score(at: float) -> str:
    """The number's own text; that of a sub-class, such as numpy's, could be anything."""
    return repr(int(at) if isinstance(at, int) else float(at))


def not_replicated(jids: Sequence[str], doubt: NotReplicated) -> errors.PushNotReplicated:
    """The error for jobs that too few replicas confirmed."""
    several = f"jobs {jids[0]} and {len(jids) - 1} more are"
    return errors.PushNotReplicated(
        f"{several if len(jids) > 1 else f'job {jids[0]} is'} enqueued on the primary, but {doubt}; a "
        "failover now may lose them. Pushing again would run them twice, except with the same dedupe_key or tick",
        jids,
    )


def outcome_unknown(jid: str, job_class: str, error: ReplyLost) -> errors.PushOutcomeUnknown:
    """The error for a push whose reply was lost."""
    return errors.PushOutcomeUnknown(
        f"job {jid} ({job_class}) was sent but not confirmed: {error}; it may or may not "
        "be enqueued. Push it again with the same jid if running twice is better than not at all",
        jid,
    )
