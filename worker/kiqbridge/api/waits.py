"""Why a job, or a queue, does not run now: the one reason that counts, as far as the kernel knows it."""

from collections.abc import Sequence

from kiqbridge.api.in_flight import HeldJob
from kiqbridge.api.life import Wait
from kiqbridge.api.operator import Operator
from kiqbridge.api.processes import Process, ProcessSet
from kiqbridge.api.queues import QueuedJob
from kiqbridge.api.sets import SortedEntry
from kiqbridge.api.whereabouts import Found
from kiqbridge.api.wording import pause_text
from kiqbridge.api.works import WorkSet, running_jobs, usual_durations
from kiqbridge.store.pauses import Kind, Pause


def why_it_waits(found: Found, operator: Operator, now: float) -> Wait | None:
    """The reason of a job that was found there; None: it runs, or is dead.

    Args:
        found: where it is.
        operator: whose.
        now: epoch seconds.

    Raises:
        RedisUnavailable, RedisRefused: not known.
    """
    if found.place == "queue":
        return _in_queue(found, operator, now)
    if found.place in ("retry", "schedule") and isinstance(found.job, SortedEntry):
        return _until_due(found.job, operator, now, is_retry=found.place == "retry")
    if found.place == "suspects":
        text = f"it ran when a worker died, or hung when one stopped, and waits in queue {found.name} to run alone"
        return Wait(kind="suspect", text=text, about=f"queue:{found.name}")
    if found.place == "in flight" and isinstance(found.seen, HeldJob):
        return _claimed(found.seen)
    return None


def why_queue_waits(name: str, operator: Operator, now: float) -> Wait | None:
    """Why the jobs of a queue do not run, or hardly; None: they do, or its workers have idle threads.

    Raises:
        RedisUnavailable, RedisRefused: not known.
    """
    serving = _serving(name, operator)
    stopped = _stopped(name, operator.pauses(), serving, now)
    if stopped is not None:
        return stopped
    threads = {each.identity: each.concurrency for each in serving if not each.is_quiet}
    works = [each for each in WorkSet(operator) if each.process in threads]
    if not works or len(works) < sum(threads.values()):
        return None
    longest = running_jobs(works, usual_durations(works[:1], operator), now)[0]
    job = longest.work.job
    text = (
        f"all {len(works):,} threads that serve it are busy; the longest running job is {job.display_class} {job.jid}, "
        f"for {longest.age_text}"
    )
    return Wait(kind="busy", text=f"queue {name}: {text}", about=f"queue:{name}")


def _serving(name: str, operator: Operator) -> Sequence[Process]:
    return [each for each in ProcessSet(operator) if name in each.queues]


def _stopped(
    name: str, pauses: Sequence[Pause], serving: Sequence[Process], now: float
) -> Wait | None:
    about, paused = f"queue:{name}", _pause_of(pauses, "queue", name)
    if paused is not None:
        return Wait(kind="paused queue", text=pause_text(paused), about=about, until=paused.until)
    if any(not each.is_quiet and not each.is_silent(now) for each in serving):
        return None
    why = "every process that serves it is quiet or silent" if serving else "no process serves it"
    return Wait(kind="unserved", text=f"queue {name}: {why}", about=about)


def _in_queue(found: Found, operator: Operator, now: float) -> Wait:
    about, pauses = f"queue:{found.name}", operator.pauses()
    stopped = _stopped(found.name, pauses, _serving(found.name, operator), now)
    if stopped is not None:
        return stopped
    paused = _pause_of(pauses, "class", found.job.own_class)
    if paused is not None:
        held = f"class:{paused.name}"
        return Wait(kind="paused class", text=pause_text(paused), about=held, until=paused.until)
    place, total = _place(found, operator)
    if place is None:
        return Wait(kind="place", text=f"in queue {found.name}", about=about)
    text = f"place {place:,} of {total:,} in queue {found.name}"
    return Wait(kind="place", text=text, about=about, place=place, of=total)


def _place(found: Found, operator: Operator) -> tuple[int | None, int]:
    """Which one to be taken it is, from 1 on, and how many wait; by its bytes, unless that was just read."""
    key = operator.keys.queue(found.name)
    seen = found.job.from_tail if isinstance(found.job, QueuedJob) else None
    if seen is not None:
        return seen + 1, max(seen + 1, int(operator.pool.call("LLEN", key)))
    index, total = operator.pool.run(("LPOS", key, found.job.text, "RANK", -1), ("LLEN", key))
    return (None if index is None else total - index), total


def _until_due(job: SortedEntry, operator: Operator, now: float, *, is_retry: bool) -> Wait:
    paused = _pause_of(operator.pauses(), "class", job.own_class)
    if paused is not None:
        held = f"class:{paused.name}"
        until = paused.until if paused.until is None else max(paused.until, job.at)
        return Wait(kind="paused class", text=pause_text(paused), about=held, until=until)
    word = "its next try is due" if is_retry else "it is due"
    late = "" if job.at > now else ", and no worker has pushed it yet"
    return Wait(kind="due", text=f"{word}{late}", until=job.at)


def _claimed(held: HeldJob) -> Wait | None:
    worker = f"worker {held.process}"
    if held.is_orphan:
        text = f"{worker} took it, and is {held.owner}: it is given back to queue {held.queue} if that lasts"
    elif not held.begun and not held.is_silent:
        text = f"{worker} took it from queue {held.queue}, and has not shown it as running yet"
    else:
        return None
    return Wait(kind="claimed", text=text, about=f"queue:{held.queue}")


def _pause_of(pauses: Sequence[Pause], kind: Kind, name: str) -> Pause | None:
    return next((each for each in pauses if (each.kind, each.name) == (kind, name)), None)
