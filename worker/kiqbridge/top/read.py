"""One look at Redis, or at all shards that answer, for what is on the screen: counts, and a page of each list."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from kiqbridge.api import (
    DeadSet,
    JobRecord,
    JobSet,
    Operator,
    ProcessSet,
    Queue,
    RetrySet,
    ScheduledSet,
    ScheduleSet,
    SortedEntry,
    Stats,
    WorkSet,
    fetch_iterations,
    fetch_verdict,
)
from kiqbridge.top import rows
from kiqbridge.top.model import MAX_NAME, Column, Frame, Kind, Listing, Row, View
from kiqbridge.top.shards import shards_listing, with_shards
from kiqbridge.top.visible import visible

PAGE_ROWS: Final = 100
MOST_SECONDS: Final = 0.5
"""So long a filter looks through a set at once; a set of 1,000,000 takes longer than anybody waits for a frame."""

_DAYS: Final = 7

Job = TypeVar("Job", bound=JobRecord)
Reader = Callable[[Operator, View, Stats], Sequence[Listing]]


def read_frame(operator: Operator, view: View) -> Frame:
    """What there is to see.

    Raises:
        RedisUnavailable: nothing was read.
        RedisRefused: the server answered, and refused.
    """
    names = operator.shards
    operator = operator.reachable()
    missing = dict(operator.missing)
    stats = Stats(operator)
    listings = _READERS[view.screen](operator, view, stats)
    if names:
        listings = [with_shards(each, names) for each in listings]
    if names and view.screen == "now":
        listings = [shards_listing(names, stats, missing), *listings]
    return Frame(
        view=view,
        at=stats.fetched_at,
        stats=stats,
        listings=listings,
        verdict=fetch_verdict(operator) if view.screen == "now" else None,
        missing=missing,
    )


def _now(operator: Operator, view: View, stats: Stats) -> Sequence[Listing]:
    history = Listing(
        kind="history",
        title=f"Last {_DAYS} days",
        columns=rows.HISTORY,
        rows=rows.history_rows(stats.history(_DAYS)),
    )
    return [*_queues(operator, view, stats), history]


def _queues(operator: Operator, view: View, stats: Stats) -> Sequence[Listing]:
    if view.queue:
        return [_waiting(operator, view, stats)]
    paused = rows.pauses_by_queue(operator.pauses())
    found = [
        rows.queue_row(
            rows.QueueItem(queue=Queue(name, operator), stats=each, pause=paused.get(name))
        )
        for name, each in stats.queues.items()
    ]
    return [
        _listing("queues", "Queues", found, view, "no job was ever pushed", columns=rows.QUEUES)
    ]


def _waiting(operator: Operator, view: View, stats: Stats) -> Listing:
    queue = Queue(view.queue, operator)
    title = f"Queue {visible(view.queue, MAX_NAME)}, the next to run first"
    now = stats.fetched_at
    if view.where:
        found, note = _look_through(queue, lambda job: view.where.matches(job, now))
        return Listing(
            kind="waiting",
            title=title,
            columns=rows.WAITING,
            rows=[rows.waiting_row(job, now, place) for place, job in enumerate(found)],
            note=note,
            empty="no job matches",
        )
    page = queue.page(view.page, PAGE_ROWS, oldest_first=True)
    first = (page.number - 1) * PAGE_ROWS
    return Listing(
        kind="waiting",
        title=title,
        columns=rows.WAITING,
        rows=[rows.waiting_row(job, now, first + place) for place, job in enumerate(page.rows)],
        total=page.total,
        pages=page.count,
        empty="no job waits",
    )


def _set_reader(kind: Kind) -> Reader:
    make, title, columns, empty = {
        "retry": (
            RetrySet,
            "Retries, the next to run first",
            rows.RETRY,
            "no job waits for a retry",
        ),
        "dead": (DeadSet, "Dead, the last to die first", rows.DEAD, "no job is dead"),
        "schedule": (
            ScheduledSet,
            "Scheduled, the next first",
            rows.SCHEDULED,
            "no job is scheduled",
        ),
    }[kind]

    def read(operator: Operator, view: View, stats: Stats) -> Sequence[Listing]:
        job_set: JobSet = make(operator)
        now = stats.fetched_at

        def listed(entries: Sequence[SortedEntry]) -> Sequence[Row]:
            return [rows.entry_row(each, now, has_failed=kind != "schedule") for each in entries]

        if view.where:
            where = view.where
            found, note = _look_through(job_set.scan(now=now), lambda job: where.matches(job, now))
            found.sort(key=lambda entry: entry.score, reverse=job_set.newest_first)
            return [
                Listing(
                    kind=kind,
                    title=title,
                    columns=columns,
                    rows=listed(found),
                    note=note,
                    empty="no job matches",
                )
            ]
        page = job_set.page(view.page, PAGE_ROWS)
        return [
            Listing(
                kind=kind,
                title=title,
                columns=columns,
                rows=listed(page.rows),
                total=page.total,
                pages=page.count,
                empty=empty,
            )
        ]

    return read


def _look_through(jobs: Iterable[Job], matches: Callable[[Job], bool]) -> tuple[list[Job], str]:
    """The first that match, as far as the time reaches, and a note of how far that was."""
    until = time.monotonic() + MOST_SECONDS
    found: list[Job] = []
    for looked_at, job in enumerate(jobs, start=1):
        if matches(job):
            found.append(job)
        if len(found) == PAGE_ROWS:
            return found, f"the first {PAGE_ROWS} found among {looked_at:,} jobs"
        if time.monotonic() > until:
            return found, f"found among the first {looked_at:,} jobs: there may be more"
    return found, f"{len(found)} found"


def _busy(operator: Operator, view: View, stats: Stats) -> Sequence[Listing]:
    now = stats.fetched_at
    processes = [rows.process_row(each, now) for each in ProcessSet(operator)]
    found = [each for each in WorkSet(operator) if view.where.matches(each.job, now)]
    iterations = fetch_iterations((each.job.jid for each in found[:PAGE_ROWS]), operator)
    works = [
        rows.work_row(rows.WorkItem(work=each, iteration=iterations.get(each.job.jid)), now)
        for each in found[:PAGE_ROWS]
    ]
    return [
        _listing(
            "processes", "Processes", processes, View(), "no process lives", columns=rows.PROCESSES
        ),
        Listing(
            kind="work",
            title="Jobs that run, the longest running first",
            columns=rows.WORK,
            rows=works,
            total=len(found),
            empty="no job runs",
        ),
    ]


def _schedules(operator: Operator, view: View, stats: Stats) -> Sequence[Listing]:
    found = [rows.schedule_row(each, stats.fetched_at) for each in ScheduleSet(operator)]
    return [
        _listing(
            "schedules",
            "Schedules",
            found,
            view,
            "no schedule is known here",
            columns=rows.SCHEDULES,
        )
    ]


def _listing(
    kind: Kind,
    title: str,
    found: Sequence[Row],
    view: View,
    empty: str,
    *,
    columns: Sequence[Column],
) -> Listing:
    """A list that is read as a whole, of which a page is shown."""
    kept = rows.matching(found, view.needle)
    first = (view.page - 1) * PAGE_ROWS
    return Listing(
        kind=kind,
        title=title,
        columns=columns,
        rows=kept[first : first + PAGE_ROWS],
        total=len(kept),
        pages=max(1, -(-len(kept) // PAGE_ROWS)),
        empty="nothing matches" if view.needle else empty,
    )


_READERS: Final[Mapping[str, Reader]] = {
    "now": _now,
    "busy": _busy,
    "queues": _queues,
    "retries": _set_reader("retry"),
    "dead": _set_reader("dead"),
    "scheduled": _set_reader("schedule"),
    "schedules": _schedules,
}
