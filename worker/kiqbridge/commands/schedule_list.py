"""`kiqbridge schedule list`: all schedules, when each fires next, and how it fired last."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from kiqbridge.commands.arguments import add_option, add_switch
from kiqbridge.errors import ConfigError

if TYPE_CHECKING:
    from kiqbridge.clocks.ledger import LedgerEntry
    from kiqbridge.clocks.sidekiq_cron import SidekiqCronJob
    from kiqbridge.commands.schedule_sources import Sources
    from kiqbridge.schedule.cron import ScheduleExpression
    from kiqbridge.schedule.sourced import SourcedSchedule

_DIM, _BOLD, _RESET = "\033[2m", "\033[1m", "\033[0m"
_COLOURS: Final = {
    "done": "\033[32m",
    "open": "\033[36m",
    "paused": "\033[33m",
    "skipped": "\033[33m",
    "dead": "\033[31m",
    "unreadable": "\033[31m",
}
_RUBY: Final = "sidekiq-cron (Ruby)"
_MOST_SKIPPED: Final = 1000


def add_arguments(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verb list."""
    from kiqbridge.commands.schedule_sources import add_source_arguments  # noqa: PLC0415

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
        name, expression, timezone, job, origin: as shown.
        state: `enabled`, `disabled`, `paused`, or `unreadable`.
        next_at: aware; None = it does not fire.
        note: why it does not, or what is skipped.
        detail: more about that, such as who paused it and why.
        last: its last entry in the ledger, if one was read.
        last_at: epoch seconds of the last firing, as far as it is known.
        place: file and line, or `Redis`.
    """

    name: str
    expression: str
    timezone: str
    job: str
    origin: str
    state: str
    next_at: datetime | None
    note: str = ""
    detail: str = ""
    last: "LedgerEntry | None" = None
    last_at: float | None = None
    place: str = ""

    @property
    def outcome(self) -> str:
        """How the last firing ended: `done`, `open`, `dead`, …; "" if nothing is known of it."""
        if self.last is None:
            return ""
        if self.last.left_out:
            return self.last.left_out
        ends = [self.last.end_of(jid) for jid in self.last.jids]
        if not ends or any(end is None for end in ends):
            return "open"
        outcomes = [end.outcome for end in ends if end is not None]
        return next((each for each in outcomes if each != "done"), "done")


def _list(options: argparse.Namespace) -> int:
    from kiqbridge.commands.moments import moment_of  # noqa: PLC0415
    from kiqbridge.commands.schedule_sources import read_sources, unreadable  # noqa: PLC0415

    try:
        now = datetime.now(UTC) if options.begin is None else moment_of("--from", options.begin)
        sources = read_sources(options)
    except ConfigError as error:
        return unreadable(error)
    rows = _rows(sources, now)
    if options.json:
        sys.stdout.write(json.dumps([_document(row) for row in rows]) + "\n")
    else:
        _write(sys.stdout, rows, now, with_last=sources.server is not None)
    return 0


def _rows(sources: "Sources", now: datetime) -> list[Row]:
    """By the next firing; then what does not fire, then what Ruby fires."""
    last: dict[str, LedgerEntry] = {}
    ruby: list[Row] = []
    server = sources.server
    if server is not None:
        from kiqbridge.clocks.last_entries import read_last_entries  # noqa: PLC0415
        from kiqbridge.clocks.sidekiq_cron import read_sidekiq_cron  # noqa: PLC0415

        names = [each.name for each in sources.schedules]
        redis = server.pool, server.keys
        last = read_last_entries(*redis, names, now.timestamp())
        ruby = [_ruby_row(each, now) for each in read_sidekiq_cron(*redis)]
    rows = [row_of(each, now, last.get(each.name)) for each in sources.schedules]
    far = datetime.max.replace(tzinfo=UTC)
    rows.sort(key=lambda row: row.next_at or far)
    return [*rows, *ruby]


def row_of(schedule: "SourcedSchedule", now: datetime, last: "LedgerEntry | None") -> Row:
    """A schedule as it is listed."""
    from kiqbridge.schedule.cron_fields import ExpressionError  # noqa: PLC0415

    definition = schedule.definition
    known: dict[str, Any] = {
        "name": schedule.name,
        "expression": definition.expression,
        "job": schedule.classes + (f" in {schedule.queues}" if definition.jobs else ""),
        "origin": definition.origin,
        "last": last,
        "last_at": None if last is None else float(last.at),
        "place": schedule.place,
    }
    try:
        when = definition.when
    except ExpressionError as error:
        return Row(
            **known,
            timezone=definition.timezone,
            state="unreadable",
            next_at=None,
            note="cannot be read",
            detail=str(error),
        )
    known["timezone"] = when.timezone
    if not definition.enabled:
        return Row(**known, state="disabled", next_at=None, note="disabled")
    next_at, skipped = _next(schedule, when, now)
    pause = schedule.state.pause_at(now.timestamp())
    if pause is not None:
        until = ""
        if pause.until is not None:
            until = f" until {datetime.fromtimestamp(pause.until, UTC):%Y-%m-%d %H:%M} UTC"
        by = f"by {pause.by}" if pause.by else ""
        detail = ": ".join(text for text in (by, pause.reason) if text)
        return Row(**known, state="paused", next_at=next_at, note=f"paused{until}", detail=detail)
    note = "" if next_at else "never again"
    detail = f"{skipped} skipped before that" if skipped else ""
    return Row(**known, state="enabled", next_at=next_at, note=note, detail=detail)


def _next(
    schedule: "SourcedSchedule", when: "ScheduleExpression", now: datetime
) -> tuple[datetime | None, int]:
    """The next firing that is neither paused nor skipped, and how many are skipped before it."""
    pause = schedule.state.pause_at(now.timestamp())
    if pause is not None:
        if pause.until is None:
            return None, 0
        # An occurrence at the very end of a pause is due.
        now = datetime.fromtimestamp(pause.until - 0.001, UTC)
    for skipped in range(_MOST_SKIPPED):
        following = when.next_after(now)
        if following is None or int(following.timestamp()) not in schedule.state.skipped:
            return following, skipped
        now = following
    return None, _MOST_SKIPPED


def _ruby_row(job: "SidekiqCronJob", now: datetime) -> Row:
    from kiqbridge.schedule.cron_fields import ExpressionError  # noqa: PLC0415
    from kiqbridge.schedule.sidekiq_cron import parse_sidekiq_cron  # noqa: PLC0415

    known: dict[str, Any] = {
        "name": job.name,
        "expression": job.cron,
        "job": f"{job.job_class} in {job.queue}",
        "origin": _RUBY,
        "state": job.status,
        "last_at": job.last_enqueue_time,
        "place": "Redis",
    }
    try:
        when = parse_sidekiq_cron(job.cron)
    except ExpressionError:
        # Not "unreadable": the gem reads forms that are refused here.
        return Row(**known, timezone="", next_at=None, note="in a form of Ruby's")
    following = when.next_after(now) if job.enabled else None
    return Row(
        **known, timezone=when.timezone, next_at=following, note="" if job.enabled else "disabled"
    )


def _document(row: Row) -> dict[str, Any]:
    from kiqbridge.wire.amounts import instant_text  # noqa: PLC0415

    last = row.last
    took = [end.took_s for end in last.ends if end.took_s is not None] if last else []
    return {
        "name": row.name,
        "expression": row.expression,
        "timezone": row.timezone,
        "job": row.job,
        "origin": row.origin,
        "place": row.place,
        "state": row.state,
        "note": row.note,
        "detail": row.detail,
        "next": None if row.next_at is None else instant_text(row.next_at),
        "last": None if row.last_at is None else instant_text(row.last_at),
        "outcome": row.outcome or None,
        "by": None if last is None else last.by,
        "late_s": None if last is None else round(last.lateness_s, 3),
        "took_s": max(took, default=None),
    }


def _write(stream: TextIO, rows: Sequence[Row], now: datetime, *, with_last: bool) -> None:
    """Two lines a schedule: name, next and last firing; expression, job, origin; perhaps a third."""
    from kiqbridge.wire.amounts import count_text  # noqa: PLC0415
    from kiqbridge.wire.names import shown  # noqa: PLC0415

    colour = stream.isatty() and not os.environ.get("NO_COLOR")

    def paint(code: str, text: str) -> str:
        return f"{code}{text}{_RESET}" if colour and code and text else text

    cells = [(shown(row.name), _next_text(row, now), _last_text(row, now)) for row in rows]
    headings = ("SCHEDULE", "NEXT", "LAST" if with_last else "")
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    line = f"{headings[0]:<{widths[0]}}  {headings[1]:<{widths[1]}}  {headings[2]}"
    if rows:
        stream.write(f"{paint(_DIM, line.rstrip())}\n")
    for row, texts in zip(rows, cells, strict=True):
        is_ruby = row.origin == _RUBY
        shade = _COLOURS.get(row.state, _DIM if row.next_at is None or is_ruby else "")
        painted = (
            paint(_DIM if is_ruby else _BOLD, texts[0].ljust(widths[0])),
            paint(shade, texts[1].ljust(widths[1])),
            paint(_DIM if is_ruby else _COLOURS.get(row.outcome, ""), texts[2]),
        )
        stream.write("  ".join(painted).rstrip() + "\n")
        zone = f" {row.timezone}" if row.timezone and row.timezone not in row.expression else ""
        about = f"  {row.expression}{zone} · {row.job} · {row.origin}"
        stream.write(f"{paint(_DIM, shown(about))}\n")
        if row.detail:
            stream.write(f"  {paint(shade, shown(row.detail))}\n")
    stream.write(f"{count_text(len(rows), 'schedule')}\n")


def _next_text(row: Row, now: datetime) -> str:
    from kiqbridge.dev.console import shown_instant  # noqa: PLC0415
    from kiqbridge.wire.amounts import span_text  # noqa: PLC0415
    from kiqbridge.wire.names import shown  # noqa: PLC0415

    if row.state in ("paused", "unreadable") or row.next_at is None:
        return shown(row.note)
    span = span_text((row.next_at - now).total_seconds())
    return f"in {span:<7} {shown_instant(row.next_at, row.timezone)}"


def _last_text(row: Row, now: datetime) -> str:
    from kiqbridge.wire.amounts import span_text  # noqa: PLC0415

    if row.last_at is None:
        return ""
    ago = f"{span_text(now.timestamp() - row.last_at)} ago"
    if row.last is None:
        return ago
    took = [end.took_s for end in row.last.ends if end.took_s is not None]
    return f"{row.outcome} {ago}" + (f", {max(took):.1f} s" if took else "")
