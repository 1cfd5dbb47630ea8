"""Pushes that may be repeated: once per dedupe key, or once per occurrence of a schedule.

The guard of each job, or the entry in the schedule's ledger, is written in the script that enqueues. So a
repeated call, after a lost reply or by a caller that retries, enqueues nothing twice and answers with the
jids of the first one.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple, cast

from kiqbridge.client.job_writer import JobWriter, not_replicated, outcome_unknown, score
from kiqbridge.client.prepare import PreparedJob
from kiqbridge.errors import PayloadError, QueueTooDeep, RedisRefused
from kiqbridge.runtime.records import dataclass
from kiqbridge.store import scripts
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import ReplyLost
from kiqbridge.wire import active_job, json_text
from kiqbridge.wire.bulk import BATCH_SIZE
from kiqbridge.wire.guards import Identity, guard_field, keep_s
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.payload import DEFAULT_OPTIONS, TICK, check_json
from kiqbridge.wire.tick_mark import MAX_NAME, TickMark

logger = logging.getLogger(__name__)

_PUSH_ONCE = scripts.load("push_once")
_PUSH_TICK = scripts.load("push_tick")

_LOOKED_AT: Final = 10
"""Last entries of a ledger whose jobs are the schedule's, too: during a deployment, and after its rollback."""

TickKind = Literal["enqueued", "duplicate", "stale", "future", "paused", "skipped"]

LEFT_OUT: Final[tuple[TickKind, ...]] = ("paused", "skipped")
"""What is noted in the ledger and enqueues nothing: an attribute of its entry has that name."""


class GuardedPush(NamedTuple):
    """A job to push: place among the items of the call, guard (empty: none), seconds to remember that."""

    place: int
    job: PreparedJob
    guard: str
    keep_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What became of one guarded job.

    Attributes:
        index: its place among the items of the call: those that middleware stopped are in no answer.
        jid: that of the job in Redis, new or earlier.
    """

    index: int
    jid: str
    job_class: str
    queue: str
    at: float | None
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TickOutcome:
    """What became of one occurrence of a schedule.

    `stale`: too old to know whether it ran; `future`: further ahead than was allowed; `paused`: the schedule
    is, and `skipped`: somebody asked to skip this occurrence, which the ledger remembers. In these cases
    nothing was enqueued, and `jobs` is empty.

    Attributes:
        kind: what became of it.
        jobs: its jobs, those of the first delivery if this is a duplicate.
        first: of a duplicate, what became of the first delivery: `enqueued`, `paused` or `skipped`.
    """

    kind: TickKind
    jobs: list[Enqueued]
    first: TickKind = "enqueued"


def push_once(
    jobs: Sequence[GuardedPush], writer: JobWriter, *, now: float, limits: Mapping[str, int]
) -> list[Enqueued]:
    """Enqueue jobs in one script, each at most once under its guard (`guarded`); see `Client.push_once`."""
    if not jobs:
        return []
    if len(jobs) == 1 and not jobs[0].guard and jobs[0].job.queue not in limits:
        writer.write([jobs[0].job])  # a script would take the server ten times as long
        return [_outcome(jobs[0].place, jobs[0].job)]
    own = writer.keys
    keys: list[str] = [own.queues, own.guards, own.guards_until]
    # More than are added, so that they grow fewer; an unpack takes no more than a script's jobs.
    args: list[str | bytes] = [str(min(2 * len(jobs) + 10, BATCH_SIZE)), str(len(jobs))]
    repeatable = True
    for _, job, guard, seconds in jobs:
        keys.append(_target(job, writer))
        args += (guard, str(seconds) if guard else "", job.jid)
        args += _script_args(job, writer, now, limits)
        repeatable = repeatable and bool(guard)
    try:
        answers, doubt = writer.run_script(_PUSH_ONCE, keys, args, repeatable=repeatable)
    except ReplyLost as error:
        first = jobs[0].job
        raise outcome_unknown(first.jid, first.payload["class"], error) from error
    if isinstance(answers[0], list):
        raise _too_deep(answers, [(index, job) for index, job, _, _ in jobs])
    outcomes = []
    for (index, job, _, _), answer in zip(jobs, answers, strict=True):
        known = text_of(answer) if answer else None  # the jid under its guard, empty for none
        if known is not None and job.own_jid and known == job.jid:
            known = None
        outcomes.append(_outcome(index, job, known))
    if doubt:
        raise not_replicated([job.jid for job in outcomes], doubt) from doubt
    return outcomes


Scope = list[list[str]]
"""Class and queue of jobs, each pair once, in order."""


def scope_of(items: Sequence[Mapping[str, Any]]) -> Scope:
    """Which jobs these are, before middleware, as far as it matters who may enqueue them."""
    pairs = {
        (
            str(each[active_job.KEY] if active_job.KEY in each else _performed_class(each)),
            str(each.get("queue") or DEFAULT_OPTIONS["queue"]),
        )
        for each in items
    }
    return [list(pair) for pair in sorted(pairs)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One occurrence of a schedule; the fields are the arguments of `Client.push_tick`."""

    mark: TickMark
    by: str
    horizon_s: int
    ahead_s: float | None
    ignore_pause: bool
    scope: Scope


def push_tick(
    occurrence: Occurrence,
    indexed: Sequence[tuple[int, PreparedJob]],
    writer: JobWriter,
    *,
    now: float,
    limits: Mapping[str, int],
) -> TickOutcome:
    """Enqueue the jobs of one occurrence of a schedule in one script, once; see `Client.push_tick`."""
    jobs = [job for _, job in indexed]
    if not _is_named(occurrence, writer):
        return _push_apart(occurrence, indexed, writer, now=now, limits=limits)
    mark, attribute = occurrence.mark, occurrence.mark.to_attribute()
    for job in jobs:
        job.payload[TICK] = attribute  # whatever the caller or middleware has put there
    about = {"by": occurrence.by, "enqueued_at": now, "of": occurrence.scope}
    entry = json_text.dumps({"at": mark.at, "jids": [job.jid for job in jobs], **about})
    own = writer.keys
    keys = [own.queues, own.ticks(mark.schedule), own.ledgers, own.attempts(mark.schedule)]
    keys += [own.ends(mark.schedule), own.schedule_states]
    keys += [_target(job, writer) for job in jobs]
    without_jobs = b"" if occurrence.ignore_pause else _left_out(mark, about, jobs)
    args: list[str | bytes | float] = [
        *(str(mark.at), str(occurrence.horizon_s), entry, mark.schedule),
        "" if occurrence.ahead_s is None else str(occurrence.ahead_s),
        without_jobs,
        str(len(jobs)),
    ]
    for job in jobs:
        args += _script_args(job, writer, now, limits)
    answer, doubt = writer.run_script(_PUSH_TICK, keys, args, repeatable=True)
    if isinstance(answer[0], list):
        raise _too_deep(answer, indexed)
    known = [json_text.loads(each) for each in answer[1:] if each != entry]
    if known and not any(_is_of(each, occurrence.scope) for each in known):
        return _push_apart(occurrence, indexed, writer, now=now, limits=limits)
    outcome = _tick_outcome(indexed, answer, entry, without_jobs)
    if doubt and outcome.jobs:
        raise not_replicated([job.jid for job in outcome.jobs], doubt) from doubt
    return outcome


def _is_named(occurrence: Occurrence, writer: JobWriter) -> bool:
    """Whether the schedule's definition or ledger names these jobs; also if neither says anything."""
    name, keys = occurrence.mark.schedule, writer.keys
    try:
        definition = writer.pool.call("HGET", keys.schedules, name)
        jobs = json_text.loads(definition)["jobs"] if definition else []
        if not jobs or scope_of(jobs) == occurrence.scope:
            return True
    except (RedisRefused, ValueError, KeyError, TypeError, AttributeError):
        return True  # what cannot be read stops no tick
    try:
        entries = writer.pool.call("ZRANGE", keys.ticks(name), -_LOOKED_AT, -1)
        return any(_is_of(json_text.loads(each), occurrence.scope) for each in entries)
    except (RedisRefused, ValueError, AttributeError):
        return False  # such jobs are enqueued apart


def known_tick(
    jobs: Sequence[tuple[int, PreparedJob]], jids: Sequence[str], first: TickKind
) -> TickOutcome:
    """The outcome of an occurrence that was delivered before, with these jids; `first`: what became of that."""
    known = [_outcome(index, job, jid) for (index, job), jid in zip(jobs, jids, strict=False)]
    return TickOutcome(kind="duplicate", jobs=known, first=first)


def _is_of(entry: Mapping[str, Any], scope: Scope) -> bool:
    """Whether an entry of a ledger is of such jobs; what says nothing may be of any."""
    return bool(entry.get("of", scope) == scope)


def _push_apart(
    occurrence: Occurrence,
    indexed: Sequence[tuple[int, PreparedJob]],
    writer: JobWriter,
    *,
    now: float,
    limits: Mapping[str, int],
) -> TickOutcome:
    """As `push_tick`, under a name that has the jobs in it, too, with a ledger of its own.

    So they are enqueued once, and nothing that the schedule itself enqueues is taken for enqueued, running or
    missed because of them. What stops the schedule stops them.
    """
    from kiqbridge.schedule.state import ScheduleState  # noqa: PLC0415 - few ticks need it

    mark = occurrence.mark
    text, clock = writer.pool.run(("HGET", writer.keys.schedule_states, mark.schedule), ("TIME",))
    state = ScheduleState.from_text(text)
    if not occurrence.ignore_pause and mark.at in state.skipped:
        return TickOutcome(kind="skipped", jobs=[])
    if not occurrence.ignore_pause and state.pause_at(server_time(clock)) is not None:
        return TickOutcome(kind="paused", jobs=[])
    jobs = ", ".join(f"{job_class} in {queue}" for job_class, queue in occurrence.scope)
    name = f"{mark.schedule} ({jobs})"
    if len(name) > MAX_NAME:
        name = f"{mark.schedule[:80]} ({hashlib.sha256(name.encode()).hexdigest()})"
    logger.warning(
        "tick of %s: neither its definition nor its ledger names %s; enqueued under %s. If the rule was changed, "
        'publish its schedules ({"kiqbridge": "publish"}, or kiqbridge schedule publish)',
        mark.schedule, jobs, name,
    )  # fmt: skip
    apart = replace(occurrence, mark=replace(mark, schedule=name))
    return push_tick(apart, indexed, writer, now=now, limits=limits)


def _left_out(mark: TickMark, about: Mapping[str, Any], jobs: Sequence[PreparedJob]) -> bytes:
    """The entry of an occurrence that enqueues nothing; the script adds why.

    `for`, a jid that was drawn for it, makes it this caller's: a repeated call finds its own entry by it.
    """
    first = jobs[0].jid if jobs else ""
    return json_text.dumps({"at": mark.at, "jids": [], **about, "for": first})


def guarded(
    place: int, job: PreparedJob, dedupe_key: str | Identity | None, ttl_s: int | None
) -> GuardedPush:
    """A job with its guard, kept for `ttl_s` seconds, None = as long as its source may deliver again.

    Raises:
        PayloadError: as `guard_of`.
    """
    if ttl_s is None:
        ttl_s = keep_s(dedupe_key) if dedupe_key else 0
    return GuardedPush(place, job, guard_of(job, dedupe_key), ttl_s)


def guard_of(job: PreparedJob, dedupe_key: str | Identity | None) -> str:
    """The name of a job's guard, empty for none.

    Raises:
        PayloadError: the key cannot be sent.
    """
    if not dedupe_key:
        return ""
    try:
        return guard_field(dedupe_key, _performed_class(job.payload), job.queue)
    except UnicodeEncodeError:
        for part in (dedupe_key,) if isinstance(dedupe_key, str) else dedupe_key.parts:
            check_json(part, "dedupe_key")
        raise


def check_count(count: int) -> None:
    """Refuse more jobs than one script takes.

    Raises:
        PayloadError: more than 1,000.
    """
    if count > BATCH_SIZE:
        raise PayloadError(
            f"jobs: {count} jobs in one call, but all or nothing holds for {BATCH_SIZE:,}; split them"
        )


def _too_deep(answer: Sequence[Any], jobs: Sequence[tuple[int, PreparedJob]]) -> QueueTooDeep:
    """The error for an answer that names jobs whose queue is at its limit, with its length, and no outcomes."""
    deep = {number - 1: length for number, length in answer}
    return QueueTooDeep(
        {jobs[place][1].queue: length for place, length in deep.items()},
        {jobs[place][0]: length for place, length in deep.items()},
    )


def _target(job: PreparedJob, writer: JobWriter) -> str:
    return writer.keys.queue(job.queue) if job.at is None else writer.keys.schedule


def _script_args(
    job: PreparedJob, writer: JobWriter, now: float, limits: Mapping[str, int]
) -> list[str | bytes]:
    """Queue, time, text, and the length at which the queue takes no more: empty for none, and for a later job."""
    queue, text = job.queue, writer.text(job, now)
    if job.at is not None:
        return [queue, score(job.at), text, ""]
    limit = limits.get(queue)
    return [queue, "", text, "" if limit is None else str(limit)]


def _outcome(index: int, job: PreparedJob, known_jid: str | None = None) -> Enqueued:
    return Enqueued(
        index=index,
        jid=known_jid or job.jid,
        job_class=_shown_class(job.payload),
        queue=job.queue,
        at=job.at,
        duplicate=known_jid is not None,
    )


def _tick_outcome(
    jobs: Sequence[tuple[int, PreparedJob]],
    answer: list[bytes],
    entry: bytes,
    without_jobs: bytes,
) -> TickOutcome:
    kind = cast("TickKind", answer[0].decode())
    if kind == "enqueued" or (kind == "duplicate" and answer[1] == entry):  # the reply was lost
        return TickOutcome(kind="enqueued", jobs=[_outcome(index, job) for index, job in jobs])
    if kind != "duplicate":
        return TickOutcome(kind=kind, jobs=[])
    known = json_text.loads(answer[1])
    first: TickKind = next((each for each in LEFT_OUT if known.get(each)), "enqueued")
    if first != "enqueued" and without_jobs and answer[1].startswith(without_jobs[:-1]):
        return TickOutcome(kind=first, jobs=[])  # ours, as above
    return known_tick(jobs, known["jids"], first)


def _shown_class(payload: Mapping[str, Any]) -> str:
    """The class that people know: that inside Active Job's wrapper, as Sidekiq shows it (§17)."""
    name: str = payload["class"]
    if name not in active_job.WRAPPERS:
        return name
    wrapped = payload.get("wrapped")
    return wrapped if isinstance(wrapped, str) and wrapped else name


def _performed_class(payload: Mapping[str, Any]) -> str:
    """The class whose code runs: of a Rails job the one inside, whether or not its wrapper names it."""
    shown = _shown_class(payload)
    if shown in active_job.WRAPPERS and payload["args"] and isinstance(payload["args"][0], Mapping):
        inner = payload["args"][0].get("job_class")
        return inner if isinstance(inner, str) and inner else shown
    return shown


def find_jids(redis: RedisPool, keys: Keys, guards: Sequence[str], now: float) -> list[str | None]:
    """For each guard the jid of its job; None if there is none, or it is over at `now`, or the guard is ""."""
    named = [guard for guard in guards if guard]
    # Commands that a push needs as well: its user in Redis may have no others (docs/security.md).
    values = redis.run(*(["HGET", keys.guards, guard] for guard in named)) if named else []
    found: dict[str, str | None] = {}
    for guard, value in zip(named, values, strict=True):
        until, _, jid = (value or b"").partition(b" ")
        found[guard] = text_of(jid) if jid and float(until) > now else None
    return [found.get(guard) for guard in guards]


def find_tick(redis: RedisPool, keys: Keys, schedule: str, instant: int) -> list[str] | None:
    """The jids that were enqueued for one occurrence of a schedule, None = it is not in the ledger."""
    entry = tick_entry(redis, keys, schedule, instant)
    return None if entry is None else [str(jid) for jid in json_text.loads(entry)["jids"]]


def tick_entry(redis: RedisPool, keys: Keys, schedule: str, instant: int) -> bytes | None:
    """What the ledger of a schedule has of one occurrence, None = nothing."""
    entries = redis.call("ZRANGEBYSCORE", keys.ticks(schedule), instant, instant, "LIMIT", 0, 1)
    return entries[0] if entries else None
