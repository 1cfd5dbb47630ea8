"""`kiqbridge schedule simulate`: all that fires within a window, on a virtual clock."""

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, TextIO
from zoneinfo import ZoneInfo

from kiqbridge.commands.arguments import add_list, add_option, user_input
from kiqbridge.commands.heat_map import heat_map
from kiqbridge.commands.moments import moment_of
from kiqbridge.commands.output import write_table
from kiqbridge.commands.schedule_sources import add_source_arguments, read_sources
from kiqbridge.dev.console import shown_instant
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.schedule.cron import check_zone
from kiqbridge.schedule.simulation import Firing, Load, offset_s, simulate
from kiqbridge.schedule.sourced import SourcedSchedule
from kiqbridge.wire.amounts import count_text, instant_text

DAYS: Final = 30
SHOWN: Final = 40
"""So many firings are listed in the table, more are summed up only."""
_BAR: Final = 40
_COLUMNS: Final = ("at", "local", "timezone", "schedule", "class", "queue")


def add_arguments(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verb simulate."""
    verb = verbs.add_parser(
        "simulate",
        help="all that fires within a window",
        description="Run a virtual clock over a window and print what fires, by whom and how much at once. "
        "Jitter is included. A rate without a start is counted from 1970; AWS counts it from its deployment. "
        "Exit 0, or 2 if something cannot be read.",
    )
    add_option(
        verb,
        "--from",
        "TIME",
        "ISO 8601 such as 2026-03-28T00:00:00Z, or a date; included (default: now)",
        dest="begin",
    )
    add_option(verb, "--to", "TIME", f"excluded (default: {DAYS} days after --from)", dest="end")
    add_option(verb, "--timezone", "ZONE", "of the hours in the sums (default: UTC)", default="UTC")
    verb.add_argument(
        "--format",
        choices=["table", "csv", "json"],
        default="table",
        help="table: sums, and the firings if they are few; csv, json: each firing (default: table)",
    )
    add_option(verb, "--heatmap", "FILE.svg", "draw the minutes of the day into a file", type=Path)
    add_list(verb, "--name", "GLOB", "only schedules of this name; may be repeated")
    add_source_arguments(verb)
    verb.set_defaults(command=_simulate)


def _simulate(options: argparse.Namespace) -> int:
    with user_input():
        begin, end = _window(options)
        load = Load(check_zone(options.timezone).key)
        schedules = readable(named(read_sources(options).schedules, options.name))
    days = simulate(
        [each.definition for each in schedules],
        int(begin.timestamp()),
        int(end.timestamp()),
        [each.state for each in schedules],
    )
    counted = _counted(days, load)
    if options.format == "table":
        _write_table(sys.stdout, schedules, counted, load, (begin, end))
    elif options.format == "csv":
        _write_csv(sys.stdout, schedules, counted)
    else:
        _write_json(sys.stdout, schedules, counted, load, (begin, end))
    if options.heatmap is not None:
        _draw(options.heatmap, load, sum(map(bool, load.counts.values())), (begin, end))
    return 0


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
            sys.stderr.write(
                f"kiqbridge: {each.shown_name} is left out, since it never fires: {error}\n"
            )
        else:
            found.append(each)
    return found


def named(schedules: Sequence[SourcedSchedule], globs: Sequence[str]) -> list[SourcedSchedule]:
    """Those whose name, or the part of it after the stack, one of the patterns names; all without patterns.

    Raises:
        ConfigError: a pattern names none.
    """
    if not globs:
        return list(schedules)
    for glob in globs:
        if not any(_is_named(each.name, glob) for each in schedules):
            known = ", ".join(each.name for each in schedules) or "none at all"
            raise ConfigError(f"--name: no schedule is named {glob!r}; there are: {known}")
    return [each for each in schedules if any(_is_named(each.name, glob) for glob in globs)]


def _is_named(name: str, glob: str) -> bool:
    return fnmatchcase(name, glob) or fnmatchcase(name.rpartition("/")[2], glob)


def _window(options: argparse.Namespace) -> tuple[datetime, datetime]:
    begin = datetime.now(UTC).replace(microsecond=0)
    if options.begin is not None:
        begin = moment_of("--from", options.begin)
    if options.heatmap is not None and options.heatmap.suffix != ".svg":
        raise ConfigError(
            f"--heatmap: {options.heatmap} is no SVG; write a name that ends with .svg"
        )
    end = begin + timedelta(days=DAYS)
    if options.end is not None:
        end = moment_of("--to", options.end)
    if end <= begin:
        raise ConfigError(f"--to: {end:%Y-%m-%dT%H:%M:%SZ} is not after --from; move one of them")
    return begin, end


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
    stream.write(f"{_period(window)}: {sums}\n")
    width = max([len(each.shown_name) for each in schedules], default=0)
    if 0 < load.total <= SHOWN:
        stream.write("\n")
        for at, index in few:
            instant = datetime.fromtimestamp(at, UTC)
            zone = schedules[index].definition.when.timezone
            name = schedules[index].shown_name.ljust(width)
            stream.write(f"  {name}  {shown_instant(instant, zone)}\n")
    rows: list[tuple[str, ...]] = []
    for index, each in enumerate(schedules):
        span = [
            "-"
            if at is None
            else f"{datetime.fromtimestamp(at, ZoneInfo(load.timezone)):%a %Y-%m-%d %H:%M}"
            for at in (load.first.get(index), load.last.get(index))
        ]
        name = each.shown_name + ("" if each.definition.enabled else " (disabled)")
        rows.append((name, f"{load.counts[index]:,}", *span))
    stream.write("\n")
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
    again = (
        f", the first of {load.busiest_minutes:,} such minutes" if load.busiest_minutes > 1 else ""
    )
    stream.write(
        f"\n  Busiest minute of the day: {minute // 60:02}:{minute % 60:02} with "
        f"{load.by_minute[minute]:,} firings\n"
        f"  Most at once: {load.busiest:,} at {at:%Y-%m-%d %H:%M %Z}{again}\n"
    )


def _write_csv(
    stream: TextIO, schedules: Sequence[SourcedSchedule], days: Iterator[list[Firing]]
) -> None:
    """Each firing on a line, written day by day."""
    stream.write(f"{','.join(_COLUMNS)}\n")
    zones = [each.definition.when.timezone for each in schedules]
    tails = [
        _csv_line([zone, each.shown_name, each.classes, each.queues])
        for zone, each in zip(zones, schedules, strict=True)
    ]
    texts = InstantTexts()
    for day in days:
        stream.writelines(
            [f"{texts.utc(at)},{texts.local(zones[index], at)},{tails[index]}" for at, index in day]
        )
        texts.forget()


def _csv_line(values: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()


def _write_json(
    stream: TextIO,
    schedules: Sequence[SourcedSchedule],
    days: Iterator[list[Firing]],
    load: Load,
    window: tuple[datetime, datetime],
) -> None:
    """One object; the firings stand first, written day by day."""
    begin, end = map(instant_text, window)
    texts = InstantTexts()
    names = [json.dumps(each.name) for each in schedules]
    stream.write(f'{{"from": "{begin}", "to": "{end}", "firings": [')
    separator = ""
    for day in days:
        rows = [f'{{"at": "{texts.utc(at)}", "schedule": {names[index]}}}' for at, index in day]
        if rows:
            stream.write(separator + ",\n".join(rows))
            separator = ",\n"
        texts.forget()
    sums = [
        {
            "name": each.name,
            "enabled": each.definition.enabled,
            "firings": load.counts[index],
            "first": instant_text(load.first[index]) if index in load.first else None,
            "last": instant_text(load.last[index]) if index in load.last else None,
        }
        for index, each in enumerate(schedules)
    ]
    rest = {
        "total": load.total,
        "schedules": sums,
        "timezone": load.timezone,
        "by_hour": load.by_hour(),
        "most_at_once": load.busiest,
        "most_at_once_at": None if load.busiest_at is None else instant_text(load.busiest_at),
    }
    stream.write(f"], {json.dumps(rest)[1:]}\n")


class InstantTexts:
    """Instants as ISO 8601, in UTC and with the offset of a zone; many schedules fire at the same one."""

    def __init__(self) -> None:
        self._dates: dict[int, str] = {}
        self._utc: dict[int, str] = {}
        self._local: dict[tuple[str, int], str] = {}

    def forget(self) -> None:
        """Let go of the texts of a day that has passed."""
        self._utc.clear()
        self._local.clear()

    def utc(self, at: int) -> str:
        """`2026-03-28T00:00:00Z`."""
        text = self._utc.get(at)
        if text is None:
            text = self._utc[at] = f"{self._wall(at)}Z"
        return text

    def local(self, zone: str, at: int) -> str:
        """`2026-03-28T01:00:00+01:00`."""
        key = zone, at
        text = self._local.get(key)
        if text is None:
            offset = offset_s(zone, at)
            hours, rest = divmod(abs(offset), 3600)
            sign = "-" if offset < 0 else "+"
            seconds = f":{rest % 60:02}" if rest % 60 else ""
            text = f"{self._wall(at + offset)}{sign}{hours:02}:{rest // 60:02}{seconds}"
            self._local[key] = text
        return text

    def _wall(self, at: int) -> str:
        day, second = divmod(at, 86_400)
        date = self._dates.get(day)
        if date is None:
            date = self._dates[day] = f"{datetime.fromtimestamp(day * 86_400, UTC):%Y-%m-%d}"
        return f"{date}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def _draw(path: Path, load: Load, count: int, window: tuple[datetime, datetime]) -> None:
    try:
        path.write_text(heat_map(load, schedules=count, period=_period(window)), encoding="utf-8")
    except OSError as error:
        raise PayloadError(f"--heatmap: {path} cannot be written: {error.strerror}") from error
    sys.stderr.write(f"wrote {path}\n")


def _period(window: tuple[datetime, datetime]) -> str:
    """`2026-01-01 to 2027-01-01`, with the times if they are not midnight."""
    is_days = all(each.timestamp() % 86_400 == 0 for each in window)
    form = "%Y-%m-%d" if is_days else "%Y-%m-%d %H:%M UTC"
    return " to ".join(f"{each:{form}}" for each in window)
