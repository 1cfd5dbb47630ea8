"""`kiqbridge schedule history`: what the ledger of one schedule knows, and the ticks that did not come."""

import argparse
import difflib
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from kiqbridge.api import Operator, open_operator
from kiqbridge.clocks.ledger import LedgerEntry, known_schedules, read_ledger, read_missed
from kiqbridge.commands.arguments import add_json, add_option, user_input, within
from kiqbridge.commands.moments import moment_of
from kiqbridge.commands.output import (
    write_json,
    write_line,
    write_table,
)
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.wire import json_text
from kiqbridge.wire.amounts import instant_text, span_text
from kiqbridge.wire.tick_mark import JobEnd

COUNT: Final = 20
OPEN: Final = "open"
"""The outcome of a job without an end: it waits, runs, is to be retried, or nobody reports its end."""

_MINUTE_S: Final = 60
_MS: Final = 0.001
_NEAR: Final = 3


def add_arguments(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verb history."""
    verb = verbs.add_parser(
        "history",
        help="what fired, by which clock, and how its jobs ended",
        description="Print the newest instants of a schedule: how late each was enqueued and by which clock, how "
        "often it was delivered, and how its jobs ended; ticks that did not come are among them. A job that is "
        f"{OPEN} waits, runs or is retried, or Ruby performed it. The ledger remembers 17 days. Exit 2 if no "
        "schedule has this name.",
    )
    add_option(verb, "name", "NAME", "of the schedule, such as shop/NightlyReport")
    add_option(
        verb, "--count", "N", f"how many (default: {COUNT})", type=within(1, 100_000), default=COUNT
    )
    add_option(verb, "--since", "TIME", "ISO 8601, such as 2026-03-28 or 2026-03-28T06:00:00Z")
    add_option(verb, "--until", "TIME", "likewise; both are included")
    add_json(verb)
    verb.set_defaults(command=_history)


def _history(options: argparse.Namespace) -> int:
    with user_input():
        since, until = (
            None if text is None else moment_of(option, text).timestamp()
            for option, text in (("--since", options.since), ("--until", options.until))
        )
    server = open_operator(via="cli")
    rows = _read(server, options.name, options.count, since, until)
    if not rows:
        known = known_schedules(server.pool, server.keys)
        if options.name not in known:
            raise PayloadError(_unknown(options.name, known))
    definition = _definition(server, options.name)
    if options.json:
        write_json(_document(options.name, definition, rows))
    else:
        _print(options.name, definition, rows)
    return 0


class _Row:
    """An instant: its entry in the ledger, or that it did not come in time, or both."""

    def __init__(self, at: int, entry: LedgerEntry | None, *, is_missed: bool) -> None:
        self.at = at
        self.entry = entry
        self.is_missed = is_missed

    @property
    def jobs(self) -> Sequence[tuple[str, JobEnd | None]]:
        """Each job with its end."""
        return [(jid, self.entry.end_of(jid)) for jid in self.entry.jids] if self.entry else []

    @property
    def without_jobs(self) -> str:
        """What is shown as outcome if there is no job."""
        if self.entry is None:
            return "missed"
        return self.entry.left_out or "no jobs"


def _read(
    server: Operator, name: str, most: int, since: float | None, until: float | None
) -> list[_Row]:
    asked: dict[str, Any] = {"most": most, "since": since, "until": until}
    entries = read_ledger(server.pool, server.keys, name, **asked)
    missed = set(read_missed(server.pool, server.keys, name, **asked))
    by_instant = {entry.at: entry for entry in entries}
    instants = sorted({*by_instant, *missed}, reverse=True)[:most]
    return [_Row(at, by_instant.get(at), is_missed=at in missed) for at in instants]


def _definition(server: Operator, name: str) -> ScheduleDefinition | None:
    """As it is published or saved; None: it is not, or cannot be read, and times are shown in UTC."""
    key = server.keys.schedules
    text = server.pool.call("HGET", key, name)
    try:
        return ScheduleDefinition.from_document(name, json_text.loads(text)) if text else None
    except (ConfigError, ValueError) as error:
        sys.stderr.write(f"kiqbridge: {name} in {key} cannot be read: {error}\n")
        return None


def _unknown(name: str, known: set[str]) -> str:
    short = name.rpartition("/")[2].lower()
    near = [each for each in sorted(known) if each.rpartition("/")[2].lower() == short]
    near = near or difflib.get_close_matches(name, known, n=_NEAR)
    hint = f"did you mean {', '.join(near[:_NEAR])}?" if near else "nothing was enqueued under it"
    return f"no schedule is named {name!r}: {hint}"


def _document(
    name: str, definition: ScheduleDefinition | None, rows: Sequence[_Row]
) -> dict[str, Any]:
    return {
        "schedule": name,
        "expression": definition and definition.expression,
        "timezone": definition and definition.timezone,
        "instants": [_described(row) for row in rows],
    }


def _described(row: _Row) -> dict[str, Any]:
    entry = row.entry
    described: dict[str, Any] = {
        "at": row.at,
        "instant": instant_text(row.at),
        "missed": row.is_missed,
        "by": None,
        "enqueued_at": None,
        "lateness_s": None,
        "deliveries": 0,
        "left_out": None,
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
    if entry is not None:
        described |= {
            "by": entry.by,
            "enqueued_at": entry.enqueued_at,
            "lateness_s": round(entry.lateness_s, 3),
            "deliveries": entry.attempts,
            "left_out": entry.left_out or None,
        }
    return described


def _print(name: str, definition: ScheduleDefinition | None, rows: Sequence[_Row]) -> None:
    zone = definition.timezone if definition is not None else "UTC"
    expression = f"  {definition.expression}  {zone}" if definition is not None else ""
    write_line(f"{name}{expression}")
    if not rows:
        write_line("nothing has fired within this time")
        return
    local = () if zone == "UTC" else (f"due ({zone})",)
    columns = (
        *local,
        "due (UTC)",
        ">late",
        "by",
        ">deliveries",
        "!job",
        "outcome",
        ">took",
        "~notes",
    )
    write_table(columns, [line for row in rows for line in _lines(row, zone)])


def _lines(row: _Row, zone: str) -> Iterator[tuple[str, ...]]:
    """A line for each job of an instant; what they share is in the first one."""
    when = [instant_text(row.at)]
    if zone != "UTC":
        local = datetime.fromtimestamp(row.at, ZoneInfo(zone))
        when.insert(0, f"{local:%a %Y-%m-%d %H:%M:%S %Z}")
    entry = row.entry
    shared = [*when, "", "", ""]
    if entry is not None:
        shared[-3:] = [_late(entry.lateness_s), entry.by.partition(":")[0], str(entry.attempts)]
    note = "missed at first" if row.is_missed and entry is not None else ""
    if not row.jobs:
        yield (*shared, "", row.without_jobs, "", note)
    for jid, end in row.jobs:
        outcome, took, notes = _ended(end)
        yield (*shared, jid, outcome, took, ", ".join(filter(None, [notes, note])))
        shared, note = [""] * len(shared), ""


def _ended(end: JobEnd | None) -> tuple[str, str, str]:
    """Outcome, seconds and error of a job."""
    if end is None:
        return OPEN, "", ""
    took = "" if end.took_s is None else _seconds(end.took_s)
    retries = f"after {end.retries} retries" if end.retries > 1 else "after 1 retry"
    notes = [end.error, retries if end.retries else ""]
    return end.outcome, took, " ".join(filter(None, notes))


def _late(seconds: float) -> str:
    return _seconds(seconds) if seconds >= 0 else f"{_seconds(-seconds)} ahead"


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds / _MS:.0f} ms"
    return f"{seconds:.1f} s" if seconds < _MINUTE_S else span_text(seconds)
