"""`kiqbridge schedule pause`, `resume`, `skip` and `run`: schedules of templates as well as dynamic ones."""

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kiqbridge.api.operator import user_at_host
from kiqbridge.commands.arguments import add_changing, add_option, add_switch, duration, user_input
from kiqbridge.commands.moments import moment_of
from kiqbridge.schedule.due import next_instants
from kiqbridge.schedule.state import SchedulePause
from kiqbridge.wire.amounts import instant_text

if TYPE_CHECKING:
    from kiqbridge.client.schedules import Schedules


def add_arguments(verbs: Any) -> None:
    """The verbs pause, resume, skip and run."""
    pause = verbs.add_parser(
        "pause",
        help="let schedules fire no more",
        description="Pause schedules, those of templates as well: what comes due meanwhile is not caught up. "
        "What was placed ahead is withdrawn; jobs that are in a queue run.",
    )
    pause.add_argument("names", nargs="+", metavar="NAME")
    add_option(pause, "--reason", "TEXT", "why; shown by list", default="")
    add_option(pause, "--by", "WHO", "who paused it (default: you, on this machine)")
    end = pause.add_mutually_exclusive_group()
    add_option(
        end,
        "--for",
        "DURATION",
        "ends by itself after 90, 90s, 15m, 2h or 1d",
        dest="for_s",
        type=duration,
    )
    add_option(end, "--until", "TIME", "ends by itself at this time (ISO 8601)")
    resume = verbs.add_parser("resume", help="end the pause of schedules")
    resume.add_argument("names", nargs="+", metavar="NAME")
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
    add_switch(
        run,
        "--counted",
        "in the place of an occurrence, which fires no more: the last one, if it was missed, else the next",
    )
    for verb, function in ((pause, _pause), (resume, _resume), (skip, _skip), (run, _run)):
        add_changing(verb)
        verb.set_defaults(command=function)


def _pause(options: argparse.Namespace) -> int:
    with user_input():
        until = None if options.until is None else moment_of("--until", options.until)
    schedules, by = _schedules(), options.by or user_at_host()
    rows = []
    for name in options.names:
        _warn_of_unknown(schedules, name)
        if options.dry_run:
            made = SchedulePause(
                reason=options.reason, by=by, until=until.timestamp() if until else None
            )
        else:
            made = schedules.pause(
                name, reason=options.reason, by=by, for_s=options.for_s, until=until
            )
        rows.append({"name": name, **asdict(made)})
    if options.json:
        return _answer({"dry_run": options.dry_run, "paused": rows})
    verb = "would pause" if options.dry_run else "paused"
    for row in rows:
        end = "" if row["until"] is None else f" until {instant_text(float(row['until']))}"
        if options.dry_run and options.for_s:
            end = f" for {options.for_s:g} s"
        sys.stdout.write(f"{verb} {row['name']}{end}\n")
    return 0


def _resume(options: argparse.Namespace) -> int:
    schedules = _schedules()
    rows = []
    for name in options.names:
        if options.dry_run:
            known = schedules.get(name)
            was_paused = known is not None and known.state.paused is not None
        else:
            was_paused = schedules.resume(name)
        if not was_paused:
            _warn_of_unknown(schedules, name)
        rows.append({"name": name, "was_paused": was_paused})
    if options.json:
        return _answer({"dry_run": options.dry_run, "resumed": rows})
    verb = "would resume" if options.dry_run else "resumed"
    for row in rows:
        sentence = f"{verb} {{}}" if row["was_paused"] else "{} was not paused"
        sys.stdout.write(sentence.format(row["name"]) + "\n")
    return 0


def _skip(options: argparse.Namespace) -> int:
    schedules = _schedules()
    if options.dry_run:
        known = schedules.require(options.name)
        found = next_instants(
            known.definition, known.state, after=schedules.now(), count=options.count
        )
    else:
        found = list(schedules.skip_next(options.name, options.count))
    instants = [instant_text(each) for each in found]
    if options.json:
        return _answer({"dry_run": options.dry_run, "name": options.name, "skipped": instants})
    verb = "would skip" if options.dry_run else "skips"
    for each in instants:
        sys.stdout.write(f"{options.name} {verb} {each}\n")
    if not instants:
        sys.stdout.write(f"{options.name} is due never again\n")
    return 0


def _run(options: argparse.Namespace) -> int:
    schedules = _schedules()
    if options.dry_run:
        known = schedules.require(options.name)
        at = schedules.counted_instant(known) if options.counted else None
        jids: list[str] = []
    else:
        made = schedules.run(options.name, counted=options.counted, by=f"cli:{user_at_host()}")
        at, jids = made.at, made.jids
    if options.json:
        instant = None if at is None else instant_text(at)
        return _answer(
            {
                "dry_run": options.dry_run,
                "name": options.name,
                "counted": options.counted,
                "at": instant,
                "jids": jids,
            }
        )
    counted = f" as its occurrence of {instant_text(at)}" if options.counted and at else ""
    verb = "would run" if options.dry_run else "enqueued"
    sys.stdout.write(f"{verb} {options.name}{counted}{_list_of(jids)}\n")
    return 0


def _list_of(jids: list[str]) -> str:
    return f": {', '.join(jids)}" if jids else ""


def _warn_of_unknown(schedules: "Schedules", name: str) -> None:
    """A misspelt name would be paused without an effect; that of a template not published yet is kept."""
    if schedules.get(name) is None:
        near = schedules.near_names(name)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        sys.stderr.write(f"kiqbridge: schedule {name} is not known{hint}\n")


def _schedules() -> "Schedules":
    from kiqbridge.client.client import Client  # noqa: PLC0415 - as in commands/cli.py
    from kiqbridge.client.schedules import Schedules  # noqa: PLC0415 - as above

    return Schedules(Client())


def _answer(value: object) -> int:
    sys.stdout.write(json.dumps(value) + "\n")
    return 0
