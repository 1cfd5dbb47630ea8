"""From what `kiqbridge.api` found to rows of texts; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.api import (
    History,
    Iteration,
    JobRecord,
    Occurrence,
    Process,
    Queue,
    QueuedJob,
    QueueStats,
    ScheduleView,
    SortedEntry,
    Work,
)
from kiqbridge.store.pauses import Pause
from kiqbridge.top.model import MAX_NAME, Column, Row, Tone
from kiqbridge.top.visible import duration, relative, shown_args, shown_error, size, visible

SLOW_BEAT_S: Final = 30
"""A process beats each 10 s; after so long its last beat is worth a colour."""
LONG_WAIT_S: Final = 60
LONG_RUN_S: Final = 600
_SIGNS: Final = 12
_KINDS: Final = {
    "on time": "●",
    "late": "◐",
    "duplicate": "●",
    "missed": "○",
    "caught up": "◒",
    "paused": "-",
    "skipped": "-",
}

QUEUES: Final = (
    Column(title="Queue", share=2),
    Column(title="Waiting", width=10, is_number=True),
    Column(title="Latency", width=12, is_number=True),
    Column(title="Paused", share=2),
)
RETRY: Final = (
    Column(title="Next try", width=15),
    Column(title="Tries", width=5, is_number=True),
    Column(title="Queue", width=10),
    Column(title="Class", share=3),
    Column(title="Arguments", share=4),
    Column(title="Error", share=6),
)
DEAD: Final = (Column(title="Died", width=15), *RETRY[1:])
SCHEDULED: Final = (
    Column(title="Due", width=15),
    Column(title="Queue", width=12),
    Column(title="Class", share=3),
    Column(title="Arguments", share=5),
)
WAITING: Final = (
    Column(title="Enqueued", width=15),
    Column(title="Class", share=3),
    Column(title="Arguments", share=5),
)
WORK: Final = (
    Column(title="Running", width=12, is_number=True),
    Column(title="Queue", width=12),
    Column(title="Class", share=3),
    Column(title="Arguments", share=3),
    Column(title="Cursor", width=10),
    Column(title="Process", share=3),
    Column(title="Thread", width=8),
)
PROCESSES: Final = (
    Column(title="Process", share=3),
    Column(title="Version", width=16),
    Column(title="Busy", width=8, is_number=True),
    Column(title="State", width=8),
    Column(title="Queues", share=2),
    Column(title="Memory", width=9, is_number=True),
    Column(title="Up", width=11, is_number=True),
    Column(title="Beat", width=11, is_number=True),
)
SCHEDULES: Final = (
    Column(title="Schedule", share=3),
    Column(title="When", share=3),
    Column(title="Next", width=15),
    Column(title="Last", width=15),
    Column(title="Last ones", width=12),
    Column(title="State", share=2),
)
HISTORY: Final = (
    Column(title="Day (UTC)", width=12),
    Column(title="Processed", width=14, is_number=True),
    Column(title="Failed", width=14, is_number=True),
    Column(title="", share=1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueItem:
    """A queue as it was seen, with its pause."""

    queue: Queue
    stats: QueueStats
    pause: Pause | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """A job that runs, and how far it is if it is iterable."""

    work: Work
    iteration: Iteration | None


def queue_row(item: QueueItem) -> Row:
    """A queue: how many wait, for how long the oldest has, who paused it."""
    wait = item.stats.latency
    tone: Tone = "warn" if wait >= LONG_WAIT_S else ""
    cells = (
        visible(item.queue.name, MAX_NAME),
        f"{item.stats.size:,}",
        duration(wait) if item.stats.size else "-",
        _paused(item.pause),
    )
    return Row(key=item.queue.name, cells=cells, item=item, tone="dim" if item.pause else tone)


def _paused(pause: Pause | None) -> str:
    if pause is None:
        return ""
    reason = f": {pause.reason}" if pause.reason else ""
    return visible(f"paused by {pause.by or 'another program'}{reason}", MAX_NAME)


def entry_row(entry: SortedEntry, now: float, *, has_failed: bool) -> Row:
    """A member of a sorted set."""
    tries = () if not has_failed else (str((entry.retry_count or 0) + 1),)
    cells = (
        relative(entry.score, now),
        *tries,
        visible(entry.queue, MAX_NAME),
        _class(entry),
        shown_args(entry),
        *((shown_error(entry),) if has_failed else ()),
    )
    return Row(key=f"{entry.score!r} {entry.text!r}", cells=cells, item=entry)


def waiting_row(job: QueuedJob, now: float, position: int) -> Row:
    """A job in a queue; equal texts may wait several times, so its place counts."""
    since = job.enqueued_at if job.enqueued_at is not None else job.created_at
    cells = (relative(since, now), _class(job), shown_args(job))
    return Row(key=job.jid or f"at {position}", cells=cells, item=job)


def work_row(item: WorkItem, now: float) -> Row:
    """A job that runs."""
    work, progress = item.work, item.iteration
    runs = now - work.run_at
    cells = (
        duration(runs),
        visible(work.job.queue, MAX_NAME),
        _class(work.job),
        shown_args(work.job),
        visible(progress.cursor_text, MAX_NAME) if progress else "",
        visible(work.process, MAX_NAME),
        visible(work.tid, MAX_NAME),
    )
    tone: Tone = "warn" if runs >= LONG_RUN_S else ""
    return Row(key=f"{work.process} {work.tid} {work.job.jid}", cells=cells, item=item, tone=tone)


def process_row(process: Process, now: float) -> Row:
    """A process of Python or Ruby."""
    quiet, beat = now - process.beat_at, process.beat_at
    is_late = quiet > SLOW_BEAT_S
    state = "late" if is_late else "quiet" if process.is_quiet else "running"
    cells = (
        visible(process.identity, MAX_NAME),
        visible(process.version or "sidekiq", MAX_NAME),
        f"{process.busy}/{process.concurrency}",
        state,
        visible(", ".join(process.queues), MAX_NAME),
        size(process.rss_kb),
        duration(now - process.started_at) if process.started_at else "-",
        relative(beat, now),
    )
    tone: Tone = "bad" if is_late else "dim" if process.is_quiet else ""
    return Row(key=process.identity, cells=cells, item=process, tone=tone)


def schedule_row(schedule: ScheduleView, now: float) -> Row:
    """A schedule: when it fires next, what became of its last occurrences."""
    last = schedule.last
    note = schedule.note or (f"{len(schedule.skipped)} skipped" if schedule.skipped else "")
    if schedule.pause is not None:
        reason = f": {schedule.pause.reason}" if schedule.pause.reason else ""
        note = f"paused by {schedule.pause.by or 'somebody'}{reason}"
    signs = "".join(sign_of(each) for each in reversed(schedule.occurrences[:_SIGNS]))
    cells = (
        visible(schedule.name, MAX_NAME),
        visible(f"{schedule.expression} {schedule.timezone}", MAX_NAME),
        relative(schedule.next_at, now),
        relative(last.at if last else None, now),
        signs,
        visible(note or ("" if schedule.state == "enabled" else schedule.state), MAX_NAME),
    )
    tone: Tone = "" if schedule.state == "enabled" else "dim"
    if last is not None and (last.kind == "missed" or last.outcome == "dead"):
        tone = "bad"
    return Row(key=schedule.name, cells=cells, item=schedule, tone=tone)


def sign_of(occurrence: Occurrence) -> str:
    """A sign for what became of an occurrence; the help explains them."""
    return "x" if occurrence.outcome == "dead" else _KINDS[occurrence.kind]


def history_rows(history: History) -> Sequence[Row]:
    """A day a row, with a bar of its size among them."""
    most = max(history.processed.values(), default=0) or 1
    return [
        Row(
            key=day.isoformat(),
            cells=(
                day.isoformat(),
                f"{count:,}",
                f"{history.failed[day]:,}",
                "▇" * round(40 * count / most),
            ),
            item=day,
        )
        for day, count in history.processed.items()
    ]


def matching(rows: Sequence[Row], needle: str) -> Sequence[Row]:
    """Those with the text in a cell, in any case."""
    if not needle:
        return rows
    return [row for row in rows if any(needle in cell.casefold() for cell in row.cells)]


def pauses_by_queue(pauses: Sequence[Pause]) -> Mapping[str, Pause]:
    """Queue → its pause."""
    return {each.name: each for each in pauses if each.kind == "queue"}


def _class(job: JobRecord) -> str:
    return visible(job.display_class, MAX_NAME) or "?"
