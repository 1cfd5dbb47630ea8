"""`kiqbridge schedule plan OLD NEW`: what fires differently, for whoever reviews a change of a template."""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kiqbridge.api import open_operator
from kiqbridge.client.known_schedules import list_schedules
from kiqbridge.clocks.manifest_store import read_manifests
from kiqbridge.commands.arguments import add_option, add_switch, user_input, within
from kiqbridge.commands.moments import moment_or_now
from kiqbridge.commands.output import write, write_json
from kiqbridge.commands.schedule_sources import (
    DEFAULT_STACK,
    add_template_arguments,
    read_template,
)
from kiqbridge.dev.console import shown_instant
from kiqbridge.errors import ConfigError
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.plan import Change, plan
from kiqbridge.wire.amounts import count_text, instant_text
from kiqbridge.wire.names import shown

LIVE: Final = "live"
DAYS: Final = 30
_SIGNS: Final = {"added": "+", "removed": "-", "rewritten": " "}


def add_arguments(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verb plan."""
    verb = verbs.add_parser(
        "plan",
        help="what fires differently between two templates",
        description="Compare the schedules of two templates, or of the published manifest and a template: "
        "what is added and removed, what fires at other instants, whose job or policy is another one. Exit 0 "
        "if nothing is different, 1 if something is, 2 if something cannot be read.",
    )
    add_option(verb, "old", "OLD", "a template, or live: what is published in Redis")
    add_option(verb, "new", "NEW", "likewise")
    add_option(
        verb,
        "--days",
        "N",
        f"how far to look (default: {DAYS}); a change that shows later is looked for a year further",
        type=within(1, 3660),
        default=DAYS,
    )
    add_option(verb, "--from", "TIME", "ISO 8601, or a date (default: now)", dest="begin")
    add_switch(verb, "--json", "as JSON")
    verb.add_argument(
        "--format",
        choices=["table", "markdown"],
        default="table",
        help="markdown: for a comment in a pull request (default: table)",
    )
    add_switch(verb, "--exit-zero", "exit 0 for differences too")
    add_template_arguments(verb)
    verb.set_defaults(command=_plan, stack_name=None)


def _plan(options: argparse.Namespace) -> int:
    with user_input():
        begin = moment_or_now("--from", options.begin)
        old, new = _read(options)
        changes = plan(old, new, start=int(begin.timestamp()), days=options.days)
    count = len(dict.fromkeys([*old, *new]))
    head = f"{options.days} days from {begin:%Y-%m-%d %H:%M} UTC"
    if options.json:
        write_json(_document(changes, begin, options.days))
    elif options.format == "markdown":
        write(shown(markdown(changes, head, count)))
    else:
        write(shown(table(changes, head, count)))
    is_different = any(each.is_different for each in changes)
    return 1 if is_different and not options.exit_zero else 0


def table(changes: Sequence[Change], head: str, count: int) -> str:
    """The changes for people: two lines and more each."""
    lines = [_summary(changes, head, count)]
    for each in changes:
        sign = _SIGNS.get(each.kinds[0], "~")
        lines += ["", f"{sign} {each.name}  {', '.join(each.kinds)}"]
        lines += [f"    {line}" for line in _described(each)]
    return "\n".join(lines) + "\n"


def markdown(changes: Sequence[Change], head: str, count: int) -> str:
    """The changes as a table of Markdown."""
    lines = [_summary(changes, head, count)]
    if changes:
        lines += ["", "| schedule | change | what |", "|---|---|---|"]
    for each in changes:
        what = "<br>".join(line.replace("|", "\\|") for line in _described(each))
        lines.append(f"| `{each.name}` | {', '.join(each.kinds)} | {what} |")
    return "\n".join(lines) + "\n"


def _summary(changes: Sequence[Change], head: str, count: int) -> str:
    different = [each for each in changes if each.is_different]
    schedules = count_text(count, "schedule")
    if not different:
        return f"{head}: {schedules}, nothing fires differently"
    lost, gained = (sum(getattr(each, name) for each in different) for name in ("lost", "gained"))
    kinds = Counter(kind for each in different for kind in each.kinds if kind != "rewritten")
    words = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    return (
        f"{head}: {len(different):,} of {schedules} different ({words}); "
        f"{count_text(lost, 'firing')} fewer, {gained:,} more"
    )


def _described(change: Change) -> list[str]:
    old, new = change.old, change.new
    lines = []
    if old is None or new is None or _when(old) == _when(new):
        lines.append(_when(new or old))
    else:
        lines.append(f"{_when(old)} -> {_when(new)}")
    definition = new or old
    if old is None or new is None:
        lines.append(_jobs(definition))
    for number, instants, word, each in (
        (change.lost, change.first_lost, "fewer", old),
        (change.gained, change.first_gained, "more", new),
    ):
        if number and each is not None:
            lines.append(
                f"{count_text(number, 'firing')} {word}: {_instants(instants, each, number)}"
            )
    if change.later_at is not None:
        lines.append(f"the same until {instant_text(change.later_at)}, different from then on")
    return [*lines, *change.details]


def _when(definition: ScheduleDefinition | None) -> str:
    if definition is None:
        return ""
    zone = definition.when.timezone
    bounds = "".join(
        f" {word} {moment:%Y-%m-%d %H:%M} UTC"
        for word, moment in (("from", definition.start), ("until", definition.end))
        if moment is not None
    )
    return f"{definition.expression} {zone}{bounds}"


def _jobs(definition: ScheduleDefinition | None) -> str:
    jobs = definition.jobs if definition is not None else ()
    names = [
        f"{job.get('class') or job.get('active_job')}"
        f"{json.dumps(job.get('args', []), default=str)} in {job.get('queue', 'default')}"
        for job in jobs
    ]
    return ", ".join(names) or "calls a function of its own"


def _instants(instants: Sequence[int], definition: ScheduleDefinition, number: int) -> str:
    zone = definition.when.timezone
    shown = [shown_instant(datetime.fromtimestamp(each, UTC), zone) for each in instants]
    return ", ".join(shown) + (" …" if number > len(instants) else "")


def _document(changes: Sequence[Change], begin: datetime, days: int) -> dict[str, Any]:
    def of(definition: ScheduleDefinition | None) -> dict[str, Any] | None:
        return None if definition is None else definition.to_document()

    return {
        "from": instant_text(begin),
        "days": days,
        "different": any(each.is_different for each in changes),
        "changes": [
            {
                "name": each.name,
                "kinds": list(each.kinds),
                "fewer": each.lost,
                "more": each.gained,
                "first_fewer": list(map(instant_text, each.first_lost)),
                "first_more": list(map(instant_text, each.first_gained)),
                "later_at": None if each.later_at is None else instant_text(each.later_at),
                "details": list(each.details),
                "old": of(each.old),
                "new": of(each.new),
            }
            for each in changes
        ],
    }


_Definitions = dict[str, ScheduleDefinition]


def _read(options: argparse.Namespace) -> tuple[_Definitions, _Definitions]:
    """The definitions of both sides, under the name of the same stack."""
    live = _live(options) if LIVE in (options.old, options.new) else {}
    if options.stack_name is None:
        options.stack_name = DEFAULT_STACK
    sides = []
    for name in (options.old, options.new):
        if name == LIVE:
            sides.append(live)
            continue
        schedules = read_template(Path(name), options)
        # A manifest has the schedules that enqueue, not those of functions of your own.
        sides.append(
            {each.name: each.definition for each in schedules if each.definition.jobs or not live}
        )
    return sides[0], sides[1]


def _live(options: argparse.Namespace) -> _Definitions:
    """What is published of the stack; of the only one, if none is named."""
    server = open_operator(via="cli")
    manifests = read_manifests(server.pool, server.keys)
    stacks = sorted(manifests)
    if options.stack_name is None and len(stacks) == 1:
        options.stack_name = stacks[0]
    if options.stack_name not in stacks:
        known = f"there are: {', '.join(stacks)}" if stacks else "there is none at all"
        raise ConfigError(
            f"live: no manifest of stack {options.stack_name or '?'} is published in Redis, {known}; name it by "
            "--stack-name, or publish it first (kiqbridge schedule publish)"
        )
    names = manifests[options.stack_name].names
    live = list_schedules(server.pool, server.keys)
    return {each.name: each.definition for each in live if each.name in names}
