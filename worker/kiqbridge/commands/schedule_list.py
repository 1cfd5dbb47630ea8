"""`kiqbridge schedule list` and `history`: when schedules fire next, how they fired, and what did not come."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TextIO
from zoneinfo import ZoneInfo

from kiqbridge.api import ScheduleView, open_operator
from kiqbridge.api.schedules import others_schedules, schedule_view
from kiqbridge.client.known_schedules import parsed
from kiqbridge.commands import output
from kiqbridge.commands.acting import write_paused_classes
from kiqbridge.commands.arguments import Verbs, add, add_json, add_verb, user_input, within
from kiqbridge.commands.schedule_sources import Sources, add_source_arguments, read_sources
from kiqbridge.dev.console import shown_instant
from kiqbridge.errors import PayloadError, near_names
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store import ledger
from kiqbridge.wire.amounts import count_text, instant_text, span_text
from kiqbridge.wire.names import shown
from kiqbridge.wire.tick_mark import JobEnd

_COLOURS: Final = {
    "done": "\033[32m",
    "open": "\033[36m",
    "paused": "\033[33m",
    "skipped": "\033[33m",
    "dead": "\033[31m",
    "unreadable": "\033[31m",
}
COUNT: Final = 20
OPEN: Final = "open"
"""The outcome of a job without an end: it waits, runs, is to be retried, or no worker reports its end."""

_MINUTE_S: Final = 60
_MS: Final = 0.001
_NEAR: Final = 3


def add_arguments(verbs: "Verbs[Any]") -> None:
    """The verbs list and history."""
    verb = add_verb(
        verbs,
        "list",
        _list,
        "all schedules and when they fire next",
        "kiqbridge schedule list --template template.yaml --redis",
    )
    add(verb, "--json", "an array of schedules")
    add(verb, "--from TIME", "the next firing after it (default: now)")
    add_source_arguments(verb)
    verb = add_verb(
        verbs,
        "history",
        _history,
        "what fired, by which clock, and how its jobs ended",
        "kiqbridge schedule history nightly-report",
    )
    add(verb, "NAME", "of the schedule, such as shop/NightlyReport")
    text = f"how many (default: {COUNT})"
    add(verb, "--count N", text, type=within(1, 100_000), default=COUNT)
    add(verb, "--since TIME", "ISO 8601, such as 2026-03-28 or 2026-03-28T06:00:00Z")
    add(verb, "--until TIME", "likewise; both are included")
    add_json(verb)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A schedule that is listed.

    Attributes:
        view: when it fires, and why it does not.
        job: its classes and queues.
        place: file and line, or `Redis`.
        last: its last entry in the ledger, if one was read.
        last_at: epoch seconds of the last firing, as far as it is known.
    """

    view: ScheduleView
    job: str
    place: str
    last: ledger.LedgerEntry | None = None
    last_at: float | None = None

    @property
    def origin(self) -> str:
        """As shown."""
        return f"{self.view.origin} (Ruby)" if self.view.is_foreign else self.view.origin

    @property
    def note(self) -> str:
        """Why it does not fire."""
        pause = self.view.pause
        if pause is not None:
            until = "" if pause.until is None else datetime.fromtimestamp(pause.until, UTC)
            return f"paused until {until:%Y-%m-%d %H:%M} UTC" if until else "paused"
        words = {"unreadable": "cannot be read", "disabled": "disabled"}
        return words.get(self.view.state, self.view.note)

    @property
    def detail(self) -> str:
        """More about that, such as who paused it and why, or what is skipped."""
        view = self.view
        if view.pause is not None:
            by = f"by {view.pause.by}" if view.pause.by else ""
            return ": ".join(filter(None, (by, view.pause.reason)))
        if view.state == "unreadable":
            return view.note
        skipped = sum(at < (view.next_at or 0) for at in view.skipped)
        return f"{skipped} skipped before that" if skipped else ""

    @property
    def outcome(self) -> str:
        """How the last firing ended: `done`, `open`, `dead`, …; "" if nothing is known of it."""
        if self.last is None:
            return ""
        return self.last.left_out or self.last.outcome or "no jobs"

    @property
    def took_s(self) -> float | None:
        """Seconds of the longest job of the last firing."""
        ends = self.last.ends if self.last else ()
        return max((end.took_s for end in ends if end.took_s is not None), default=None)


def _list(options: argparse.Namespace) -> int:
    """List schedules by their next firing.

    With --redis also how each fired last, which are paused, and those that the Ruby gem sidekiq-cron fires. A rate
    without a start is counted from 1970; AWS counts it from its deployment. Exit 0, or 2 if something cannot be read.
    """
    now = options.from_ or datetime.now(UTC)
    with user_input():
        sources = read_sources(options)
    rows = _rows(sources, now)
    if options.json:
        output.write_json([_document(row) for row in rows])
    else:
        write_rows(sys.stdout, rows, now, with_last=sources.server is not None)
        if sources.server is not None:
            named = {name for row in rows for name in row.view.classes}
            write_paused_classes(sources.server, named)
    return 0


def _rows(sources: Sources, now: datetime) -> list[Row]:
    """By the next firing; then what does not fire, then what other programs fire."""
    last: Mapping[str, Sequence[ledger.LedgerEntry]] = {}
    others: list[Row] = []
    at, server = now.timestamp(), sources.server
    if server is not None:
        names = [each.name for each in sources.schedules]
        last = ledger.read_ledgers(server.pool, server.keys, names, most=1, until=at)
        for view in others_schedules(server, at):
            job = f"{', '.join(view.classes)} in {', '.join(view.queues)}"
            last_at = None if view.last is None else float(view.last.at)
            others.append(Row(view=view, job=job, place="Redis", last_at=last_at))
    rows = []
    for each in sources.schedules:
        entry = next(iter(last.get(each.name, ())), None)
        rows.append(
            Row(
                view=schedule_view(each.definition, each.state, at),
                job=each.classes + (f" in {each.queues}" if each.definition.jobs else ""),
                place=each.place,
                last=entry,
                last_at=None if entry is None else float(entry.at),
            )
        )
    rows.sort(key=lambda row: (row.view.next_at is None, row.view.next_at or 0.0))
    return [*rows, *others]


def _document(row: Row) -> dict[str, Any]:
    view, last = row.view, row.last
    return {
        **output.fields_of(view, "name expression timezone state"),
        **output.fields_of(row, "job origin place note detail took_s"),
        "next": None if view.next_at is None else instant_text(view.next_at),
        "last": None if row.last_at is None else instant_text(row.last_at),
        "outcome": row.outcome or None,
        "by": None if last is None else last.by,
        "late_s": None if last is None else round(last.lateness_s, 3),
    }


def write_rows(stream: TextIO, rows: Sequence[Row], now: datetime, *, with_last: bool) -> None:
    """Two lines a schedule: name, next and last firing; expression, job, origin; perhaps a third."""
    paint = output.painter(stream)
    cells = [(shown(row.view.name), _next_text(row, now), _last_text(row, now)) for row in rows]
    headings = ("SCHEDULE", "NEXT", "LAST" if with_last else "")
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    line = f"{headings[0]:<{widths[0]}}  {headings[1]:<{widths[1]}}  {headings[2]}"
    if rows:
        stream.write(f"{paint(output.DIM, line.rstrip())}\n")
    for row, texts in zip(rows, cells, strict=True):
        view, is_foreign = row.view, row.view.is_foreign
        shade = _COLOURS.get(view.state, output.DIM if view.next_at is None or is_foreign else "")
        painted = (
            paint(output.DIM if is_foreign else output.BOLD, texts[0].ljust(widths[0])),
            paint(shade, texts[1].ljust(widths[1])),
            paint(output.DIM if is_foreign else _COLOURS.get(row.outcome, ""), texts[2]),
        )
        stream.write("  ".join(painted).rstrip() + "\n")
        zone = f" {view.timezone}" if view.timezone and view.timezone not in view.expression else ""
        about = f"  {view.expression}{zone} · {row.job} · {row.origin}"
        stream.write(f"{paint(output.DIM, shown(about))}\n")
        if row.detail:
            stream.write(f"  {paint(shade, shown(row.detail))}\n")
    stream.write(f"{count_text(len(rows), 'schedule')}\n")


def _next_text(row: Row, now: datetime) -> str:
    view = row.view
    if view.state in ("paused", "unreadable") or view.next_at is None:
        return shown(row.note)
    span = span_text(view.next_at - now.timestamp())
    due = datetime.fromtimestamp(view.next_at, UTC)
    return f"in {span:<7} {shown_instant(due, view.timezone)}"


def _last_text(row: Row, now: datetime) -> str:
    if row.last_at is None:
        return ""
    ago = output.since_cell(row.last_at, now.timestamp())
    took = "" if row.took_s is None else f", {row.took_s:.1f} s"
    return f"{row.outcome} {ago}{took}" if row.last else ago


def _history(options: argparse.Namespace) -> int:
    """Print the newest instants of a schedule: how late each was enqueued and by which clock, and what became of it.

    That is how often it was delivered, and how its jobs ended; ticks that did not come are among them. A job that is
    open waits, runs or is retried, or Ruby performed it. The ledger remembers 17 days. Exit 2 if no schedule has this
    name.
    """
    server = open_operator(via="cli")
    pool, keys, name, most = server.pool, server.keys, options.name, options.count
    since, until = (each and each.timestamp() for each in (options.since, options.until))
    asked = {"most": most, "since": since, "until": until}
    by_instant = {entry.at: entry for entry in ledger.read_ledger(pool, keys, name, **asked)}
    missed = set(ledger.read_missed(pool, keys, name, **asked))
    instants = sorted({*by_instant, *missed}, reverse=True)[:most]
    rows = [_Row(at, by_instant.get(at), at in missed) for at in instants]
    if not rows and name not in (known := ledger.known_schedules(pool, keys)):
        raise PayloadError(_unknown(name, known))
    definition = parsed(name, pool.call("HGET", keys.schedules, name) or b"")  # None: shown in UTC
    if options.json:
        names = "expression timezone"
        about = output.fields_of(definition, names) if definition else dict.fromkeys(names.split())
        output.write_json(
            {"schedule": name, **about, "instants": [_described(row) for row in rows]}
        )
    else:
        _print(name, definition, rows)
    return 0


class _Row(NamedTuple):
    """An instant: its entry in the ledger, or that it did not come in time, or both."""

    at: int
    entry: ledger.LedgerEntry | None
    is_missed: bool

    @property
    def jobs(self) -> Sequence[tuple[str, JobEnd | None]]:
        """Each job with its end."""
        return [(jid, self.entry.end_of(jid)) for jid in self.entry.jids] if self.entry else []


def _unknown(name: str, known: set[str]) -> str:
    short = name.rpartition("/")[2].lower()
    near = [each for each in sorted(known) if each.rpartition("/")[2].lower() == short]
    near = near or near_names(name, known, _NEAR)
    hint = f"did you mean {', '.join(near[:_NEAR])}?" if near else "nothing was enqueued under it"
    return f"no schedule is named {name!r}: {hint}"


def _described(row: _Row) -> dict[str, Any]:
    entry = row.entry
    return {
        "at": row.at,
        "instant": instant_text(row.at),
        "missed": row.is_missed,
        "by": entry and entry.by,
        "enqueued_at": entry and entry.enqueued_at,
        "lateness_s": entry and round(entry.lateness_s, 3),
        "deliveries": entry.attempts if entry else 0,
        "left_out": (entry and entry.left_out) or None,
        "jobs": [
            {
                "jid": jid,
                "outcome": end.outcome if end else OPEN,
                "ended_at": end and end.ended_at,
                "took_s": end and end.took_s,
                "error": (end and end.error) or None,
                "retries": end and end.retries,
            }
            for jid, end in row.jobs
        ],
    }


def _print(name: str, definition: ScheduleDefinition | None, rows: Sequence[_Row]) -> None:
    zone = definition.timezone if definition is not None else "UTC"
    expression = f"  {definition.expression}  {zone}" if definition is not None else ""
    output.write_line(f"{name}{expression}")
    if not rows:
        output.write_line("nothing has fired within this time")
        return
    local = () if zone == "UTC" else (f"due ({zone})",)
    titles = ("due (UTC)", ">late", "by", ">deliveries", "!job", "outcome", ">took", "notes")
    output.write_table((*local, *titles), [line for row in rows for line in _lines(row, zone)])


def _lines(row: _Row, zone: str) -> Iterator[tuple[str, ...]]:
    """A line for each job of an instant; what they share is in the first one."""
    local = datetime.fromtimestamp(row.at, ZoneInfo(zone))
    when = [] if zone == "UTC" else [f"{local:%a %Y-%m-%d %H:%M:%S %Z}"]
    shared, note, outcome = [*when, instant_text(row.at), "", "", ""], "", "missed"
    if (entry := row.entry) is not None:
        ahead = " ahead" if entry.lateness_s < 0 else ""
        late = f"{_seconds(abs(entry.lateness_s))}{ahead}"
        shared[-3:] = [late, entry.by.partition(":")[0], str(entry.attempts)]
        note = "missed at first" if row.is_missed else ""
        outcome = entry.left_out or "no jobs"
    if not row.jobs:
        yield (*shared, "", outcome, "", note)
    for jid, end in row.jobs:
        yield (*shared, jid, *_ended(end, note))
        shared, note = [""] * len(shared), ""


def _ended(end: JobEnd | None, note: str) -> tuple[str, str, str]:
    """Outcome, seconds and notes of a job."""
    if end is None:
        return OPEN, "", note
    took = "" if end.took_s is None else _seconds(end.took_s)
    retries = f"after {end.retries} retr{'ies' if end.retries > 1 else 'y'}" if end.retries else ""
    error = " ".join(filter(None, [end.error, retries]))
    return end.outcome, took, ", ".join(filter(None, [error, note]))


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds / _MS:.0f} ms"
    return f"{seconds:.1f} s" if seconds < _MINUTE_S else span_text(seconds)
