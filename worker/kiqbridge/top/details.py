"""Everything about one row, as text for a screen of its own."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from kiqbridge import redaction
from kiqbridge.api import JobRecord, Occurrence, Process, ScheduleView, SortedEntry
from kiqbridge.api.occurrences import LATE_S
from kiqbridge.top.model import Row
from kiqbridge.top.rows import QueueItem, WorkItem, sign_of
from kiqbridge.top.shards import ShardItem
from kiqbridge.top.visible import absolute, duration, relative, shown_error, visible

MAX_TEXT: Final = 20_000
"""Characters of arguments or of a payload; what is longer is cut, and says so."""
MAX_LINE: Final = 2_000
MAX_LINES: Final = 200
MAX_TITLE: Final = 100

Field = tuple[str, str]


def title_of(row: Row) -> str:
    """What the details are about."""
    item = row.item.work.job if isinstance(row.item, WorkItem) else row.item
    if isinstance(item, JobRecord):
        return visible(f"{item.display_class} {item.jid}", MAX_TITLE)
    if isinstance(item, QueueItem):
        return visible(item.queue.name, MAX_TITLE)
    return visible(item.identity if isinstance(item, Process) else item.name, MAX_TITLE)


def details_of(row: Row, now: float) -> Text | None:
    """What is known of a row; None if the table shows it all."""
    for kind, build in _BUILDERS:
        if isinstance(row.item, kind):
            return build(row.item, now)
    return None


def _entry(entry: SortedEntry, now: float) -> Text:
    name = "died" if entry.parent.name == "dead" else "due"
    return _job_text(entry, now, [(name, _moment(entry.score, now))])


def _job(job: JobRecord, now: float) -> Text:
    return _job_text(job, now, [])


def _work(item: WorkItem, now: float) -> Text:
    work, progress = item.work, item.iteration
    above = [
        ("running since", _moment(work.run_at, now)),
        ("shard", visible(work.shard)),
        ("process", visible(work.process)),
        ("thread", visible(work.tid)),
        ("cursor", visible(progress.cursor_text, MAX_LINE) if progress else ""),
        ("executions", str(progress.executions) if progress else ""),
    ]
    return _job_text(work.job, now, above)


def _job_text(job: JobRecord, now: float, above: Sequence[Field]) -> Text:
    text = Text()
    _fields(
        text,
        [
            ("class", visible(job.display_class, MAX_LINE) or "?"),
            ("jid", visible(job.jid) or "-"),
            ("queue", visible(job.queue, MAX_LINE)),
            ("shard", visible(job.shard)),
            *above,
            ("created", _moment(job.created_at, now)),
            ("enqueued", _moment(job.enqueued_at, now)),
            ("failed first", _moment(job.failed_at, now)),
            ("failed last", _moment(job.retried_at, now)),
            ("tries", "" if job.retry_count is None else str(job.retry_count + 1)),
            ("tags", visible(", ".join(job.tags), MAX_LINE)),
            ("batch", visible(job.bid or "", MAX_LINE)),
        ],
    )
    if not job.is_readable:
        _block(text, "this cannot be read as a job; its text", _lines(job.text))
        return text
    hidden = redaction.current()
    _block(text, "arguments", _json_lines(hidden.arguments(list(job.display_args))))
    if job.error_class:
        _block(text, "error", [shown_error(job, MAX_LINE)], "red")
    trace = [visible(hidden.text(line), MAX_LINE) for line in job.error_backtrace[:MAX_LINES]]
    _block(text, "backtrace", trace)
    known = ("args", "error_backtrace", "error_message")
    rest = {name: value for name, value in hidden.payload(job.item).items() if name not in known}
    _block(text, "payload without arguments", _json_lines(rest))
    return text


def _process(process: Process, now: float) -> Text:
    text = Text()
    _fields(
        text,
        [
            ("process", visible(process.identity, MAX_LINE)),
            ("shard", visible(process.shard)),
            ("version", visible(process.version, MAX_LINE)),
            ("tag", visible(process.tag, MAX_LINE)),
            ("labels", visible(", ".join(process.labels), MAX_LINE)),
            ("queues", visible(", ".join(process.queues), MAX_LINE)),
            ("busy", f"{process.busy} of {process.concurrency} threads"),
            ("takes jobs", "no, it is quiet" if process.is_quiet else "yes"),
            ("started", _moment(process.started_at, now)),
            ("last beat", _moment(process.beat_at, now)),
            ("round trip", f"{process.rtt_us / 1000:.1f} ms" if process.rtt_us else ""),
        ],
    )
    return text


def _queue(item: QueueItem, now: float) -> Text:
    text = Text()
    pause = item.pause
    _fields(
        text,
        [
            ("queue", visible(item.queue.name, MAX_LINE)),
            ("waits on", visible(", ".join(item.stats.shards), MAX_LINE)),
            ("waiting", f"{item.stats.size:,}"),
            ("latency", duration(item.stats.latency)),
            ("paused by", visible((pause.by or "another program") if pause else "", MAX_LINE)),
            ("reason", visible(pause.reason if pause else "", MAX_LINE)),
            ("paused since", _moment(pause.at if pause else None, now)),
            ("paused until", _moment(pause.until if pause else None, now)),
        ],
    )
    return text


def _shard(item: ShardItem, now: float) -> Text:
    text, stats = Text(), item.stats
    if stats is None:
        _fields(text, [("shard", visible(item.name, MAX_LINE)), ("away", visible(item.why))])
        return text
    _fields(
        text,
        [
            ("shard", visible(item.name, MAX_LINE)),
            ("seen", _moment(stats.fetched_at, now)),
            ("processes", f"{stats.processes_size:,}"),
            ("busy", f"{stats.workers_size:,}"),
            ("processed", f"{stats.processed:,}"),
            ("failed", f"{stats.failed:,}"),
            ("retries", f"{stats.retry_size:,}"),
            ("scheduled", f"{stats.scheduled_size:,}"),
            ("dead", f"{stats.dead_size:,}"),
        ],
    )
    waiting = [(name, each) for name, each in stats.queues.items() if each.size]
    _block(
        text,
        "queues with jobs",
        [
            f"{visible(name, MAX_LINE)}: {each.size:,}, the oldest for {duration(each.latency)}"
            for name, each in waiting[:MAX_LINES]
        ],
    )
    return text


def _schedule(schedule: ScheduleView, now: float) -> Text:
    pause = schedule.pause
    text = Text()
    _fields(
        text,
        [
            ("schedule", visible(schedule.name, MAX_LINE)),
            ("shard", visible(schedule.shard)),
            ("when", visible(schedule.expression, MAX_LINE)),
            ("zone", visible(schedule.timezone, MAX_LINE)),
            ("origin", visible(schedule.origin)),
            ("state", visible(f"{schedule.state} {schedule.note}", MAX_LINE)),
            ("jobs", visible(", ".join(schedule.classes), MAX_LINE)),
            ("queues", visible(", ".join(schedule.queues), MAX_LINE)),
            ("paused by", visible((pause.by or "somebody") if pause else "", MAX_LINE)),
            ("reason", visible(pause.reason if pause else "", MAX_LINE)),
        ],
    )
    _block(text, "next", [_moment(each, now) for each in schedule.next])
    _block(text, "skipped", [_moment(each, now) for each in schedule.skipped[:MAX_LINES]])
    _block(text, "last occurrences", [_occurrence(each, now) for each in schedule.occurrences])
    if schedule.definition is not None:
        hidden = redaction.current().value(schedule.definition.to_document())
        _block(text, "definition", _json_lines(hidden))
    return text


def _occurrence(occurrence: Occurrence, now: float) -> str:
    late = occurrence.late_s
    by = f", by {visible(occurrence.by, MAX_LINE)}" if occurrence.by else ""
    took = f", {duration(late)} late" if late is not None and late >= LATE_S else ""
    outcome = f", {visible(occurrence.outcome)}" if occurrence.outcome else ""
    return (
        f"{sign_of(occurrence)} {_moment(occurrence.at, now)}: {occurrence.kind}{took}{outcome}{by}"
    )


_BUILDERS: Final[Sequence[tuple[type, Callable[[Any, float], Text]]]] = (
    (SortedEntry, _entry),
    (JobRecord, _job),
    (WorkItem, _work),
    (Process, _process),
    (QueueItem, _queue),
    (ScheduleView, _schedule),
    (ShardItem, _shard),
)


def _moment(moment: float | None, now: float) -> str:
    return f"{absolute(moment)}, {relative(moment, now)}" if moment else ""


def _fields(text: Text, fields: Sequence[Field]) -> None:
    for name, value in fields:
        if value:
            text.append(f"{name:>13}  ", "bold cyan")
            text.append(f"{value}\n")


def _block(text: Text, title: str, lines: Sequence[str], style: str = "") -> None:
    if not lines:
        return
    text.append(f"\n{title}\n", "bold cyan")
    for line in lines:
        text.append(f"  {line}\n", style)


def _json_lines(value: Mapping[str, Any] | Sequence[Any]) -> Sequence[str]:
    if not value:
        return ["none"]
    try:
        written = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        written = repr(value)
    return _cut(written)


def _lines(raw: bytes) -> Sequence[str]:
    return _cut(raw[: 4 * MAX_TEXT].decode("utf-8", "surrogateescape"))


def _cut(written: str) -> Sequence[str]:
    lines = [visible(line, MAX_LINE) for line in written[:MAX_TEXT].split("\n")]
    if len(written) > MAX_TEXT:
        lines.append(f"… {len(written) - MAX_TEXT:,} more characters")
    return lines
