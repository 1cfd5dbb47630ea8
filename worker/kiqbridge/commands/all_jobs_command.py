"""`kiqbridge jobs`: delete, kill, move or retry jobs wherever they wait: in all queues and sets at once.

The number in each place is shown first. Afterwards all places are searched again: a job may have moved meanwhile to a
place that was searched before, as jobs of a paused class do.
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kiqbridge import api, seams
from kiqbridge.commands import arguments, output
from kiqbridge.commands.acting import Advance, Plan, carry_out
from kiqbridge.commands.jobs_command import add_destination, add_filters, filter_of, kill_warning
from kiqbridge.errors import PayloadError
from kiqbridge.wire.amounts import count_text

_HELP: Final = {
    "delete": "delete jobs of all queues and of the retries, scheduled and dead sets",
    "kill": "move jobs of all queues and of the retries and scheduled sets to the dead set",
    "move": "move jobs of all other queues to a queue; those of sets go there when they are due, or retried",
    "retry": "push the retries, the scheduled and the dead jobs to their queues now",
}
_SETS: Final = {
    "delete": (api.RetrySet, api.ScheduledSet, api.DeadSet),
    "kill": (api.RetrySet, api.ScheduledSet),
    "move": (api.RetrySet, api.ScheduledSet, api.DeadSet),
    "retry": (api.RetrySet, api.ScheduledSet, api.DeadSet),
}

PASSES: Final = 3
"""The last one of these should find nothing."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs."""
    verbs = arguments.add_verbs(parser, "")
    for word, text in _HELP.items():
        more = " --to low" if word == "move" else " --save gone.jsonl"
        example = f"kiqbridge jobs {word} --class 'Mail*' --text 4711{more} --dry-run"
        verb = arguments.add_verb(verbs, word, _act, text, example, verb=word)
        arguments.add(verb, "--all", "all jobs")
        saved = "write them into this file before, for kiqbridge restore; NAME.gz is compressed"
        arguments.add(verb, "--save FILE", saved)
        add_filters(verb, "everywhere")
        add_destination(verb, word)
        arguments.add_changing(verb, asks=True)


def _act(options: argparse.Namespace) -> int:
    operator, where = api.open_operator(via="cli"), filter_of(options)
    if bool(where) == options.all:
        raise PayloadError(
            "say which jobs: a filter such as --class or --text, or --all; one of the two"
        )
    file = None if options.save is None else Path(options.save)
    if file is not None and os.path.lexists(file):
        raise PayloadError(f"{file}: it exists; name another file, or remove it")
    places = _places(operator, options)
    counts = {place.target: _count(place, where, options.to) for place in places}
    found = [place for place in places if counts[place.target]]
    total = sum(counts.values())
    if not options.json and total:
        output.write_table(
            ["place", ">jobs"], [[each.target, f"{counts[each.target]:,}"] for each in found]
        )

    def do(advance: Advance) -> api.Applied:
        which = where
        if file is not None:
            which = seams.call("save_jobs", of="transfer")(operator, file, found, where)
        return _apply(operator, options, places, which, advance)

    plan = Plan(
        verb=options.verb,
        target="all",
        noun="job",
        where=where,
        count=total,
        ending=f"{f' to {options.to}' if options.to else ''} in {count_text(len(found), 'place')}",
        warning=_warning(operator, options, places, total),
        more={"places": {target: count for target, count in counts.items() if count}},
    )
    return carry_out(options, plan, do)


def _places(operator: api.Operator, options: argparse.Namespace) -> Sequence[Any]:
    has_queues = options.verb != "retry"
    queues = [each for each in api.Queue.all(operator) if has_queues and each.name != options.to]
    return [*queues, *(each(operator) for each in _SETS[options.verb])]


def _count(place: Any, where: api.Filter, to: str | None) -> int:
    """How many match; a job of a set that goes to that queue already is none."""
    if not where and (to is None or place.is_queue):
        return int(place.size)
    found = place.scan(where, now=time.time())
    return sum(1 for each in found if place.is_queue or each.queue != to)


def _warning(
    operator: api.Operator, options: argparse.Namespace, places: Sequence[Any], total: int
) -> str:
    said = []
    if total > 1 and total >= sum(place.size for place in places):
        said.append("That is every job in these places.")
    if options.verb == "kill":
        said.append(kill_warning(operator, total))
    return " ".join(filter(None, said))


def _apply(
    operator: api.Operator,
    options: argparse.Namespace,
    places: Sequence[Any],
    where: api.Filter,
    advance: Advance,
) -> api.Applied:
    """In several passes, until one finds nothing; what is pushed may fail and come back, and is pushed once."""
    result, refused, reason, looked_in = 0, 0, "", places
    for _ in range(PASSES):
        before, going_on = result, []
        for place in looked_in:
            applied = place.apply_all(
                options.verb,
                where or None,
                to=options.to,
                progress=lambda count, _seen, done=result: advance(done + count),
            )
            result += applied
            refused += applied.refused
            reason = reason or applied.reason
            if not applied.refused:  # else it would refuse the same again
                going_on.append(place)
        looked_in = going_on
        if result == before or options.verb == "retry":
            break
    else:
        _say_left(sum(_count(place, where, options.to) for place in looked_in), "came meanwhile")
    if options.verb != "retry":
        now = time.time()
        held = sum(where.matches(each.job, now) for each in api.fetch_in_flight(operator))
        _say_left(held, "held by workers, which run them or are about to")
    all_of_it = api.Applied(result)
    all_of_it.refused, all_of_it.reason = refused, reason
    return all_of_it


def _say_left(count: int, why: str) -> None:
    if count:
        output.warn(
            f"{count_text(count, 'matching job')} {why}; repeat the command for what is left"
        )
