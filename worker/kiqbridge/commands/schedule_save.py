"""`kiqbridge schedule save`, `apply` and `delete`: dynamic schedules, without a deploy."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from kiqbridge.commands.arguments import add_changing, add_option, add_switch, user_input
from kiqbridge.errors import ConfigError
from kiqbridge.wire.tick_mark import Missed, Overlap

if TYPE_CHECKING:
    from kiqbridge.client.schedules import Schedules

_OPTIONS = (
    "cron",
    "every",
    "at",
    "expression",
    "timezone",
    "start",
    "end",
    "overlap",
    "jitter_s",
    "max_age_s",
    "missed",
    "description",
)


def add_arguments(verbs: Any) -> None:
    """The verbs save, apply and delete."""
    _add_save(verbs)
    apply = verbs.add_parser(
        "apply",
        help="save the dynamic schedules of a file",
        description="Save all dynamic schedules of a YAML file (name: cron, class, args, queue, …). Nothing is "
        "written unless all of the file is right: exit 2, with line and key of each fault.",
    )
    add_option(apply, "file", "FILE", "- = standard input")
    add_switch(
        apply,
        "--prune",
        "delete dynamic schedules that the file does not have; asks, unless --yes is given",
    )
    delete = verbs.add_parser(
        "delete",
        help="delete dynamic schedules",
        description="Delete dynamic schedules, with what was placed ahead. Exit 0 if they were there, 1 if one "
        "was not, 2 without --yes where nobody can be asked.",
    )
    delete.add_argument("names", nargs="+", metavar="NAME")
    for verb, function in ((apply, _apply), (delete, _delete)):
        add_switch(verb, "--yes", "do not ask")
        add_changing(verb)
        verb.set_defaults(command=function)


def _add_save(verbs: Any) -> None:
    save = verbs.add_parser(
        "save",
        help="create or change a dynamic schedule",
        description="Create a dynamic schedule, or change it: what is not given is the default. In effect within "
        "seconds, without a deploy.",
    )
    save.add_argument("name", metavar="NAME")
    when = save.add_mutually_exclusive_group(required=True)
    add_option(when, "--cron", "LINE", "such as '0 3 * * *'")
    add_option(when, "--every", "PERIOD", "30s, 5m, 2h or 1d")
    add_option(when, "--at", "TIME", "once: ISO 8601")
    add_option(when, "--expression", "TEXT", "in any form, such as 'rate(5 minutes)'")
    save.add_argument("--class", dest="job_class", required=True, metavar="CLASS")
    add_option(save, "--args", "JSON", "such as '[1]'", type=_json_list, default=[])
    add_option(save, "--queue", "NAME", "default: default")
    add_option(save, "--timezone", "ZONE", "such as Europe/Paris (default: UTC)")
    add_option(save, "--start", "TIME", "ISO 8601; nothing is due before")
    add_option(save, "--end", "TIME", "ISO 8601; nothing is due after")
    save.add_argument("--overlap", choices=get_args(Overlap), help="default: allow")
    save.add_argument("--jitter", dest="jitter_s", type=int, metavar="SECONDS")
    save.add_argument("--max-age", dest="max_age_s", type=float, metavar="SECONDS")
    save.add_argument("--missed", choices=get_args(Missed), help="default: last")
    save.add_argument("--description", metavar="TEXT")
    add_changing(save)
    save.set_defaults(command=_save)


def _save(options: argparse.Namespace) -> int:
    from kiqbridge.client.schedule import Schedule  # noqa: PLC0415 - as in commands/cli.py

    given = {name: getattr(options, name) for name in _OPTIONS}
    with user_input():
        schedule = Schedule(
            options.name,
            options.job_class,
            args=options.args,
            queue=options.queue,
            **{name: value for name, value in given.items() if value is not None},
        )
    change = _schedules().save(schedule, dry_run=options.dry_run)
    if options.json:
        return _answer(
            {"dry_run": options.dry_run, "schedules": [{"name": options.name, "change": change}]}
        )
    sys.stdout.write(_line(options, change, options.name))
    return 0


def _apply(options: argparse.Namespace) -> int:
    from kiqbridge.clocks.schedule_file import read_schedule_file  # noqa: PLC0415 - as above

    with user_input():
        definitions = read_schedule_file(_text_of(options.file), options.file)
    schedules = _schedules()
    known = schedules.list() if options.prune else []
    names = {each.name for each in definitions}
    pruned = [
        each.name
        for each in known
        if each.definition.origin == "dynamic" and each.name not in names
    ]
    is_agreed = options.dry_run or options.yes or not pruned or _is_agreed(pruned)
    if not is_agreed:
        return 2
    changes: list[tuple[str, str]] = [*schedules.save_all(definitions, dry_run=options.dry_run)]
    if not options.dry_run:
        pruned = [name for name in pruned if schedules.delete(name)]
    changes += [(name, "deleted") for name in pruned]
    if options.json:
        rows = [{"name": name, "change": change} for name, change in changes]
        return _answer({"dry_run": options.dry_run, "schedules": rows})
    for name, change in changes:
        sys.stdout.write(_line(options, change, name))
    counts = [
        f"{sum(each == kind for _, each in changes)} {kind}"
        for kind in ("created", "changed", "unchanged", "deleted")
    ]
    sys.stdout.write(", ".join(counts) + "\n")
    return 0


def _delete(options: argparse.Namespace) -> int:
    schedules = _schedules()
    known = {name: schedules.get(name) for name in options.names}
    if not options.yes and not options.dry_run and not _is_agreed(list(known)):
        return 2
    rows = []
    for name, each in known.items():
        if each is None and (near := schedules.near_names(name)):
            sys.stderr.write(
                f"kiqbridge: schedule {name} is not known; did you mean {' or '.join(near)}?\n"
            )
        if each is not None and each.definition.origin == "code":
            sys.stderr.write(
                f"kiqbridge: schedule {name} is declared beside its job: a worker that declares it saves it "
                "again; pause it to stop it\n"
            )
        was_there = each is not None if options.dry_run else schedules.delete(name)
        rows.append({"name": name, "deleted": was_there})
    if options.json:
        _answer({"dry_run": options.dry_run, "schedules": rows})
    else:
        for row in rows:
            text = _line(options, "deleted", str(row["name"]))
            sys.stdout.write(text if row["deleted"] else f"{row['name']} is not known\n")
    return 0 if all(row["deleted"] for row in rows) else 1


def _is_agreed(names: list[str]) -> bool:
    if not sys.stdin.isatty():
        sys.stderr.write("kiqbridge: nobody can be asked here; add --yes to delete\n")
        return False
    sys.stderr.write(f"delete {', '.join(names)}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _text_of(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error


def _line(options: argparse.Namespace, change: str, name: str) -> str:
    if options.dry_run and change != "unchanged":
        verb = {"created": "create", "changed": "change", "deleted": "delete"}[change]
        return f"would {verb} {name}\n"
    return f"{change} {name}\n"


def _json_list(text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from error
    if not isinstance(value, list):
        raise argparse.ArgumentTypeError(f"{text!r} is no list; write one such as '[1]'")
    return value


def _schedules() -> "Schedules":
    from kiqbridge.client.client import Client  # noqa: PLC0415 - as above
    from kiqbridge.client.schedules import Schedules  # noqa: PLC0415 - as above

    return Schedules(Client())


def _answer(value: object) -> int:
    sys.stdout.write(json.dumps(value) + "\n")
    return 0
