"""`kiqbridge schedule import`: moving in from a crontab, sidekiq-cron and sidekiq-scheduler.

What can be said here goes to standard output (or `--output`): events for template.yaml, or the file of dynamic
schedules. What cannot, and what is different, goes to standard error with the line and the reason. Exit 0 if all
was taken and, with `--verify`, fires as before; 1 if something was refused or differs; 2 if the file cannot be
read.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from kiqbridge.api import open_operator
from kiqbridge.client.schedules import Schedules
from kiqbridge.clocks.schedule_file import read_schedule_file
from kiqbridge.commands.arguments import add_option, add_switch, within
from kiqbridge.commands.moments import moment_of
from kiqbridge.commands.schedule_beside_ruby import add_ruby_arguments, read_from_redis, switch
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.schedule.cron import check_zone
from kiqbridge.schedule.imports import guess_kind, read_as
from kiqbridge.schedule.imports.events import (
    dynamic_document,
    events_text,
    shell_commands,
    write_all,
)
from kiqbridge.schedule.imports.record import Imported, Reading
from kiqbridge.schedule.imports.verification import Verification, verify
from kiqbridge.wire.amounts import instant_text

_KINDS: Final = (
    "crontab",
    "system-crontab",
    "sidekiq-cron",
    "sidekiq-scheduler",
)
_MOST_DAYS: Final = 3660
_MOST_SHOWN: Final = 3


def add_arguments(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verb import."""
    verb = verbs.add_parser(
        "import",
        help="move in: schedules of a crontab, sidekiq-cron, sidekiq-scheduler",
        description="Read the schedules of another program and write ScheduleV2 events for template.yaml. "
        "Nothing of what is read is run. Exit 1 if something was refused or fires at other times, 2 if the "
        "file cannot be read.",
    )
    add_option(verb, "file", "FILE", "- for standard input", nargs="?")
    add_ruby_arguments(verb)
    verb.add_argument(
        "--kind", choices=_KINDS, help="whose file it is (default: by name and content)"
    )
    add_option(
        verb,
        "--timezone",
        "ZONE",
        "of schedules that name none, such as Europe/Paris (default: UTC)",
        default="UTC",
    )
    verb.add_argument(
        "--queue", default="default", help="of jobs whose queue is not named (default: default)"
    )
    verb.add_argument(
        "--shell-queue", default="default", help="of ShellCommand jobs (default: default)"
    )
    add_switch(verb, "--dynamic", "write the file of `schedule apply` instead")
    add_option(
        verb,
        "--verify",
        "DAYS",
        "compare each firing, old against new, over that many days, such as 400d",
        type=within(1, _MOST_DAYS, "d"),
    )
    add_option(
        verb,
        "--from",
        "TIME",
        "ISO 8601 with zone: from when it is compared (default: now)",
        dest="start",
        type=_moment,
    )
    add_switch(verb, "--apply", "save them in Redis at once, as dynamic schedules")
    add_option(verb, "--output", "FILE", "write to it (default: print)", type=Path)
    add_switch(verb, "--strict", "write nothing if something is refused or differs")
    add_switch(verb, "--dry-run", "only report, write nothing")
    add_switch(verb, "--json", "print all that was found as JSON")
    verb.set_defaults(command=_import)


def _import(options: argparse.Namespace) -> int:
    if options.disable is not None or options.enable is not None or options.all:
        return switch(options)
    if options.apply:
        options.dynamic = True
    now = options.start or datetime.now(UTC)
    try:
        imported = read_from_redis(_reading(options)) if options.from_redis else _read(options)
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise PayloadError(str(error)) from error
    found = _Found(imported, options, now)
    if options.json:
        sys.stdout.write(json.dumps(found.as_json(), indent=2) + "\n")
    else:
        found.report()
    if options.strict and not found.is_complete:
        sys.stderr.write("kiqbridge: nothing is written, because of --strict\n")
    elif not options.dry_run and found.written:
        _write(found.text(), options)
    return 0 if found.is_complete else 1


def _read(options: argparse.Namespace) -> Imported:
    check_zone(options.timezone)
    if options.file is None:
        raise ConfigError("give a FILE, - for standard input, or --from-redis")
    is_stdin = options.file == "-"
    content = sys.stdin.buffer.read() if is_stdin else Path(options.file).read_bytes()
    text = content.decode("utf-8")
    kind = options.kind
    if kind is None:
        kind, reason = guess_kind("standard input" if is_stdin else options.file, text)
        sys.stderr.write(f"read as {kind}: {reason}\n")
    return read_as(kind, text, _reading(options))


def _reading(options: argparse.Namespace) -> Reading:
    return Reading(timezone=options.timezone, queue=options.queue, shell_queue=options.shell_queue)


class _Found:
    """What was read, what it becomes, and how it compares."""

    def __init__(self, imported: Imported, options: argparse.Namespace, now: datetime) -> None:
        self._imported = imported
        self._options = options
        self._now = now
        self.written, unsayable = write_all(imported.schedules, is_dynamic=options.dynamic)
        for schedule, reason in unsayable:
            imported.refuse(schedule.line, schedule.source, reason)
        imported.refused.sort(key=lambda each: each.line)
        self.verifications = self._verified()

    @property
    def is_complete(self) -> bool:
        """Whether nothing was refused, and nothing fires at other times but by a clock change."""
        return not self._imported.refused and all(each.is_faithful for each in self.verifications)

    def text(self) -> str:
        """What is to be written."""
        if not self._options.dynamic:
            return events_text(self.written, source=_source(self._options), now=self._now)
        head = f"# Made of {_source(self._options)} by kiqbridge schedule import --dynamic.\n"
        document = dynamic_document(self.written)
        return head + str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))

    def report(self) -> None:
        """Refused lines, notes and the comparison, on standard error."""
        write = sys.stderr.write
        for note in self._imported.notes:
            write(f"note: {note}\n")
        for each in self.written:
            if len(each.events) > 1:
                write(
                    f"note: line {each.schedule.line}: it takes {len(each.events)} events, whose ticks share "
                    f"the name {each.name}, so that a minute in which two are due fires once\n"
                )
        for refused in self._imported.refused:
            write(f"refused: line {refused.line}: {refused.source}\n    {refused.reason}\n")
        commands = shell_commands(self.written)
        if commands:
            write(
                "the job ShellCommand runs these; it is off until the worker's KIQBRIDGE_SHELL_COMMANDS "
                "allows them, one a line:\n"
            )
            write("".join(f"    {command}\n" for command in commands))
        self._report_verifications()
        schedules = len(self.written)
        events = sum(len(each.events) for each in self.written)
        shape = "" if self._options.dynamic else f" as {events} events"
        write(f"{schedules} schedules{shape}, {len(self._imported.refused)} refused\n")

    def _report_verifications(self) -> None:
        if not self.verifications:
            return
        write = sys.stderr.write
        write(f"over {self._options.verify} days, old against new:\n")
        for each, verification in zip(self.written, self.verifications, strict=True):
            write(f"    {each.name}: {_sentence(verification)}\n")
        old = sum(each.old for each in self.verifications)
        new = sum(each.new for each in self.verifications)
        explained = sum(bool(d.reason) for each in self.verifications for d in each.differences)
        faults = sum(not d.reason for each in self.verifications for d in each.differences)
        write(
            f"    in all: {old} old, {new} new; {explained} differ by a clock change, "
            f"{faults} for no known reason\n"
        )

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        schedules: list[dict[str, Any]] = []
        for place, each in enumerate(self.written):
            entry: dict[str, Any] = {
                "name": each.name,
                "line": each.schedule.line,
                "source": each.schedule.source,
                "expression": each.schedule.expression,
                "timezone": each.schedule.timezone,
                "enabled": each.schedule.enabled,
                "job": dict(each.schedule.job),
                "description": each.schedule.description,
                "notes": list(each.schedule.notes),
                "events": dict(each.events),
            }
            if self.verifications:
                entry["verification"] = _as_json(self.verifications[place])
            schedules.append(entry)
        return {
            "kind": self._imported.kind,
            "schedules": schedules,
            "refused": [
                {"line": each.line, "source": each.source, "reason": each.reason}
                for each in self._imported.refused
            ],
            "notes": self._imported.notes,
        }

    def _verified(self) -> Sequence[Verification]:
        if self._options.verify is None:
            return ()
        return [
            verify(each.schedule, each.parsed, start=self._now, days=self._options.verify)
            for each in self.written
        ]


def _sentence(verification: Verification) -> str:
    if verification.not_compared:
        return f"not compared: {verification.not_compared}"
    if not verification.differences:
        return f"{verification.new} times, all the same"
    reasons: dict[str, list[str]] = {}
    for each in verification.differences:
        reason = each.reason or f"only {each.side}, for no known reason"
        reasons.setdefault(reason, []).append(instant_text(each.at))
    parts = []
    for reason, instants in reasons.items():
        more = f" and {len(instants) - _MOST_SHOWN} more" if len(instants) > _MOST_SHOWN else ""
        parts.append(f"{', '.join(instants[:_MOST_SHOWN])}{more}: {reason}")
    return f"{verification.old} times old, {verification.new} new; {'; '.join(parts)}"


def _as_json(verification: Verification) -> dict[str, Any]:
    return {
        "old": verification.old,
        "new": verification.new,
        "not_compared": verification.not_compared,
        "differences": [
            {"at": instant_text(each.at), "side": each.side, "reason": each.reason}
            for each in verification.differences
        ],
    }


def _source(options: argparse.Namespace) -> str:
    if options.from_redis:
        return "sidekiq-cron in Redis"
    return "standard input" if options.file == "-" else str(options.file)


def _write(text: str, options: argparse.Namespace) -> None:
    if options.apply:
        _apply(text, options)
    elif options.output is not None:
        options.output.write_text(text, encoding="utf-8")
        sys.stderr.write(f"written to {options.output}\n")
    elif not options.json:
        sys.stdout.write(text)


def _apply(text: str, options: argparse.Namespace) -> None:
    """Save them as `kiqbridge schedule apply` does with the same file."""
    definitions = read_schedule_file(text, _source(options))
    for name, change in Schedules(open_operator(via="cli").client).save_all(definitions):
        sys.stderr.write(f"{change} {name}\n")


def _moment(text: str) -> datetime:
    try:
        return moment_of("--from", text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("--from: ")) from error
