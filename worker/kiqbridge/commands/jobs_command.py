"""`kiqbridge retries`, `dead` and `scheduled`, and the verbs of `queue` for jobs: looking at them, and acting on them."""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from kiqbridge.api import (
    DeadSet,
    Filter,
    JobSet,
    Queue,
    QueuedJob,
    RetrySet,
    ScheduledSet,
    SortedEntry,
    open_operator,
)
from kiqbridge.commands.acting import Plan, carry_out
from kiqbridge.commands.arguments import (
    add_changing,
    add_example,
    add_option,
    add_switch,
    count,
    duration,
    user_input,
)
from kiqbridge.commands.job_rows import args_cell, class_cell, error_cell, job_fields, since_cell
from kiqbridge.commands.moments import moment_of
from kiqbridge.commands.output import (
    write_json,
    write_line,
    write_table,
)
from kiqbridge.errors import PayloadError
from kiqbridge.wire.amounts import count_text, instant_text, oldest_text
from kiqbridge.wire.names import printable

LIMIT: Final = 25
_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a command says of its jobs: its set, what one of them is called, what its score is, its verbs."""

    jobs: type[JobSet] | None
    noun: str
    time: str
    verbs: Sequence[str]


_KINDS: Final = {
    "retries": _Kind(
        RetrySet, "retry", "next try", ("retry", "kill", "delete", "reschedule", "clear")
    ),
    "dead": _Kind(DeadSet, "dead job", "died", ("retry", "delete", "clear")),
    "scheduled": _Kind(
        ScheduledSet, "scheduled job", "due", ("retry", "kill", "delete", "reschedule", "clear")
    ),
    "queue": _Kind(None, "waiting job", "enqueued", ("delete", "kill", "move", "clear")),
}
_HELP: Final = {
    "retry": "push jobs to their queues now",
    "kill": "move jobs to the dead set",
    "delete": "delete jobs",
    "reschedule": "let jobs be due at another time",
    "move": "move jobs to another queue, behind what waits there",
    "clear": "delete all jobs; of a queue also its name from the list of queues",
}
_MORE: Final = {"move": " --to low", "reschedule": " --in 2h"}
"""What the examples of some verbs have besides."""

_FILTERS: Final = (
    ("--class", "job_class", "GLOB", "class of the job, such as 'Billing::*'"),
    ("--error-class", "error_class", "GLOB", "class of the last error"),
    ("--error", "error", "TEXT", "part of the last error's message"),
    ("--queue", "queue", "GLOB", "queue of the job"),
    ("--tag", "tag", "TAG", "one of its tags"),
    ("--arg", "arg", "TEXT", "part of one of its arguments"),
    ("--text", "text", "TEXT", "part of the job's JSON, as it lies in Redis"),
)


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """The verbs of a set; without one it is `list`."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    parser.default_verb = "list"  # type: ignore[attr-defined] # Parser of cli.py, which imports this
    listing = verbs.add_parser("list", help="the jobs of this set; the verb may be left out")
    _add_listing(listing, kind)
    example = f"kiqbridge {kind} list --class 'Mail*' --older-than 2h --limit 5"
    add_example(listing, example, f"kiqbridge {kind}")
    _add_acting(verbs, kind)


def add_queue_verbs(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verbs of a queue for its jobs; each takes the name of the queue first."""
    show = verbs.add_parser("show", help="the jobs of a queue, the next to be taken first")
    show.add_argument("name", metavar="NAME")
    _add_listing(show, "queue")
    add_example(show, "kiqbridge queue show default --limit 10")
    _add_acting(verbs, "queue")


def _add_listing(parser: argparse.ArgumentParser, kind: str) -> None:
    _add_filters(parser, kind)
    text = f"at most so many (default {LIMIT}; --jsonl: all)"
    add_option(parser, "--limit", "N", text, type=count)
    form = parser.add_mutually_exclusive_group()
    add_switch(form, "--json", "one JSON document")
    add_switch(form, "--jsonl", "a JSON document a line, for sets of any size")
    parser.set_defaults(command=_show, kind=kind)


def _add_acting(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", kind: str) -> None:
    for verb in _KINDS[kind].verbs:
        text = _HELP[verb]
        parser = verbs.add_parser(verb, help=text, description=f"{text.capitalize()}.")
        name, which = "", ""
        if kind == "queue":
            parser.add_argument("name", metavar="NAME")
            name = " default"
        if verb != "clear":
            add_option(parser, "jids", "JID", "these jobs; or a filter, or --all", nargs="*")
            add_switch(parser, "--all", "all jobs")
            add_option(parser, "--limit", "N", "at most so many", type=count)
            _add_filters(parser, kind)
            which = " --class 'Mail*' --older-than 1d"
        add_destination(parser, verb)
        add_changing(parser, asks=True)
        parser.set_defaults(command=_act, kind=kind, verb=verb)
        line = f"kiqbridge {kind} {verb}{name}{which}{_MORE.get(verb, '')} --dry-run"
        add_example(parser, line)


def _add_filters(parser: argparse.ArgumentParser, kind: str) -> None:
    group = parser.add_argument_group("which jobs", "All that is given must apply.")
    for flag, name, metavar, text in _FILTERS:
        if (kind, name) != ("queue", "queue"):
            add_option(group, flag, metavar, text, dest=name, default="")
    for flag, name, text in (
        ("--older-than", "older_than_s", "it failed, or was enqueued, longer ago: 90, 15m, 2h, 1d"),
        ("--newer-than", "newer_than_s", "it failed, or was enqueued, since then"),
    ):
        add_option(group, flag, "DURATION", text, dest=name, type=duration)


def add_destination(parser: argparse.ArgumentParser, verb: str) -> None:
    """Where to, of `move`; when, of `reschedule`; nothing, of other verbs."""
    if verb == "move":
        add_option(parser, "--to", "QUEUE", "the other queue", required=True)
    if verb == "reschedule":
        when = parser.add_mutually_exclusive_group(required=True)
        add_option(when, "--at", "TIME", "ISO 8601 with a zone")
        add_option(when, "--in", "DURATION", "90, 15m, 2h, 1d", dest="in_s", type=duration)
    parser.set_defaults(at=None, in_s=None, to=None)


def destination_of(options: argparse.Namespace) -> tuple[float | None, str | None]:
    """The epoch seconds and the queue that `add_destination` asked for, None what it did not.

    Raises:
        PayloadError: `--at` is no time.
    """
    if options.in_s is not None:
        return time.time() + float(options.in_s), options.to
    with user_input():
        at = None if options.at is None else moment_of("--at", options.at).timestamp()
    return at, options.to


def _filter_of(options: argparse.Namespace) -> Filter:
    given = vars(options)
    names = [name for _, name, _, _ in _FILTERS] + ["older_than_s", "newer_than_s"]
    return Filter(**{name: given[name] for name in names if name in given})


def _jobs_of(options: argparse.Namespace) -> "JobSet | Queue":
    operator, jobs = open_operator(via="cli"), _KINDS[options.kind].jobs
    return Queue(options.name, operator) if jobs is None else jobs(operator)


def _show(options: argparse.Namespace) -> int:
    jobs, where, now = _jobs_of(options), _filter_of(options), time.time()
    limit = options.limit or (None if options.jsonl else LIMIT)
    if options.jsonl and isinstance(jobs, JobSet):  # in no order: it reads 1,000,000 in less time
        matching: Iterator[Any] = jobs.scan(where, now=now)
    else:
        matching = (job for job in _in_order(jobs) if where.matches(job, now))
    found = islice(matching, limit)
    if options.jsonl:
        for job in found:
            write_json(job_fields(job))
        return 0
    rows, total = list(found), jobs.size
    if options.json:
        about = _about_queue(jobs, total) if isinstance(jobs, Queue) else {"total": total}
        write_json({**about, "jobs": [job_fields(job) for job in rows]})
        return 0
    _print(jobs, rows, where, options.kind, total)
    return 0


def _print(
    jobs: "JobSet | Queue",
    rows: "Sequence[SortedEntry | QueuedJob]",
    where: Filter,
    kind: str,
    total: int,
) -> None:
    if isinstance(jobs, Queue):
        _write_head(jobs, total)
    elif not rows:
        which = f" that matches {where}" if where else ""
        write_line(f"There is no {_KINDS[kind].noun}{which}; the set has {total:,} members.")
    if rows:
        _write_rows(rows, kind)
    elif where and total and isinstance(jobs, Queue):
        write_line(f"None that match {where}.")
    if where and len(rows) >= LIMIT:
        write_line(f"the first {len(rows):,} that match {where}; --limit shows more")
    elif not where and 0 < len(rows) < total:
        write_line(f"{len(rows):,} of {total:,}; --limit shows more")


def _in_order(jobs: "JobSet | Queue") -> "Iterator[SortedEntry | QueuedJob]":
    """As people expect to see them: the next to be taken, the soonest due or the last to die first."""
    more = {"oldest_first": True} if isinstance(jobs, Queue) else {}
    number = 1
    while rows := jobs.page(number, _AT_ONCE, **more).rows:
        yield from rows
        number += 1


def _about_queue(queue: Queue, total: int) -> dict[str, Any]:
    return {
        "name": queue.name,
        "size": total,
        "latency": round(queue.latency, 3),
        "paused": queue.paused,
    }


def _write_head(queue: Queue, total: int) -> None:
    pause = queue.pause
    held = f"; paused{f' by {pause.by}' if pause.by else ''}" if pause else ""
    oldest = f", {oldest_text(queue.latency)}" if total else ""
    write_line(f"{queue.name}: {count_text(total, 'job')} waiting{oldest}{held}")
    if total:
        write_line()


def _write_rows(jobs: "Sequence[SortedEntry | QueuedJob]", kind: str) -> None:
    now = time.time()
    columns: list[str] = [_KINDS[kind].time, "!jid", "class"]
    columns.append("~arguments")
    if kind != "queue":
        columns.insert(2, "queue")
    if kind in ("retries", "dead"):
        columns += [">retry", "~error"]
    rows = []
    for job in jobs:
        enqueued_at = job.created_at if job.enqueued_at is None else job.enqueued_at
        at = job.at if isinstance(job, SortedEntry) else enqueued_at
        row = [since_cell(at, now), job.jid or "-", class_cell(job), args_cell(job.display_args)]
        if kind != "queue":
            row.insert(2, job.queue)
        if kind in ("retries", "dead"):
            tries = "-" if job.retry_count is None else str(job.retry_count)
            row += [tries, error_cell(job)]
        rows.append(row)
    write_table([*columns], rows)


def _act(options: argparse.Namespace) -> int:
    jobs: Any = _jobs_of(options)
    is_all = options.verb == "clear"
    where = Filter() if is_all else _selection_of(options)
    at, to = destination_of(options)
    goal = f" to {to}" if to else "" if at is None else f" to {instant_text(at)}"
    if isinstance(jobs, Queue):
        goal += f" {'from' if to else 'of'} queue {jobs.name}"

    def plan(total: int) -> Plan:
        return Plan(
            verb=options.verb,
            target=jobs.target,
            noun=_KINDS[options.kind].noun,
            where=where,
            count=total,
            ending=goal,
        )

    if is_all:
        return carry_out(options, plan(jobs.size), lambda _advance: jobs.clear())
    if options.jids:
        named = _named(jobs, options.jids)[: options.limit]
        return carry_out(
            options,
            plan(len(named)),
            lambda _advance: jobs.apply(options.verb, named, at=at, to=to),
        )
    total = sum(1 for _ in jobs.scan(where, now=time.time())) if where else jobs.size
    return carry_out(
        options,
        plan(min(total, options.limit or total)),
        lambda advance: jobs.apply_all(
            options.verb,
            where or None,
            at=at,
            to=to,
            limit=options.limit,
            progress=lambda done, _looked_at: advance(done),
        ),
    )


def _selection_of(options: argparse.Namespace) -> Filter:
    """The filter, once it is clear what is meant.

    Raises:
        PayloadError: nothing is named, or jids and something else.
    """
    where = _filter_of(options)
    if sum((bool(where), bool(options.jids), options.all)) != 1:
        raise PayloadError(
            "say which jobs: JIDs, or a filter such as --class, or --all; one of the three"
        )
    return where


def _named(jobs: "JobSet | Queue", jids: Sequence[str]) -> list[Any]:
    """Those with these jids, in one pass.

    Raises:
        PayloadError: one is not there; nothing is done.
    """
    wanted = set(jids)
    found = [job for job in jobs.scan(now=time.time()) if job.jid in wanted]
    missing = wanted.difference(job.jid for job in found)
    if missing:
        shown = ", ".join(printable(jid) for jid in sorted(missing))
        where = f"queue {printable(jobs.name)}" if isinstance(jobs, Queue) else jobs.name
        raise PayloadError(f"{shown}: not in {where}; kiqbridge job JID finds a job anywhere")
    return found
