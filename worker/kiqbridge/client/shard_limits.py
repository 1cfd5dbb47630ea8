"""Limits of queues, looked at on all shards before the jobs of a call are pushed to the first of them (docs/shards.md).

The scripts that push look at them as well: other pushes may come in between.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from kiqbridge.client.job_writer import JobWriter, Writes
from kiqbridge.client.known import find_jids, tick_entry
from kiqbridge.client.prepare import PreparedJob
from kiqbridge.errors import QueueTooDeep, RedisRefused, RedisUnavailable
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_pool import RedisPool

if TYPE_CHECKING:
    from kiqbridge.client.guarded_push import Enqueued, Guarded, Occurrence

T = TypeVar("T")
Deep = Mapping[int, tuple[str, int]]
"""Place of a job among the items of the call → its queue, and how many jobs wait there."""


def check_once(
    jobs: Sequence["Guarded"], writer: Writes, *, now: float, limits: Mapping[str, int]
) -> None:
    """Refuse a guarded push for several shards if one of its queues is at its limit; duplicates pass.

    Raises:
        QueueTooDeep: names the queues of all shards; nothing was written.
    """

    def deep_of(place: JobWriter, part: Sequence["Guarded"]) -> Deep:
        deep = _deep_jobs(place, [(each.place, each.job) for each in part], limits)
        asked = [each for each in part if each.place in deep and each.guard]
        guards = [each.guard for each in asked]
        for pool in _holders(writer, place, {each.job.queue for each in asked}) if asked else ():
            jids = find_jids(pool, writer.keys, guards, now)
            known = {each.place for each, jid in zip(asked, jids, strict=True) if jid is not None}
            deep = {index: about for index, about in deep.items() if index not in known}
        return deep

    _check(jobs, writer, lambda each: each.job.queue, deep_of, limits)


def check_tick(
    occurrence: "Occurrence",
    indexed: Sequence[tuple[int, PreparedJob]],
    writer: Writes,
    *,
    limits: Mapping[str, int],
) -> None:
    """Refuse an occurrence with jobs for several shards if one of its queues is at its limit.

    One that enqueues nothing passes: its ledger knows it, its schedule is paused, it is too old, …

    Raises:
        QueueTooDeep: names the queues of all shards; nothing was written.
    """

    def deep_of(place: JobWriter, part: Sequence[tuple[int, PreparedJob]]) -> Deep:
        deep = _deep_jobs(place, part, limits)
        pools = _holders(writer, place, {job.queue for _, job in part}) if deep else []
        return {} if deep and _enqueues_nothing(occurrence, place, pools) else deep

    _check(indexed, writer, lambda each: each[1].queue, deep_of, limits)


@contextlib.contextmanager
def noting(done: Sequence["Enqueued"]) -> Iterator[None]:
    """Add to the error of a limit what the call has enqueued on other servers before."""
    try:
        yield
    except QueueTooDeep as error:
        made = {each.index: each.jid for each in done if not each.duplicate}
        raise QueueTooDeep(error.queues, error.places, made) if made else error from None


def _check(
    jobs: Sequence[T],
    writer: Writes,
    queue_of: Callable[[T], str],
    deep_of: Callable[[JobWriter, Sequence[T]], Deep],
    limits: Mapping[str, int],
) -> None:
    if not limits:
        return
    parts = writer.split(jobs, queue_of)
    if len(parts) < 2:  # noqa: PLR2004 - the script of a single one pushes all or nothing
        return
    deep: dict[int, tuple[str, int]] = {}
    for place, part in parts:
        # A shard that is away must not keep the jobs of the others: its own script raises the error.
        with contextlib.suppress(RedisUnavailable, RedisRefused):
            deep |= deep_of(place, part)
    if deep:
        raise QueueTooDeep(
            dict(deep.values()), {index: length for index, (_, length) in sorted(deep.items())}
        )


def _deep_jobs(
    place: JobWriter, jobs: Iterable[tuple[int, PreparedJob]], limits: Mapping[str, int]
) -> Deep:
    """The jobs for now whose queue on this server is at its limit."""
    limited = [(index, job.queue) for index, job in jobs if job.at is None and job.queue in limits]
    queues = sorted({queue for _, queue in limited})
    if not queues:
        return {}
    replies = place.pool.run(*(("LLEN", place.keys.queue(queue)) for queue in queues))
    lengths = dict(zip(queues, replies, strict=True))
    return {
        index: (queue, lengths[queue])
        for index, queue in limited
        if lengths[queue] >= limits[queue]
    }


def _holders(writer: Writes, place: JobWriter, queues: set[str]) -> list[RedisPool]:
    """The server of these queues, and those that held one of them before."""
    placed = writer.placed(place, queues)
    return [place.pool, *(pool for pool, _ in (placed.former if placed else ()))]


def _enqueues_nothing(
    occurrence: "Occurrence", place: JobWriter, pools: Sequence[RedisPool]
) -> bool:
    mark, keys = occurrence.mark, place.keys
    if any(tick_entry(pool, keys, mark.schedule, mark.at) for pool in pools):
        return True
    text, clock = place.pool.run(("HGET", keys.schedule_states, mark.schedule), ("TIME",))
    now, ahead = server_time(clock), occurrence.ahead_s
    if mark.at < now - occurrence.horizon_s or (ahead is not None and mark.at > now + ahead):
        return True
    from kiqbridge.schedule.state import ScheduleState  # noqa: PLC0415 - one server, the normal case, needs it not

    state = ScheduleState.from_text(text)
    is_left_out = mark.at in state.skipped or state.pause_at(now) is not None
    return is_left_out and not occurrence.ignore_pause
