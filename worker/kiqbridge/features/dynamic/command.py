"""`kiqbridge schedule save`, `apply`, `delete`, `skip` and `run`: change schedules in Redis, without a deploy.

Save, apply and delete are for dynamic schedules; skip and run for those of templates as well.
"""

import argparse
import functools
import json
from typing import Any, Final, get_args

from kiqbridge.api import ScheduleSet, open_operator
from kiqbridge.commands import arguments
from kiqbridge.commands.acting import REFUSED, confirm
from kiqbridge.commands.output import answer, warn, write_line
from kiqbridge.commands.pause_command import warn_of_unknown
from kiqbridge.features.dynamic.due import next_instants
from kiqbridge.features.dynamic.schedule import Schedule
from kiqbridge.features.dynamic.schedule_file import read_schedule_file
from kiqbridge.features.dynamic.schedules import Schedules
from kiqbridge.wire.amounts import instant_text
from kiqbridge.wire.tick_mark import Missed, Overlap

_WHEN: Final = {
    "--cron LINE": "such as '0 3 * * *'",
    "--every PERIOD": "30s, 5m, 2h or 1d",
    "--at TIME": "once: ISO 8601",
    "--expression TEXT": "in any form, such as 'rate(5 minutes)'",
}
_BESIDES: Final = {
    "--queue NAME": "default: default",
    "--timezone ZONE": "such as Europe/Paris (default: UTC)",
    "--start TIME": "ISO 8601; nothing is due before",
    "--end TIME": "ISO 8601; nothing is due after",
    "--description TEXT": "",
}
_GIVEN: Final = "cron every at expression queue timezone start end description overlap jitter_s max_age_s missed"
"""Attributes of the options, and of a schedule."""


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """The options of a verb."""
    run, example = {
        "save": (
            _save,
            "nightly-report --cron '0 3 * * *' --timezone Europe/Paris --class NightlyReport",
        ),
        "apply": (_apply, "config/schedule.yml --dry-run"),
        "delete": (_delete, "nightly-report --yes"),
        "skip": (_skip, "nightly-report --count 2"),
        "run": (_run, "nightly-report"),
    }[name]
    add = functools.partial(arguments.add, parser)
    match name:
        case "save":
            _add_save(parser)
        case "apply":
            add("FILE", "- = standard input")
            text = (
                "delete dynamic schedules that the file does not have; asks, unless --yes is given"
            )
            add("--prune", text)
        case "delete":
            add("NAME...", dest="names")
        case "skip":
            add("NAME")
            add("--count N", "how many (default: 1)", type=int, default=1)
        case "run":
            add("NAME")
            text = "in the place of an occurrence, which fires no more: the last one, if it was missed, else the next"
            add("--counted", text)
    arguments.add_changing(parser, asks=name in {"apply", "delete"})
    arguments.add_example(parser, f"kiqbridge schedule {name} {example}")
    parser.set_defaults(command=run)


def _add_save(save: argparse.ArgumentParser) -> None:
    arguments.add(save, "NAME")
    when = save.add_mutually_exclusive_group(required=True)
    for words, text in _WHEN.items():
        arguments.add(when, words, text, type=str)
    arguments.add(save, "--class CLASS", dest="job_class", required=True)
    arguments.add(save, "--args JSON", "such as '[1]'", type=_json_list, default=[])
    for words, text in _BESIDES.items():
        arguments.add(save, words, text, type=str)
    arguments.add(save, "--overlap", "default: allow", choices=get_args(Overlap))
    arguments.add(save, "--jitter SECONDS", dest="jitter_s", type=int)
    arguments.add(save, "--max-age SECONDS", dest="max_age_s")
    arguments.add(save, "--missed", "default: last", choices=get_args(Missed))


def _save(options: argparse.Namespace) -> int:
    """Create a dynamic schedule, or change it: an option that is not given has its default.

    It takes effect within seconds, without a deploy.
    """
    given = {name: getattr(options, name) for name in _GIVEN.split()}
    with arguments.user_input():
        schedule = Schedule(
            options.name,
            options.job_class,
            args=options.args,
            **{name: value for name, value in given.items() if value is not None},
        )
    return _report(options, [(options.name, _schedules().save(schedule, dry_run=options.dry_run))])


def _apply(options: argparse.Namespace) -> int:
    """Save all dynamic schedules of a YAML file (name: cron, class, args, queue, …).

    Nothing is written unless all of the file is right: exit 2, with line and key of each fault.
    """
    with arguments.user_input():
        definitions = read_schedule_file(arguments.read_input(options.file), options.file)
    schedules = _schedules()
    known = schedules.list() if options.prune else []
    names = {each.name for each in definitions}
    dynamic = [each.name for each in known if each.definition.origin == "dynamic"]
    pruned = [name for name in dynamic if name not in names]
    if pruned and not options.dry_run and not confirm(f"Delete {', '.join(pruned)}?", options):
        return REFUSED
    changes: list[tuple[str, str]] = [*schedules.save_all(definitions, dry_run=options.dry_run)]
    if not options.dry_run:
        pruned = [name for name in pruned if schedules.delete(name)]
    changes += [(name, "deleted") for name in pruned]
    _report(options, changes)
    if not options.json:
        kinds = [kind for _, kind in changes]
        counted = ("created", "changed", "unchanged", "deleted")
        write_line(", ".join(f"{kinds.count(kind)} {kind}" for kind in counted))
    return 0


def _delete(options: argparse.Namespace) -> int:
    """Delete dynamic schedules, with the jobs that they have placed ahead.

    Exit 0 if they were there, 1 if one was not, 2 without --yes where there is no terminal to ask.
    """
    operator = open_operator(via="cli")
    schedules = Schedules(operator.client)
    known = {name: schedules.get(name) for name in options.names}
    if not options.dry_run and not confirm(f"Delete {', '.join(known)}?", options):
        return REFUSED
    rows = []
    for name, each in known.items():
        if each is None:
            warn_of_unknown(operator, "schedule", [name])
        elif each.definition.origin == "code":
            warn(
                f"schedule {name} is declared beside its job: a worker that declares it saves it again; pause it "
                "to stop it"
            )
        was_there = each is not None if options.dry_run else schedules.delete(name)
        rows.append({"name": name, "deleted": was_there})
    lines = (
        _line(options, "deleted", row["name"]) if row["deleted"] else f"{row['name']} is not known"
        for row in rows
    )
    answer(options, {"dry_run": options.dry_run, "schedules": rows}, lines)
    return 0 if all(row["deleted"] for row in rows) else 1


def _report(options: argparse.Namespace, changes: list[tuple[str, str]]) -> int:
    rows = [{"name": name, "change": change} for name, change in changes]
    lines = (_line(options, change, name) for name, change in changes)
    return answer(options, {"dry_run": options.dry_run, "schedules": rows}, lines)


def _line(options: argparse.Namespace, change: str, name: str) -> str:
    if options.dry_run and change != "unchanged":
        return f"would {change.removesuffix('d')} {name}"
    return f"{change} {name}"


def _skip(options: argparse.Namespace) -> int:
    """Let the next occurrences of a schedule not fire."""
    operator = open_operator(via="cli")
    if options.dry_run:
        schedules = Schedules(operator.client)
        known, now = schedules.require(options.name), schedules.now()
        found = next_instants(known.definition, known.state, after=now, count=options.count)
    else:
        found = list(ScheduleSet(operator).skip(options.name, options.count))
    instants = [instant_text(each) for each in found]
    verb = "would skip" if options.dry_run else "skips"
    lines = [f"{options.name} {verb} {each}" for each in instants]
    document = {"dry_run": options.dry_run, "name": options.name, "skipped": instants}
    return answer(options, document, lines or [f"{options.name} is due never again"])


def _run(options: argparse.Namespace) -> int:
    """Enqueue the jobs of a schedule now, whether or not it is paused.

    Repeat it only after a look at the ledger: each call is a run.
    """
    operator = open_operator(via="cli")
    jids: list[str] = []
    if options.dry_run:
        schedules = Schedules(operator.client)
        known = schedules.require(options.name)
        at = schedules.counted_instant(known) if options.counted else None
    else:
        made = ScheduleSet(operator).run(options.name, counted=options.counted)
        at, jids = made.at, made.jids
    due = None if at is None else instant_text(at)
    document = {"dry_run": options.dry_run, "name": options.name, "counted": options.counted}
    counted = f" as its occurrence of {due}" if options.counted and due else ""
    verb = "would run" if options.dry_run else "enqueued"
    listed = f": {', '.join(jids)}" if jids else ""
    said = f"{verb} {options.name}{counted}{listed}"
    return answer(options, {**document, "at": due, "jids": jids}, [said])


def _schedules() -> Schedules:
    return Schedules(open_operator(via="cli").client)


def _json_list(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(value, list):
        raise argparse.ArgumentTypeError(f"{text!r} is no list; write one such as '[1]'")
    return value
