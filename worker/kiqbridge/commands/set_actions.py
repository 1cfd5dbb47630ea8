"""The verbs of `kiqbridge retries`, `dead` and `scheduled` that act: retry, kill, delete, reschedule, clear."""

import argparse
import time
from collections.abc import Sequence
from typing import Final, cast

from kiqbridge.api import Action, Filter, JobSet, SortedEntry, open_operator
from kiqbridge.commands.acting import Plan, carry_out
from kiqbridge.commands.argument_types import count, duration
from kiqbridge.commands.confirm import add_yes
from kiqbridge.commands.filters import add_filters, filter_of
from kiqbridge.commands.help_text import add_example
from kiqbridge.commands.job_sets import NOUNS, SETS
from kiqbridge.commands.moments import instant_text, moment_of
from kiqbridge.commands.user_input import user_input
from kiqbridge.errors import PayloadError
from kiqbridge.wire.names import printable

_HELP: Final = {
    "retry": "push jobs to their queues now",
    "kill": "move jobs to the dead set",
    "delete": "delete jobs",
    "reschedule": "let jobs be due at another time",
    "clear": "delete all jobs of the set",
}
_VERBS: Final = {
    "retries": ("retry", "kill", "delete", "reschedule", "clear"),
    "dead": ("retry", "delete", "clear"),
    "scheduled": ("retry", "kill", "delete", "reschedule", "clear"),
}


def add_verbs(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", kind: str) -> None:
    """The verbs of one set."""
    for verb in _VERBS[kind]:
        parser = verbs.add_parser(
            verb, help=_HELP[verb], description=f"{_HELP[verb].capitalize()}."
        )
        if verb != "clear":
            add_selection(parser)
        if verb == "reschedule":
            add_moment(parser)
        add_safety(parser)
        parser.set_defaults(command=_act, kind=kind, verb=verb)
        moment = " --in 2h" if verb == "reschedule" else ""
        which = "" if verb == "clear" else " --class 'Mail*' --older-than 1d"
        add_example(parser, f"kiqbridge {kind} {verb}{which}{moment} --dry-run")


def add_selection(parser: argparse.ArgumentParser, *, without: Sequence[str] = ()) -> None:
    """Jids, a filter, or all."""
    parser.add_argument("jids", nargs="*", metavar="JID", help="these jobs; or a filter, or --all")
    parser.add_argument("--all", action="store_true", help="all jobs")
    parser.add_argument("--limit", type=count, metavar="N", help="at most so many")
    add_filters(parser, without=without)


def add_safety(parser: argparse.ArgumentParser) -> None:
    """What every command has that changes something."""
    parser.add_argument("--dry-run", action="store_true", help="only say what would happen")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    add_yes(parser)


def add_moment(parser: argparse.ArgumentParser) -> None:
    """When."""
    when = parser.add_mutually_exclusive_group(required=True)
    when.add_argument("--at", metavar="TIME", help="ISO 8601 with a zone")
    when.add_argument(
        "--in", dest="in_s", type=duration, metavar="DURATION", help="90, 15m, 2h, 1d"
    )


def moment_given(options: argparse.Namespace, now: float) -> float | None:
    """Epoch seconds of `--at` or `--in`; None for a verb that has neither.

    Raises:
        PayloadError: `--at` is no time.
    """
    if getattr(options, "in_s", None) is not None:
        return now + float(options.in_s)
    if getattr(options, "at", None) is None:
        return None
    with user_input():
        return moment_of("--at", options.at).timestamp()


def check_selection(options: argparse.Namespace) -> Filter:
    """The filter, once it is clear what is meant.

    Raises:
        PayloadError: nothing is named, or jids and something else.
    """
    where = filter_of(options)
    if sum((bool(where), bool(options.jids), options.all)) != 1:
        raise PayloadError(
            "say which jobs: JIDs, or a filter such as --class, or --all; one of the three"
        )
    return where


def _act(options: argparse.Namespace) -> int:
    now = time.time()
    jobs = SETS[options.kind](open_operator(via="cli"))
    if options.verb == "clear":
        plan = _plan(options, jobs, Filter(), jobs.size)
        return carry_out(options, plan, lambda _advance: jobs.clear())
    at, where = moment_given(options, now), check_selection(options)
    ending = f" to {instant_text(at)}" if at is not None else ""
    action = cast("Action", options.verb)
    if options.jids:
        entries = _named(jobs, options.jids, now)[: options.limit]
        plan = _plan(options, jobs, where, len(entries), ending)
        return carry_out(options, plan, lambda _advance: jobs.apply(action, entries, at=at))
    total = sum(1 for _ in jobs.scan(where, now=now)) if where else jobs.size
    plan = _plan(options, jobs, where, min(total, options.limit or total), ending)
    return carry_out(
        options,
        plan,
        lambda advance: jobs.apply_all(
            action,
            where or None,
            at=at,
            limit=options.limit,
            progress=lambda done, _looked_at: advance(done),
        ),
    )


def _plan(
    options: argparse.Namespace, jobs: JobSet, where: Filter, total: int, ending: str = ""
) -> Plan:
    return Plan(
        verb=options.verb,
        target=jobs.name,
        noun=NOUNS[options.kind],
        where=where,
        count=total,
        ending=ending,
    )


def _named(jobs: JobSet, jids: Sequence[str], now: float) -> list[SortedEntry]:
    """Those with these jids, in one pass.

    Raises:
        PayloadError: one is not there; nothing is done.
    """
    wanted = set(jids)
    found = [entry for entry in jobs.scan(now=now) if entry.jid in wanted]
    missing = wanted.difference(entry.jid for entry in found)
    if missing:
        shown = ", ".join(printable(jid) for jid in sorted(missing))
        raise PayloadError(f"{shown}: not in {jobs.name}; kiqbridge job JID finds a job anywhere")
    return found
