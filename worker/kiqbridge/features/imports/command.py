"""`kiqbridge schedule import`: read the schedules of another program and write ScheduleV2 events for template.yaml.

Nothing of what is read is run. Exit 1 if something was refused or fires at other times, 2 if the file cannot be read.

What can be said here goes to standard output (or `--output`): events for template.yaml, or the file of dynamic
schedules. What cannot, and what is different, goes to standard error with the line and the reason.

While sidekiq-cron and this both know a schedule, both fire it. So `--disable` switches the Ruby one off only when its
replacement is live: saved or published in Redis under its name, for the same class, enabled, not paused, and due
again. `--enable` undoes it, at any time.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_args

import yaml

from kiqbridge.api import Operator, open_operator
from kiqbridge.client.known_schedules import KnownSchedule
from kiqbridge.commands.acting import REFUSED, confirm
from kiqbridge.commands.arguments import add, add_example, read_input, user_input, within
from kiqbridge.commands.output import answer, fields_of
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.features.dynamic.schedule_file import read_schedule_file
from kiqbridge.features.dynamic.schedules import Schedules
from kiqbridge.features.imports.command_line import class_name_to_identifier
from kiqbridge.features.imports.events import (
    dynamic_document,
    dynamic_name,
    events_text,
    shell_commands,
    write_all,
)
from kiqbridge.features.imports.gems import Definition, read_definitions
from kiqbridge.features.imports.kinds import READERS, guess_kind
from kiqbridge.features.imports.record import Imported, Kind, Reading
from kiqbridge.features.imports.sidekiq_cron import (
    SidekiqCronJob,
    Status,
    read_sidekiq_cron,
    set_cron_status,
)
from kiqbridge.features.imports.verification import Verification, verify
from kiqbridge.schedule.cron import check_zone
from kiqbridge.wire.amounts import instant_text

_MOST_DAYS: Final = 3660
_MOST_SHOWN: Final = 3


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """The options of `schedule import`."""
    add_example(verb, "kiqbridge schedule import crontab --verify 30d")
    add(verb, "[FILE]", "- for standard input")
    group = verb.add_argument_group("beside sidekiq-cron, which uses the same Redis")
    add(group, "--from-redis", "read its schedules from Redis, not from a file")
    text = "switch off these schedules if their replacements are live, so that nothing fires twice"
    add(group, "--disable NAME", text, nargs="+")
    add(group, "--all", "--disable for all schedules whose replacements are live")
    add(group, "--enable NAME", "switch these schedules on again", nargs="+")
    add(group, "-y --yes", "do not ask")
    text = "format of the file (default: found by its name and content)"
    add(verb, "--kind", text, choices=get_args(Kind))
    text = "time zone of schedules that name none, such as Europe/Paris (default: UTC)"
    add(verb, "--timezone ZONE", text, default="UTC")
    text = "queue of jobs that name none (default: default)"
    add(verb, "--queue QUEUE", text, default="default")
    add(
        verb,
        "--shell-queue QUEUE",
        "queue of ShellCommand jobs (default: default)",
        default="default",
    )
    add(verb, "--dynamic", "write the file of `schedule apply` instead")
    text = "compare each firing, old against new, over that many days, such as 400d"
    add(verb, "--verify DAYS", text, type=within(1, _MOST_DAYS, "d"))
    add(verb, "--from TIME", "start of the comparison, ISO 8601 with zone (default: now)")
    add(verb, "--apply", "save the schedules in Redis at once, as dynamic schedules")
    add(verb, "--output FILE", "write the result to this file (default: print it)", type=Path)
    add(verb, "--strict", "write nothing if something is refused or differs")
    add(verb, "--dry-run", "only report, write nothing")
    add(verb, "--json", "print all that was found as JSON")


def run(options: argparse.Namespace) -> int:
    """Import schedules, or switch those of sidekiq-cron."""
    if options.disable is not None or options.enable is not None or options.all:
        return _switch(options)
    options.dynamic |= options.apply
    reading = Reading(
        timezone=options.timezone, queue=options.queue, shell_queue=options.shell_queue
    )
    with user_input():
        imported = _read_from_redis(reading) if options.from_redis else _read(options, reading)
    found = _Found(imported, options, options.from_ or datetime.now(UTC))
    if options.json:
        sys.stdout.write(json.dumps(found.as_json(), indent=2, default=instant_text) + "\n")
    else:
        found.report()
    if options.strict and not found.is_complete:
        sys.stderr.write("kiqbridge: nothing is written, because of --strict\n")
    elif not options.dry_run and found.written:
        _write(found.text(), options)
    return 0 if found.is_complete else 1


def _read(options: argparse.Namespace, reading: Reading) -> Imported:
    check_zone(options.timezone)
    if options.file is None:
        raise ConfigError("give a FILE, - for standard input, or --from-redis")
    text = read_input(options.file)
    kind = options.kind
    if kind is None:
        kind, reason = guess_kind(_source(options), text)
        sys.stderr.write(f"read as {kind}: {reason}\n")
    return READERS[kind](text, reading)


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
        days = options.verify
        self.verifications = [
            verify(each.schedule, each.parsed, start=now, days=days)
            for each in (self.written if days else ())
        ]

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
        if self.verifications:
            self._report_verifications()
        schedules = len(self.written)
        events = sum(len(each.events) for each in self.written)
        shape = "" if self._options.dynamic else f" as {events} events"
        write(f"{schedules} schedules{shape}, {len(self._imported.refused)} refused\n")

    def _report_verifications(self) -> None:
        write = sys.stderr.write
        write(f"over {self._options.verify} days, old against new:\n")
        for each, verification in zip(self.written, self.verifications, strict=True):
            write(f"    {each.name}: {_sentence(verification)}\n")
        old = sum(each.old for each in self.verifications)
        new = sum(each.new for each in self.verifications)
        reasons = [bool(d.reason) for each in self.verifications for d in each.differences]
        write(
            f"    in all: {old} old, {new} new; {sum(reasons)} differ by a clock change, "
            f"{len(reasons) - sum(reasons)} for no known reason\n"
        )

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        schedules: list[dict[str, Any]] = []
        for place, each in enumerate(self.written):
            entry = {**asdict(each.schedule), "name": each.name, "events": dict(each.events)}
            schedules.append(entry)
            if self.verifications:
                schedules[-1]["verification"] = asdict(self.verifications[place])
        return {
            "kind": self._imported.kind,
            "schedules": schedules,
            "refused": [asdict(each) for each in self._imported.refused],
            "notes": self._imported.notes,
        }


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


def _source(options: argparse.Namespace) -> str:
    if options.from_redis:
        return "sidekiq-cron in Redis"
    return "standard input" if options.file == "-" else str(options.file)


def _write(text: str, options: argparse.Namespace) -> None:
    if options.apply:  # as `kiqbridge schedule apply` does with the same file
        definitions = read_schedule_file(text, _source(options))
        for name, change in Schedules(open_operator(via="cli").client).save_all(definitions):
            sys.stderr.write(f"{change} {name}\n")
    elif options.output is not None:
        options.output.write_text(text, encoding="utf-8")
        sys.stderr.write(f"written to {options.output}\n")
    elif not options.json:
        sys.stdout.write(text)


def _read_from_redis(reading: Reading) -> Imported:
    """The schedules of sidekiq-cron, as its file would have them; the line is their place by name.

    Raises:
        RedisUnavailable: nothing was read.
        ConfigError: there are none.
    """
    _, found = _theirs()
    if not found:
        raise ConfigError(
            "sidekiq-cron has no schedules in this Redis (cron_jobs); is it the right one?"
        )
    names = "cron queue active_job date_as_argument description status"
    definitions = [
        Definition(
            name=each.name,
            members={**fields_of(each, names), "class": each.job_class, "args": list(each.args)},
            line=place,
            source=f"{each.name}: {each.cron} {each.job_class}",
        )
        for place, each in enumerate(found.values(), start=1)
    ]
    return read_definitions(definitions, reading)


def _switch(options: argparse.Namespace) -> int:
    """`--disable`, `--all` and `--enable`; the exit code is 1 if one was left as it was, 2 if nothing was done.

    Raises:
        RedisUnavailable: perhaps some are switched; repeat it.
    """
    if options.enable is not None and (options.all or options.disable is not None):
        raise PayloadError("--enable goes with neither --disable nor --all; call it twice")
    server, known = _theirs()
    is_off = options.enable is None
    wanted = options.enable if not is_off else list(known) if options.all else options.disable
    refused = _refused(wanted, known, with_replacement=is_off)
    names = [name for name in wanted if name not in refused and known[name].enabled is is_off]
    for name, reason in refused.items():
        sys.stderr.write(f"left as it is: {name}: {reason}\n")
    status: Status = "disabled" if is_off else "enabled"
    question = f"In sidekiq-cron these will be {status}: {', '.join(names)}; go on?"
    if names and not options.dry_run and not confirm(question, options):
        return REFUSED
    lines = []
    for name in names:
        changed = options.dry_run or set_cron_status(server.pool, server.keys, name, status)
        would = "would be " if options.dry_run else ""
        lines.append(f"gone: {name}" if changed is None else f"{would}{status}: {name}")
    document = {"dry_run": options.dry_run, status: names, "left": refused}
    answer(options, document, lines or [f"nothing to be {status}"])
    return 1 if refused and not (options.all and names) else 0


def _refused(
    wanted: Sequence[str], known: Mapping[str, SidekiqCronJob], *, with_replacement: bool
) -> dict[str, str]:
    """Names that stay as they are, and why."""
    refused = {name: "sidekiq-cron has no such schedule" for name in wanted if name not in known}
    if not with_replacement:
        return refused
    schedules = Schedules(open_operator(via="cli").client)
    ours, now = schedules.list(), schedules.now()
    for name in wanted:
        if name in known and (fault := _fault_of_replacement(known[name], ours, now)):
            refused[name] = fault
    return refused


def _fault_of_replacement(theirs: SidekiqCronJob, ours: Sequence[KnownSchedule], now: float) -> str:
    """Why nothing of ours stands for a schedule of the gem; "" = something does."""
    names = (dynamic_name(theirs.name), theirs.name)
    logical_id = f"/{class_name_to_identifier(theirs.name)}"
    found = [each for each in ours if each.name in names or each.name.endswith(logical_id)]
    if not found:
        return f"nothing here is called {names[0]} or STACK{logical_id}: import it and deploy, or --apply it, first"
    faults = [_fault_of(each, theirs.job_class, now) for each in found]
    return "; ".join(faults) if all(faults) else ""


def _fault_of(ours: KnownSchedule, job_class: str, now: float) -> str:
    definition = ours.definition
    if job_class not in definition.classes:
        return f"{ours.name} enqueues {', '.join(definition.classes)}"
    if not definition.enabled:
        return f"{ours.name} is disabled"
    if ours.state.pause_at(now) is not None:
        return f"{ours.name} is paused"
    try:
        is_due_again = definition.when.next_after(datetime.fromtimestamp(now, UTC)) is not None
    except ConfigError:
        is_due_again = False
    return "" if is_due_again else f"{ours.name} is never due again"


def _theirs() -> tuple[Operator, dict[str, SidekiqCronJob]]:
    """The schedules of the gem by name, and where they are."""
    server = open_operator(via="cli")
    return server, {each.name: each for each in read_sidekiq_cron(server.pool, server.keys)}
