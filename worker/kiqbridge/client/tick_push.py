"""Pushing the jobs of one occurrence of a schedule: once, however many deliver it.

The entry in the schedule's ledger is written in the script that enqueues. So a repeated call, after a lost reply or by
a caller that retries, enqueues nothing twice and answers with the jids of the first one.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, cast

from kiqbridge.client.guarded_push import (
    Enqueued,
    GuardedPush,
    outcome_of,
    outcomes_of,
    performed_class,
    script_of,
    script_part,
)
from kiqbridge.client.job_writer import JobWriter
from kiqbridge.client.prepare import PreparedJob
from kiqbridge.errors import RedisRefused
from kiqbridge.runtime.digests import sha256
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import active_job, json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import DEFAULT_OPTIONS, TICK
from kiqbridge.wire.tick_mark import MAX_NAME, JobEnd, TickMark

logger = logging.getLogger(__name__)

script_of("push_tick")  # read before a tick comes

_LOOKED_AT: Final = 10
"""Last entries of a ledger whose jobs are the schedule's, too: during a deployment, and after its rollback."""

TickKind = Literal["enqueued", "duplicate", "stale", "future", "paused", "skipped"]

LEFT_OUT: Final[tuple[TickKind, ...]] = ("paused", "skipped")
"""What is noted in the ledger and enqueues nothing: an attribute of its entry has that name."""


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


Scope = list[list[str]]
"""Class and queue of jobs, each pair once, in order."""


def scope_of(items: Sequence[Mapping[str, Any]]) -> Scope:
    """Which jobs these are, before middleware, as far as it matters who may enqueue them."""
    pairs = {
        (
            str(each[active_job.KEY] if active_job.KEY in each else performed_class(each)),
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
    if not _is_named(occurrence, writer):
        return _push_apart(occurrence, indexed, writer, now=now, limits=limits)
    mark, attribute = occurrence.mark, occurrence.mark.to_attribute()
    jobs = [GuardedPush(index, job) for index, job in indexed]
    for _, job in indexed:
        job.payload[TICK] = attribute  # whatever the caller or middleware has put there
    about = {"by": occurrence.by, "enqueued_at": now, "of": occurrence.scope}
    entry = json_text.dumps({"at": mark.at, "jids": [job.jid for _, job in indexed], **about})
    own = writer.keys
    keys = [own.ticks(mark.schedule), own.ledgers, own.attempts(mark.schedule)]
    keys += [own.ends(mark.schedule), own.schedule_states]
    without_jobs = b"" if occurrence.ignore_pause else _left_out(mark, about, indexed)
    args: list[str | bytes | float] = [mark.at, occurrence.horizon_s, entry, mark.schedule]
    args += ("" if occurrence.ahead_s is None else occurrence.ahead_s, without_jobs)
    script, more_keys, more = script_part("push_tick", jobs, writer, now, limits)
    if any(job.rule is not None for _, job in indexed):
        more += [_skipped(mark.at, job.jid, now) for _, job in indexed]
    answer, doubt = writer.run_script(script, keys + more_keys, args + more, repeatable=True)
    if answer[0] != b"duplicate":
        kind = cast("TickKind", answer[0].decode()) if isinstance(answer[0], bytes) else "enqueued"
        pushed = kind == "enqueued"
        answers = answer[1:] if isinstance(answer[0], bytes) else answer
        return TickOutcome(kind=kind, jobs=outcomes_of(jobs, answers, doubt) if pushed else [])
    if answer[1] == entry:  # the reply was lost
        return TickOutcome(kind="enqueued", jobs=outcomes_of(jobs, [b""] * len(jobs), doubt))
    known = json_text.loads(answer[1])
    if not _is_of(known, occurrence.scope):
        return _push_apart(occurrence, indexed, writer, now=now, limits=limits)
    first: TickKind = next((each for each in LEFT_OUT if known.get(each)), "enqueued")
    if first != "enqueued" and without_jobs and answer[1].startswith(without_jobs[:-1]):
        return TickOutcome(kind=first, jobs=[])  # ours, as above
    return known_tick(indexed, known["jids"], first)


def _skipped(at: int, jid: str, now: float) -> bytes:
    """How a job has ended that its rule left out."""
    return JobEnd(at=at, jid=jid, outcome="skipped", ended_at=now).to_text()


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
    known = [
        replace(outcome_of(GuardedPush(index, job), b"k"), jid=jid)
        for (index, job), jid in zip(jobs, jids, strict=False)
    ]
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
    """Enqueue a tick under a name that contains its jobs, with a ledger of its own.

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
        name = f"{mark.schedule[:80]} ({sha256(name.encode()).hexdigest()})"
    logger.warning(
        "tick of %s: neither its definition nor its ledger names %s; enqueued under %s. If the rule was changed, "
        'publish its schedules ({"kiqbridge": "publish"}, or kiqbridge schedule publish)',
        mark.schedule, jobs, name,
    )  # fmt: skip
    apart = replace(occurrence, mark=replace(mark, schedule=name))
    return push_tick(apart, indexed, writer, now=now, limits=limits)


def _left_out(
    mark: TickMark, about: Mapping[str, Any], jobs: Sequence[tuple[int, PreparedJob]]
) -> bytes:
    """The entry of an occurrence that enqueues nothing; the script adds why.

    `for`, a jid that was drawn for it, makes it this caller's: a repeated call finds its own entry by it.
    """
    first = jobs[0][1].jid if jobs else ""
    return json_text.dumps({"at": mark.at, "jids": [], **about, "for": first})


def find_tick(redis: RedisPool, keys: Keys, schedule: str, instant: int) -> list[str] | None:
    """The jids that were enqueued for one occurrence of a schedule, None = it is not in the ledger."""
    entry = tick_entry(redis, keys, schedule, instant)
    return None if entry is None else [str(jid) for jid in json_text.loads(entry)["jids"]]


def tick_entry(redis: RedisPool, keys: Keys, schedule: str, instant: int) -> bytes | None:
    """What the ledger of a schedule has of one occurrence, None = nothing."""
    entries = redis.call("ZRANGEBYSCORE", keys.ticks(schedule), instant, instant, "LIMIT", 0, 1)
    return entries[0] if entries else None
