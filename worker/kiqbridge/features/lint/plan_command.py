"""`kiqbridge schedule plan`: compare the schedules of two templates, or of the published manifest and a template.

Shown are schedules that were added or removed, fire at other instants, or have another job or policy. Exit 0 if nothing
is different, 1 if something is, 2 if something cannot be read.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kiqbridge.api import open_operator
from kiqbridge.client.known_schedules import list_schedules
from kiqbridge.commands import schedule_sources
from kiqbridge.commands.arguments import add, add_example, user_input, within
from kiqbridge.commands.output import write, write_json
from kiqbridge.dev.console import shown_instant
from kiqbridge.errors import ConfigError
from kiqbridge.features.lint.plan import Change, plan
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store.manifests import read_manifests
from kiqbridge.wire.amounts import count_text, instant_text
from kiqbridge.wire.names import shown

LIVE: Final = "live"
DAYS: Final = 30
_SIGNS: Final = {"added": "+", "removed": "-", "rewritten": " "}


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """The options of `schedule plan`."""
    add_example(verb, "kiqbridge schedule plan template.yaml template.yaml")
    add(verb, "OLD", "a template, or live for the schedules published in Redis")
    add(verb, "NEW", "likewise")
    text = (
        f"how far to look (default: {DAYS}); a change that shows later is looked for a year further"
    )
    add(verb, "--days N", text, type=within(1, 3660), default=DAYS)
    add(verb, "--from TIME", "ISO 8601, or a date (default: now)")
    add(verb, "--json", "as JSON")
    text = "markdown: for a comment in a pull request (default: table)"
    add(verb, "--format", text, choices=["table", "markdown"], default="table")
    add(verb, "--exit-zero", "exit 0 for differences too")
    schedule_sources.add_template_arguments(verb)
    verb.set_defaults(stack_name=None)


def run(options: argparse.Namespace) -> int:
    """Print the changes; 1 if one fires differently."""
    begin = options.from_ or datetime.now(UTC)
    with user_input():
        old, new = _read(options)
        changes = plan(old, new, start=int(begin.timestamp()), days=options.days)
    count = len(dict.fromkeys([*old, *new]))
    head = f"{options.days} days from {begin:%Y-%m-%d %H:%M} UTC"
    if options.json:
        write_json(_document(changes, begin, options.days))
    else:
        lines = (_markdown if options.format == "markdown" else _lines)(changes)
        for line in (_summary(changes, head, count), *lines):
            write(shown(f"{line}\n"))
    is_different = any(each.is_different for each in changes)
    return 1 if is_different and not options.exit_zero else 0


def _lines(changes: Sequence[Change]) -> Iterator[str]:
    """The changes for people: two lines and more each."""
    for each in changes:
        yield f"\n{_SIGNS.get(each.kinds[0], '~')} {each.name}  {', '.join(each.kinds)}"
        yield from (f"    {line}" for line in _described(each))


def _markdown(changes: Sequence[Change]) -> Iterator[str]:
    """The changes as a table of Markdown."""
    if changes:
        yield "\n| schedule | change | what |\n|---|---|---|"
    for each in changes:
        what = "<br>".join(line.replace("|", "\\|") for line in _described(each))
        yield f"| `{each.name}` | {', '.join(each.kinds)} | {what} |"


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


def _described(change: Change) -> Iterator[str]:
    old, new = change.old, change.new
    sides = [each for each in (old, new) if each is not None]
    yield " -> ".join(dict.fromkeys(map(_when, sides)))
    if len(sides) == 1:
        yield _jobs(sides[0])
    for number, instants, word, each in (
        (change.lost, change.first_lost, "fewer", old),
        (change.gained, change.first_gained, "more", new),
    ):
        if number and each is not None:
            yield f"{count_text(number, 'firing')} {word}: {_instants(instants, each, number)}"
    if change.later_at is not None:
        yield f"the same until {instant_text(change.later_at)}, different from then on"
    yield from change.details


def _when(definition: ScheduleDefinition) -> str:
    bounds = "".join(
        f" {word} {moment:%Y-%m-%d %H:%M} UTC"
        for word, moment in (("from", definition.start), ("until", definition.end))
        if moment is not None
    )
    return f"{definition.expression} {definition.when.timezone}{bounds}"


def _jobs(definition: ScheduleDefinition) -> str:
    names = [
        f"{job.get('class') or job.get('active_job')}"
        f"{json.dumps(job.get('args', []), default=str)} in {job.get('queue', 'default')}"
        for job in definition.jobs
    ]
    return ", ".join(names) or "calls a function of its own"


def _instants(instants: Sequence[int], definition: ScheduleDefinition, number: int) -> str:
    zone = definition.when.timezone
    shown = [shown_instant(datetime.fromtimestamp(each, UTC), zone) for each in instants]
    return ", ".join(shown) + (" …" if number > len(instants) else "")


def _document(changes: Sequence[Change], begin: datetime, days: int) -> dict[str, Any]:
    def shown(change: Change) -> dict[str, Any]:
        later, old, new = change.later_at, change.old, change.new
        return {
            "name": change.name,
            "kinds": list(change.kinds),
            "fewer": change.lost,
            "more": change.gained,
            "first_fewer": list(map(instant_text, change.first_lost)),
            "first_more": list(map(instant_text, change.first_gained)),
            "later_at": None if later is None else instant_text(later),
            "details": list(change.details),
            "old": old and old.to_document(),
            "new": new and new.to_document(),
        }

    return {
        "from": instant_text(begin),
        "days": days,
        "different": any(each.is_different for each in changes),
        "changes": list(map(shown, changes)),
    }


_Definitions = dict[str, ScheduleDefinition]


def _read(options: argparse.Namespace) -> tuple[_Definitions, _Definitions]:
    """The definitions of both sides, under the name of the same stack."""
    live = _live(options) if LIVE in (options.old, options.new) else {}
    if options.stack_name is None:
        options.stack_name = schedule_sources.DEFAULT_STACK
    sides = []
    for name in (options.old, options.new):
        if name == LIVE:
            sides.append(live)
            continue
        schedules = schedule_sources.read_template(Path(name), options)
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
