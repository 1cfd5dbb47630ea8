"""`kiqbridge schedule simulate`: run a virtual clock over a window and print what fires.

Which schedules, and how many jobs at once. Jitter is included. A rate without a start is counted from 1970; AWS counts
it from its deployment. Exit 0, or 2 if something cannot be read.
"""

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Final, TextIO
from zoneinfo import ZoneInfo

from kiqbridge.commands.arguments import add, add_example, user_input
from kiqbridge.commands.output import warn, write_table
from kiqbridge.commands.schedule_sources import add_source_arguments, read_sources
from kiqbridge.dev.console import shown_instant
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.features.lint.heat_map import heat_map
from kiqbridge.features.lint.simulation import Firing, Load, simulate
from kiqbridge.schedule.cron import check_zone
from kiqbridge.schedule.sourced import SourcedSchedule
from kiqbridge.wire.amounts import count_text, instant_text

DAYS: Final = 30
SHOWN: Final = 40
"""So many firings are listed in the table, more are summed up only."""
_BAR: Final = 40
_MOST_TEXTS: Final = 1440
"""Instants whose texts are kept: many schedules fire at the same ones, a day after the other."""
_COLUMNS: Final = ("at", "local", "timezone", "schedule", "class", "queue")


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """The options of `schedule simulate`."""
    add_example(
        verb,
        "kiqbridge schedule simulate --template template.yaml --from 2026-10-24 --to 2026-10-26",
    )
    text = "ISO 8601 such as 2026-03-28T00:00:00Z, or a date; included (default: now)"
    add(verb, "--from TIME", text)
    add(verb, "--to TIME", f"excluded (default: {DAYS} days after --from)")
    add(verb, "--timezone ZONE", "of the hours in the sums (default: UTC)", default="UTC")
    text = "table: sums, and the firings if they are few; csv, json: each firing (default: table)"
    add(verb, "--format", text, choices=["table", "csv", "json"], default="table")
    add(verb, "--heatmap FILE.svg", "draw the minutes of the day into a file", type=_svg)
    add(verb, "--name GLOB...", "only schedules of this name; may be repeated")
    add_source_arguments(verb)


def run(options: argparse.Namespace) -> int:
    """Print what fires, and draw it if asked."""
    begin = options.from_ or datetime.now(UTC).replace(microsecond=0)
    window = begin, options.to or begin + timedelta(days=DAYS)
    with user_input():
        if window[1] <= begin:
            end = instant_text(window[1])
            raise ConfigError(f"--to: {end} is not after --from; move one of them")
        load = Load(check_zone(options.timezone).key)
        schedules = readable(named(read_sources(options).schedules, options.name))
    days = simulate(
        [each.definition for each in schedules],
        int(window[0].timestamp()),
        int(window[1].timestamp()),
        [each.state for each in schedules],
    )
    counted = _counted(days, load)
    if options.format == "table":
        _write_table(sys.stdout, schedules, counted, load, window)
    elif options.format == "csv":
        _write_csv(sys.stdout, schedules, counted)
    else:
        _write_json(sys.stdout, schedules, counted, load, window)
    if options.heatmap is not None:
        picture = heat_map(
            load, schedules=sum(map(bool, load.counts.values())), period=_period(window)
        )
        try:
            options.heatmap.write_text(picture, encoding="utf-8")
        except OSError as error:
            said = f"--heatmap: {options.heatmap} cannot be written: {error.strerror}"
            raise PayloadError(said) from error
        sys.stderr.write(f"wrote {options.heatmap}\n")
    return 0


def _svg(text: str) -> Path:
    if not text.endswith(".svg"):
        raise argparse.ArgumentTypeError(f"{text} is no SVG; write a name that ends with .svg")
    return Path(text)


def readable(schedules: Sequence[SourcedSchedule]) -> list[SourcedSchedule]:
    """Those whose expression can be read, before anything is written.

    One of Redis that cannot be read never fires: it is reported, and the others are simulated.

    Raises:
        ConfigError: one of a file cannot be read.
    """
    found = []
    for each in schedules:
        try:
            _ = each.definition.when
        except ConfigError as error:
            if each.line is not None:
                raise
            warn(f"{each.shown_name} is left out, since it never fires: {error}")
        else:
            found.append(each)
    return found


def named(schedules: Sequence[SourcedSchedule], globs: Sequence[str]) -> list[SourcedSchedule]:
    """Those whose name, or the part of it after the stack, one of the patterns names; all without patterns.

    Raises:
        ConfigError: a pattern names none.
    """

    def is_named(each: SourcedSchedule, glob: str) -> bool:
        return any(fnmatchcase(name, glob) for name in (each.name, each.name.rpartition("/")[2]))

    for glob in globs:
        if not any(is_named(each, glob) for each in schedules):
            known = ", ".join(each.name for each in schedules) or "none at all"
            raise ConfigError(f"--name: no schedule is named {glob!r}; there are: {known}")
    globs = globs or ["*"]
    return [each for each in schedules if any(is_named(each, glob) for glob in globs)]


def _counted(days: Iterator[list[Firing]], load: Load) -> Iterator[list[Firing]]:
    for day in days:
        load.add(day)
        yield day


def _write_table(
    stream: TextIO,
    schedules: Sequence[SourcedSchedule],
    days: Iterator[list[Firing]],
    load: Load,
    window: tuple[datetime, datetime],
) -> None:
    few: list[Firing] = []
    for day in days:
        few += day[: SHOWN + 1 - len(few)]
    sums = f"{count_text(load.total, 'firing')} of {count_text(len(schedules), 'schedule')}"
    stream.write(f"{_period(window)}: {sums}\n\n")
    width = max([len(each.shown_name) for each in schedules], default=0)
    for at, index in few if load.total <= SHOWN else ():
        each = schedules[index]
        due = shown_instant(datetime.fromtimestamp(at, UTC), each.definition.when.timezone)
        stream.write(f"  {each.shown_name.ljust(width)}  {due}\n")
    if 0 < load.total <= SHOWN:
        stream.write("\n")
    rows = []
    for index, each in enumerate(schedules):
        zone, span = ZoneInfo(load.timezone), (load.first.get(index), load.last.get(index))
        moments = (at and f"{datetime.fromtimestamp(at, zone):%a %Y-%m-%d %H:%M}" for at in span)
        name = each.shown_name + ("" if each.definition.enabled else " (disabled)")
        rows.append((name, f"{load.counts[index]:,}", *(each or "-" for each in moments)))
    write_table(("schedule", ">firings", "first", "last"), rows)
    if load.total > SHOWN:
        _write_hours(stream, load)


def _write_hours(stream: TextIO, load: Load) -> None:
    hours = load.by_hour()
    most = max(hours)
    stream.write(f"\n  By hour, {load.timezone}\n")
    for hour, count in enumerate(hours):
        bar = "█" * max(round(_BAR * count / most), 1 if count else 0)
        stream.write(f"  {hour:02}  {bar.ljust(_BAR)}  {count:>{len(f'{most:,}')},}\n")
    at = datetime.fromtimestamp(load.busiest_at or 0, ZoneInfo(load.timezone))
    minute = max(range(len(load.by_minute)), key=load.by_minute.__getitem__)
    more = load.busiest_minutes
    again = f", the first of {more:,} such minutes" if more > 1 else ""
    stream.write(
        f"\n  Busiest minute of the day: {minute // 60:02}:{minute % 60:02} with "
        f"{load.by_minute[minute]:,} firings\n"
        f"  Most at once: {load.busiest:,} at {at:%Y-%m-%d %H:%M %Z}{again}\n"
    )


def _write_csv(
    stream: TextIO, schedules: Sequence[SourcedSchedule], days: Iterator[list[Firing]]
) -> None:
    """Each firing on a line, written day by day."""
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(_COLUMNS)
    tails = [
        (each.definition.when.timezone, each.shown_name, each.classes, each.queues)
        for each in schedules
    ]
    for day in days:
        rows.writerows((_utc(at), _local(tails[index][0], at), *tails[index]) for at, index in day)


def _write_json(
    stream: TextIO,
    schedules: Sequence[SourcedSchedule],
    days: Iterator[list[Firing]],
    load: Load,
    window: tuple[datetime, datetime],
) -> None:
    """One object; the firings stand first, written day by day."""
    begin, end = map(instant_text, window)
    names = [json.dumps(each.name) for each in schedules]
    stream.write(f'{{"from": "{begin}", "to": "{end}", "firings": [')
    separator = ""
    for day in days:
        rows = [f'{{"at": "{_utc(at)}", "schedule": {names[index]}}}' for at, index in day]
        if rows:
            stream.write(separator + ",\n".join(rows))
            separator = ",\n"
    sums = [
        {
            "name": each.name,
            "enabled": each.definition.enabled,
            "firings": load.counts[index],
            "first": _utc(load.first[index]) if index in load.first else None,
            "last": _utc(load.last[index]) if index in load.last else None,
        }
        for index, each in enumerate(schedules)
    ]
    rest = {
        "total": load.total,
        "schedules": sums,
        "timezone": load.timezone,
        "by_hour": load.by_hour(),
        "most_at_once": load.busiest,
        "most_at_once_at": None if load.busiest_at is None else _utc(load.busiest_at),
    }
    stream.write(f"], {json.dumps(rest)[1:]}\n")


@lru_cache(_MOST_TEXTS)
def _utc(at: int) -> str:
    """The text of `instant_text`, made in a third of the time."""
    return f"{datetime.fromtimestamp(at, UTC).isoformat()[:19]}Z"


@lru_cache(_MOST_TEXTS)
def _local(zone: str, at: int) -> str:
    """`2026-03-28T01:00:00+01:00`."""
    return datetime.fromtimestamp(at, ZoneInfo(zone)).isoformat()


def _period(window: tuple[datetime, datetime]) -> str:
    """`2026-01-01 to 2027-01-01`, with the times if they are not midnight."""
    is_days = all(each.timestamp() % 86_400 == 0 for each in window)
    form = "%Y-%m-%d" if is_days else "%Y-%m-%d %H:%M UTC"
    return " to ".join(f"{each:{form}}" for each in window)
