"""The verbs of `kiqbridge schedule` that change something in Redis: save, apply, delete, pause, resume, skip, run.

The first three are for dynamic schedules, without a deploy; the others for schedules of templates as well.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final, get_args

from kiqbridge.api import ScheduleSet, open_operator
from kiqbridge.client.schedule import Schedule
from kiqbridge.client.schedules import Schedules
from kiqbridge.clocks.schedule_file import read_schedule_file
from kiqbridge.commands.acting import confirm, report_resumed
from kiqbridge.commands.arguments import add_changing, add_option, add_pause, add_switch, user_input
from kiqbridge.commands.moments import moment_of
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.errors import ConfigError
from kiqbridge.schedule.due import next_instants
from kiqbridge.schedule.state import SchedulePause
from kiqbridge.wire.amounts import instant_text
from kiqbridge.wire.tick_mark import Missed, Overlap

_OPTIONS: Final[Sequence[tuple[str, str | None, str | None, Mapping[str, Any]]]] = (
    ("--timezone", "ZONE", "such as Europe/Paris (default: UTC)", {}),
    ("--start", "TIME", "ISO 8601; nothing is due before", {}),
    ("--end", "TIME", "ISO 8601; nothing is due after", {}),
    ("--overlap", None, "default: allow", {"choices": get_args(Overlap)}),
    ("--jitter", "SECONDS", None, {"dest": "jitter_s", "type": int}),
    ("--max-age", "SECONDS", None, {"dest": "max_age_s", "type": float}),
    ("--missed", None, "default: last", {"choices": get_args(Missed)}),
    ("--description", "TEXT", None, {}),
)
_WHEN: Final = (
    ("--cron", "LINE", "such as '0 3 * * *'"),
    ("--every", "PERIOD", "30s, 5m, 2h or 1d"),
    ("--at", "TIME", "once: ISO 8601"),
    ("--expression", "TEXT", "in any form, such as 'rate(5 minutes)'"),
)


def add_arguments(verbs: Any) -> None:
    """The verbs."""
    save = verbs.add_parser(
        "save",
        help="create or change a dynamic schedule",
        description="Create a dynamic schedule, or change it: what is not given is the default. In effect within "
        "seconds, without a deploy.",
    )
    save.add_argument("name", metavar="NAME")
    when = save.add_mutually_exclusive_group(required=True)
    for flag, metavar, text in _WHEN:
        add_option(when, flag, metavar, text)
    save.add_argument("--class", dest="job_class", required=True, metavar="CLASS")
    add_option(save, "--args", "JSON", "such as '[1]'", type=_json_list, default=[])
    add_option(save, "--queue", "NAME", "default: default")
    for flag, value, about, more in _OPTIONS:
        save.add_argument(flag, metavar=value, help=about, **more)
    apply = verbs.add_parser(
        "apply",
        help="save the dynamic schedules of a file",
        description="Save all dynamic schedules of a YAML file (name: cron, class, args, queue, …). Nothing is "
        "written unless all of the file is right: exit 2, with line and key of each fault.",
    )
    add_option(apply, "file", "FILE", "- = standard input")
    text = "delete dynamic schedules that the file does not have; asks, unless --yes is given"
    add_switch(apply, "--prune", text)
    delete = verbs.add_parser(
        "delete",
        help="delete dynamic schedules",
        description="Delete dynamic schedules, with what was placed ahead. Exit 0 if they were there, 1 if one "
        "was not, 2 without --yes where nobody can be asked.",
    )
    pause = verbs.add_parser(
        "pause",
        help="let schedules fire no more",
        description="Pause schedules, those of templates as well: what comes due meanwhile is not caught up. "
        "What was placed ahead is withdrawn; jobs that are in a queue run.",
    )
    resume = verbs.add_parser("resume", help="end the pause of schedules")
    for verb in (delete, pause, resume):
        verb.add_argument("names", nargs="+", metavar="NAME")
    until = add_pause(pause)
    add_option(until, "--until", "TIME", "ends by itself at this time (ISO 8601)")
    skip = verbs.add_parser("skip", help="let the next occurrences of a schedule not fire")
    skip.add_argument("name", metavar="NAME")
    add_option(skip, "--count", "N", "how many (default: 1)", type=int, default=1)
    run = verbs.add_parser(
        "run",
        help="enqueue the jobs of a schedule now",
        description="Enqueue the jobs of a schedule now, whether or not it is paused. Repeat it only after a look "
        "at the ledger: each call is a run.",
    )
    run.add_argument("name", metavar="NAME")
    text = "in the place of an occurrence, which fires no more: the last one, if it was missed, else the next"
    add_switch(run, "--counted", text)
    functions = (
        *((save, _save), (apply, _apply), (delete, _delete), (pause, _pause)),
        *((resume, _resume), (skip, _skip), (run, _run)),
    )
    for verb, function in functions:
        add_changing(verb, asks=verb in (apply, delete))
        verb.set_defaults(command=function)


def _save(options: argparse.Namespace) -> int:
    names = [flag[2:] for flag, _, _ in _WHEN]
    names += [more.get("dest", flag[2:]) for flag, _, _, more in _OPTIONS]
    given = {name: getattr(options, name) for name in names}
    with user_input():
        schedule = Schedule(
            options.name,
            options.job_class,
            args=options.args,
            queue=options.queue,
            **{name: value for name, value in given.items() if value is not None},
        )
    change = _schedules().save(schedule, dry_run=options.dry_run)
    return _report_changes(options, [(options.name, change)])


def _apply(options: argparse.Namespace) -> int:
    with user_input():
        definitions = read_schedule_file(_text_of(options.file), options.file)
    schedules = _schedules()
    known = schedules.list() if options.prune else []
    names = {each.name for each in definitions}
    dynamic = [each.name for each in known if each.definition.origin == "dynamic"]
    pruned = [name for name in dynamic if name not in names]
    if pruned and not options.dry_run and not confirm(f"Delete {', '.join(pruned)}?", options):
        return 1
    changes: list[tuple[str, str]] = [*schedules.save_all(definitions, dry_run=options.dry_run)]
    if not options.dry_run:
        pruned = [name for name in pruned if schedules.delete(name)]
    changes += [(name, "deleted") for name in pruned]
    _report_changes(options, changes)
    if not options.json:
        kinds = [kind for _, kind in changes]
        counted = ("created", "changed", "unchanged", "deleted")
        write_line(", ".join(f"{kinds.count(kind)} {kind}" for kind in counted))
    return 0


def _delete(options: argparse.Namespace) -> int:
    schedules = _schedules()
    known = {name: schedules.get(name) for name in options.names}
    if not options.dry_run and not confirm(f"Delete {', '.join(known)}?", options):
        return 1
    rows = []
    for name, each in known.items():
        if each is None:
            _warn_of_unknown(schedules, name)
        elif each.definition.origin == "code":
            sys.stderr.write(
                f"kiqbridge: schedule {name} is declared beside its job: a worker that declares it saves it "
                "again; pause it to stop it\n"
            )
        was_there = each is not None if options.dry_run else schedules.delete(name)
        rows.append({"name": name, "deleted": was_there})
    if options.json:
        write_json({"dry_run": options.dry_run, "schedules": rows})
    else:
        for row in rows:
            line = _line(options, "deleted", str(row["name"]))
            write_line(line if row["deleted"] else f"{row['name']} is not known")
    return 0 if all(row["deleted"] for row in rows) else 1


def _report_changes(options: argparse.Namespace, changes: list[tuple[str, str]]) -> int:
    if options.json:
        rows = [{"name": name, "change": change} for name, change in changes]
        write_json({"dry_run": options.dry_run, "schedules": rows})
    else:
        for name, change in changes:
            write_line(_line(options, change, name))
    return 0


def _line(options: argparse.Namespace, change: str, name: str) -> str:
    if options.dry_run and change != "unchanged":
        return f"would {change.removesuffix('d')} {name}"
    return f"{change} {name}"


def _pause(options: argparse.Namespace) -> int:
    with user_input():
        until = None if options.until is None else moment_of("--until", options.until)
    operator = open_operator(via="cli")
    operator = replace(operator, by=options.by or operator.by)
    schedules = Schedules(operator.client)
    rows = []
    for name in options.names:
        _warn_of_unknown(schedules, name)
        if options.dry_run:
            end = until.timestamp() if until else None
            made = SchedulePause(reason=options.reason, by=operator.by, until=end)
        else:
            made = ScheduleSet(operator).pause(
                name, reason=options.reason, for_s=options.for_s, until=until
            )
        rows.append({"name": name, **asdict(made)})
    if options.json:
        write_json({"dry_run": options.dry_run, "paused": rows})
        return 0
    verb = "would pause" if options.dry_run else "paused"
    for row in rows:
        end_text = "" if row["until"] is None else f" until {instant_text(float(row['until']))}"
        if options.dry_run and options.for_s:
            end_text = f" for {options.for_s:g} s"
        write_line(f"{verb} {row['name']}{end_text}")
    return 0


def _resume(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    schedules = Schedules(operator.client)
    rows = []
    for name in options.names:
        if options.dry_run:
            known = schedules.get(name)
            was_paused = known is not None and known.state.paused is not None
        else:
            was_paused = ScheduleSet(operator).resume(name)
        if not was_paused:
            _warn_of_unknown(schedules, name)
        rows.append({"name": name, "was_paused": was_paused})
    return report_resumed(options, rows)


def _skip(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    if options.dry_run:
        schedules = Schedules(operator.client)
        known, now = schedules.require(options.name), schedules.now()
        found = next_instants(known.definition, known.state, after=now, count=options.count)
    else:
        found = list(ScheduleSet(operator).skip(options.name, options.count))
    instants = [instant_text(each) for each in found]
    if options.json:
        write_json({"dry_run": options.dry_run, "name": options.name, "skipped": instants})
        return 0
    verb = "would skip" if options.dry_run else "skips"
    for each in instants:
        write_line(f"{options.name} {verb} {each}")
    if not instants:
        write_line(f"{options.name} is due never again")
    return 0


def _run(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    jids: list[str] = []
    if options.dry_run:
        schedules = Schedules(operator.client)
        known = schedules.require(options.name)
        at = schedules.counted_instant(known) if options.counted else None
    else:
        made = ScheduleSet(operator).run(options.name, counted=options.counted)
        at, jids = made.at, made.jids
    if options.json:
        answer = {"dry_run": options.dry_run, "name": options.name, "counted": options.counted}
        write_json({**answer, "at": None if at is None else instant_text(at), "jids": jids})
        return 0
    counted = f" as its occurrence of {instant_text(at)}" if options.counted and at else ""
    verb = "would run" if options.dry_run else "enqueued"
    listed = f": {', '.join(jids)}" if jids else ""
    write_line(f"{verb} {options.name}{counted}{listed}")
    return 0


def _warn_of_unknown(schedules: Schedules, name: str) -> None:
    """A misspelt name would be paused without an effect; that of a template not published yet is kept."""
    if schedules.get(name) is None:
        near = schedules.near_names(name)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        sys.stderr.write(f"kiqbridge: schedule {name} is not known{hint}\n")


def _schedules() -> Schedules:
    return Schedules(open_operator(via="cli").client)


def _text_of(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error


def _json_list(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(value, list):
        raise argparse.ArgumentTypeError(f"{text!r} is no list; write one such as '[1]'")
    return value
