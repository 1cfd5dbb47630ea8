"""`kiqbridge schedule plan`: what fires differently between two sets of schedules.

They are two templates, such as before and after a change, or the published manifest and a template.

Shown are schedules that were added or removed, fire at other instants, or have another job or policy. Exit 0 if nothing
is different, 1 if something is, 2 if something cannot be read.
"""

import argparse
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from kiqbridge.api import open_operator
from kiqbridge.client.known_schedules import list_schedules
from kiqbridge.commands import schedule_sources
from kiqbridge.commands.arguments import add, add_example, user_input, within
from kiqbridge.commands.output import write, write_json
from kiqbridge.dev.console import shown_instant
from kiqbridge.errors import ConfigError
from kiqbridge.features.lint.simulation import DAY_S, occurrences
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store.manifests import read_manifests
from kiqbridge.wire.amounts import count_text, instant_text
from kiqbridge.wire.names import shown

ChangeKind = Literal[
    "added", "removed", "enabled", "disabled", "moved", "later", "job", "policy", "rewritten"
]
"""`moved`: the same name fires at other instants; `later`: not within the days looked at, but within a year
after them; `rewritten`: written in another way, and nothing fires differently."""

_POLICIES: Final = ("missed", "max_age_s", "grace_s", "overlap", "jitter_s")
_FURTHER_DAYS: Final = 366
_MOST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is different about one schedule.

    Attributes:
        name: of the schedule.
        kinds: what is different.
        old, new: the definitions; None where there is none.
        lost: how many instants only the old one fires at, within the days looked at.
        gained: how many only the new one.
        first_lost, first_gained: the first ones, epoch seconds.
        later_at: the first instant after those days at which they differ; None = they do not, for a year.
        details: each difference of job and policy, such as `queue: low -> default`.
    """

    name: str
    kinds: Sequence[ChangeKind]
    old: ScheduleDefinition | None
    new: ScheduleDefinition | None
    lost: int = 0
    gained: int = 0
    first_lost: Sequence[int] = ()
    first_gained: Sequence[int] = ()
    later_at: int | None = None
    details: Sequence[str] = ()

    @property
    def is_different(self) -> bool:
        """Whether something fires differently, or something else is enqueued."""
        return list(self.kinds) != ["rewritten"]


def plan(
    old: Mapping[str, ScheduleDefinition],
    new: Mapping[str, ScheduleDefinition],
    *,
    start: int,
    days: int,
) -> list[Change]:
    """The schedules that are different, those of `new` in its order, then those that are gone.

    Args:
        old, new: definitions by name.
        start: epoch seconds; included.
        days: how far to look.

    Raises:
        ExpressionError: an expression cannot be read.
    """
    names = dict.fromkeys([*new, *old])
    found = (_change(name, old.get(name), new.get(name), (start, days)) for name in names)
    return [each for each in found if each is not None]


def _change(
    name: str,
    old: ScheduleDefinition | None,
    new: ScheduleDefinition | None,
    window: tuple[int, int],
) -> Change | None:
    if old == new:
        return None
    start, days = window
    end = start + days * DAY_S
    before, after = (_fired(each, start, end) for each in (old, new))
    lost, gained = sorted(before - after), sorted(after - before)
    kinds: list[ChangeKind] = []
    details: list[str] = []
    later_at: int | None = None
    if old is None or new is None:
        kinds.append("added" if old is None else "removed")
    else:
        if old.enabled != new.enabled:
            kinds.append("enabled" if new.enabled else "disabled")
        elif lost or gained:
            kinds.append("moved")
        elif old.enabled and _timing(old) != _timing(new):
            later_at = _first_difference(old, new, end)
            kinds += [] if later_at is None else ["later"]
        jobs, policies = _job_details(old, new), _policy_details(old, new)
        kinds += ["job"] if jobs else []
        kinds += ["policy"] if policies else []
        details = [*jobs, *policies]
    if not kinds and old is not None and new is not None and _timing(old) == _timing(new):
        return None  # the origin alone is different
    return Change(
        name=name,
        kinds=kinds or ["rewritten"],
        old=old,
        new=new,
        lost=len(lost),
        gained=len(gained),
        first_lost=lost[:_MOST],
        first_gained=gained[:_MOST],
        later_at=later_at,
        details=details,
    )


def _fired(definition: ScheduleDefinition | None, start: int, end: int) -> set[int]:
    if definition is None or not definition.enabled:
        return set()
    return set(occurrences(definition.when, start, end))


def _timing(definition: ScheduleDefinition) -> tuple[object, ...]:
    return definition.expression, definition.timezone, definition.start, definition.end


def _first_difference(old: ScheduleDefinition, new: ScheduleDefinition, start: int) -> int | None:
    """The first instant of the year from `start` on that only one of them has."""
    end = start + _FURTHER_DAYS * DAY_S
    pairs = itertools.zip_longest(
        occurrences(old.when, start, end), occurrences(new.when, start, end)
    )
    for one, other in pairs:
        if one != other:
            return min(each for each in (one, other) if each is not None)
    return None


def _job_details(old: ScheduleDefinition, new: ScheduleDefinition) -> list[str]:
    if len(old.jobs) != len(new.jobs):
        return [f"jobs: {len(old.jobs)} -> {len(new.jobs)}"]
    details = []
    for index, (one, other) in enumerate(zip(old.jobs, new.jobs, strict=True)):
        place = f"jobs[{index}]." if len(new.jobs) > 1 else ""
        for key in dict.fromkeys([*one, *other]):
            default = "default" if key == "queue" else None
            before, after = one.get(key, default), other.get(key, default)
            if before != after:
                details.append(f"{place}{key}: {_shown(before)} -> {_shown(after)}")
    return details


def _policy_details(old: ScheduleDefinition, new: ScheduleDefinition) -> list[str]:
    return [
        f"{name}: {_shown(getattr(old, name))} -> {_shown(getattr(new, name))}"
        for name in _POLICIES
        if getattr(old, name) != getattr(new, name)
    ]


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value, default=str)


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
