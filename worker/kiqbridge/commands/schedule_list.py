"""`kiqbridge schedule list`: all schedules, when each fires next, and how it fired last."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from kiqbridge.api import ScheduleView
from kiqbridge.api.schedules import RUBY, ruby_view, schedule_view
from kiqbridge.clocks.ledger import LedgerEntry, read_ledgers
from kiqbridge.clocks.sidekiq_cron import read_sidekiq_cron
from kiqbridge.commands.arguments import add_option, add_switch, user_input
from kiqbridge.commands.moments import moment_or_now
from kiqbridge.commands.output import BOLD, DIM, RESET, has_colours, write_json
from kiqbridge.commands.schedule_sources import Sources, add_source_arguments, read_sources
from kiqbridge.dev.console import shown_instant
from kiqbridge.schedule.sourced import SourcedSchedule
from kiqbridge.wire.amounts import count_text, instant_text, span_text
from kiqbridge.wire.names import shown

_COLOURS: Final = {
    "done": "\033[32m",
    "open": "\033[36m",
    "paused": "\033[33m",
    "skipped": "\033[33m",
    "dead": "\033[31m",
    "unreadable": "\033[31m",
}


def add_arguments(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verb list."""
    verb = verbs.add_parser(
        "list",
        help="all schedules and when they fire next",
        description="List schedules by their next firing. With --redis also how each fired last, which are "
        "paused, and those that the Ruby gem sidekiq-cron fires. A rate without a start is counted from 1970; "
        "AWS counts it from its deployment. Exit 0, or 2 if something cannot be read.",
    )
    add_switch(verb, "--json", "an array of schedules")
    add_option(verb, "--from", "TIME", "the next firing after it (default: now)", dest="begin")
    add_source_arguments(verb)
    verb.set_defaults(command=_list)


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
    last: LedgerEntry | None = None
    last_at: float | None = None

    @property
    def origin(self) -> str:
        """As shown."""
        return f"{RUBY} (Ruby)" if self.view.origin == RUBY else self.view.origin

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
    with user_input():
        now = moment_or_now("--from", options.begin)
        sources = read_sources(options)
    rows = _rows(sources, now)
    if options.json:
        write_json([_document(row) for row in rows])
    else:
        write_rows(sys.stdout, rows, now, with_last=sources.server is not None)
    return 0


def _rows(sources: Sources, now: datetime) -> list[Row]:
    """By the next firing; then what does not fire, then what Ruby fires."""
    last: dict[str, list[LedgerEntry]] = {}
    ruby: list[Row] = []
    server = sources.server
    if server is not None:
        names = [each.name for each in sources.schedules]
        last = read_ledgers(server.pool, server.keys, names, most=1, until=now.timestamp())
        for job in read_sidekiq_cron(server.pool, server.keys):
            view = ruby_view(job, now.timestamp())
            text, last_at = f"{job.job_class} in {job.queue}", job.last_enqueue_time
            ruby.append(Row(view=view, job=text, place="Redis", last_at=last_at))
    rows = [row_of(each, now, *last.get(each.name, ())) for each in sources.schedules]
    rows.sort(key=lambda row: (row.view.next_at is None, row.view.next_at or 0.0))
    return [*rows, *ruby]


def row_of(schedule: SourcedSchedule, now: datetime, last: LedgerEntry | None = None) -> Row:
    """A schedule as it is listed."""
    return Row(
        view=schedule_view(schedule.definition, schedule.state, now.timestamp()),
        job=schedule.classes + (f" in {schedule.queues}" if schedule.definition.jobs else ""),
        place=schedule.place,
        last=last,
        last_at=None if last is None else float(last.at),
    )


def _document(row: Row) -> dict[str, Any]:
    view, last = row.view, row.last
    return {
        "name": view.name,
        "expression": view.expression,
        "timezone": view.timezone,
        "job": row.job,
        "origin": row.origin,
        "place": row.place,
        "state": view.state,
        "note": row.note,
        "detail": row.detail,
        "next": None if view.next_at is None else instant_text(view.next_at),
        "last": None if row.last_at is None else instant_text(row.last_at),
        "outcome": row.outcome or None,
        "by": None if last is None else last.by,
        "late_s": None if last is None else round(last.lateness_s, 3),
        "took_s": row.took_s,
    }


def write_rows(stream: TextIO, rows: Sequence[Row], now: datetime, *, with_last: bool) -> None:
    """Two lines a schedule: name, next and last firing; expression, job, origin; perhaps a third."""
    colour = has_colours(stream)

    def paint(code: str, text: str) -> str:
        return f"{code}{text}{RESET}" if colour and code and text else text

    cells = [(shown(row.view.name), _next_text(row, now), _last_text(row, now)) for row in rows]
    headings = ("SCHEDULE", "NEXT", "LAST" if with_last else "")
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    line = f"{headings[0]:<{widths[0]}}  {headings[1]:<{widths[1]}}  {headings[2]}"
    if rows:
        stream.write(f"{paint(DIM, line.rstrip())}\n")
    for row, texts in zip(rows, cells, strict=True):
        view, is_ruby = row.view, row.view.origin == RUBY
        shade = _COLOURS.get(view.state, DIM if view.next_at is None or is_ruby else "")
        painted = (
            paint(DIM if is_ruby else BOLD, texts[0].ljust(widths[0])),
            paint(shade, texts[1].ljust(widths[1])),
            paint(DIM if is_ruby else _COLOURS.get(row.outcome, ""), texts[2]),
        )
        stream.write("  ".join(painted).rstrip() + "\n")
        zone = f" {view.timezone}" if view.timezone and view.timezone not in view.expression else ""
        about = f"  {view.expression}{zone} · {row.job} · {row.origin}"
        stream.write(f"{paint(DIM, shown(about))}\n")
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
    ago = f"{span_text(now.timestamp() - row.last_at)} ago"
    took = "" if row.took_s is None else f", {row.took_s:.1f} s"
    return f"{row.outcome} {ago}{took}" if row.last else ago
