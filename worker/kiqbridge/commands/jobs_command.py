"""`kiqbridge retries`, `dead`, `scheduled`, and the verbs of `queue` for jobs: look at jobs, and act on them.

Retries failed and are due again, dead jobs have used up their retries, scheduled jobs are due later.
"""

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from kiqbridge import api
from kiqbridge.api.actions import Moment
from kiqbridge.api.waits import why_queue_waits
from kiqbridge.commands import arguments, output
from kiqbridge.commands.acting import Advance, Plan, carry_out, write_paused_classes
from kiqbridge.errors import PayloadError
from kiqbridge.wire.amounts import count_text, instant_text, oldest_text, took_text
from kiqbridge.wire.names import printable

LIMIT: Final = 25
_AT_ONCE: Final = 100


class _Kind(NamedTuple):
    """What a command says of its jobs: its set, what one of them is called, what its score is, its verbs."""

    jobs: type[api.JobSet] | None
    noun: str
    time: str
    verbs: str


_KINDS: Final = {
    "retries": _Kind(api.RetrySet, "retry", "next try", "retry kill delete move reschedule clear"),
    "dead": _Kind(api.DeadSet, "dead job", "died", "retry delete move clear"),
    "scheduled": _Kind(
        api.ScheduledSet, "scheduled job", "due", "retry kill delete move reschedule clear"
    ),
    "queue": _Kind(None, "waiting job", "enqueued", "delete kill move clear"),
}
_HELP: Final = {
    "retry": "push jobs to their queues now",
    "kill": "move jobs to the dead set",
    "delete": "delete jobs",
    "reschedule": "change the time at which jobs are due",
    "move": "move jobs to another queue, behind what waits there; jobs of a set keep their time",
    "clear": "delete all jobs; of a queue also its name from the list of queues",
}
ONE_INSTANT: Final = "All of them are due at one instant then; --spread 30m distributes them, --by 2h keeps their distances."

MORE: Final = {"move": " --to low", "reschedule": " --in 2h"}
"""What the examples of some verbs have besides."""

_FILTERS: Final = {
    "job_class": ("--class GLOB", "class of the job, such as 'Billing::*'"),
    "error_class": ("--error-class GLOB", "class of the last error"),
    "error": ("--error TEXT", "part of the last error's message"),
    "queue": ("--queue GLOB", "queue of the job"),
    "tag": ("--tag TAG", "one of its tags"),
    "arg": ("--arg TEXT", "part of one of its arguments"),
    "text": ("--text TEXT", "part of the job's JSON, as it lies in Redis"),
    "older_than_s": (
        "--older-than DURATION",
        "it failed, or was enqueued, longer ago: 90, 15m, 2h, 1d",
    ),
    "newer_than_s": ("--newer-than DURATION", "it failed, or was enqueued, since then"),
    "due_after": ("--due-after TIME", "it is due then or later: ISO 8601 with a zone"),
    "due_before": ("--due-before TIME", "it is due before that"),
}
"""Attribute of a filter → its option, and the help of that."""
_DUE: Final = ("due_after", "due_before")
_LEFT_OUT: Final = {"queue": ("queue", *_DUE), "dead": _DUE}
"""Kind → attributes of a filter that say nothing of its jobs."""


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """The verbs of a set; without one it is `list`."""
    verbs = arguments.add_verbs(parser, "list")
    _add_listing(
        verbs,
        "list",
        kind,
        "the jobs of this set; the verb may be left out",
        f"kiqbridge {kind} list --class 'Mail*' --older-than 2h --limit 5",
        f"kiqbridge {kind}",
    )
    _add_acting(verbs, kind)


def add_queue_verbs(verbs: "arguments.Verbs[Any]") -> None:
    """The verbs of a queue for its jobs; each takes the name of the queue first."""
    text = "the jobs of a queue, the next to be taken first"
    _add_listing(verbs, "show", "queue", text, "kiqbridge queue show default --limit 10")
    _add_acting(verbs, "queue")


def _add_listing(
    verbs: "arguments.Verbs[Any]", name: str, kind: str, text: str, *examples: str
) -> None:
    verb = arguments.add_verb(verbs, name, _show, text, *examples, kind=kind)
    if kind == "queue":
        arguments.add(verb, "NAME")
    add_filters(verb, kind)
    arguments.add_listing(verb, LIMIT, "for sets of any size")


def _add_acting(verbs: "arguments.Verbs[Any]", kind: str) -> None:
    name = " default" if kind == "queue" else ""
    for word in _KINDS[kind].verbs.split():
        which = "" if word == "clear" else " --class 'Mail*' --older-than 1d"
        example = f"kiqbridge {kind} {word}{name}{which}{MORE.get(word, '')} --dry-run"
        verb = arguments.add_verb(verbs, word, _act, _HELP[word], example, kind=kind, verb=word)
        if kind == "queue":
            arguments.add(verb, "NAME")
        if word != "clear":
            arguments.add(verb, "[JID...]", "these jobs; or a filter, or --all", dest="jids")
            arguments.add(verb, "--all", "all jobs")
            arguments.add(verb, "--limit N", "at most so many")
            add_filters(verb, kind)
        add_destination(verb, word)
        arguments.add_changing(verb, asks=True)


def add_filters(parser: argparse.ArgumentParser, kind: str) -> None:
    """Which jobs of this kind."""
    group = parser.add_argument_group("which jobs", "All that is given must apply.")
    for name, (words, text) in _FILTERS.items():
        if name in _LEFT_OUT.get(kind, ()):
            continue
        default = None if name.endswith("_s") or name.startswith("due_") else ""
        arguments.add(group, words, text, dest=name, default=default)


def add_destination(parser: argparse.ArgumentParser, verb: str) -> None:
    """Where to, of `move`; when, of `reschedule`; nothing, of other verbs."""
    if verb == "move":
        arguments.add(parser, "--to QUEUE", "the other queue", required=True)
    if verb == "reschedule":
        when = parser.add_mutually_exclusive_group(required=True)
        arguments.add(when, "--at TIME", "ISO 8601 with a zone")
        arguments.add(when, "--in DURATION", "90, 15m, 2h, 1d")
        when.add_argument(
            "--by",
            metavar="DURATION",
            type=_shift,
            help="so much later than it is due now, or, as in --by=-2h, earlier",
        )
        text = "each at a time of its own within so long after --at or --in"
        arguments.add(parser, "--spread DURATION", text)
    parser.set_defaults(at=None, in_=None, to=None, by=None, spread=None)


def _shift(text: str) -> float:
    seconds = arguments.duration(text.removeprefix("-"))
    return -seconds if text.startswith("-") else seconds


class Destination(NamedTuple):
    """Where jobs go, or when.

    Attributes:
        at: epoch seconds, or a function of a job; None: it is about no time.
        to: the queue, or None.
        text: what a sentence says of it, such as ` to mail`.
        is_instant: all are due at one and the same time.
    """

    at: Moment | None = None
    to: str | None = None
    text: str = ""
    is_instant: bool = False


def destination_of(options: argparse.Namespace) -> Destination:
    """What `add_destination` asked for.

    Raises:
        PayloadError: --spread with --by, which keeps the distances of the jobs.
    """
    by, spread = options.by, options.spread
    if by is not None:
        if spread is not None:
            raise PayloadError(
                "--spread: jobs that are moved --by keep their distances; leave it out"
            )
        text = f" by {'-' if by < 0 else ''}{took_text(abs(by))}"
        return Destination(lambda job: (job.place or 0.0) + by, text=text)
    if options.in_ is not None:
        at = time.time() + float(options.in_)
    elif options.at is not None:
        at = options.at.timestamp()
    else:
        return Destination(to=options.to, text=f" to {options.to}" if options.to else "")
    text = f" to {instant_text(at)}"
    if spread is None:
        return Destination(at, text=text, is_instant=True)
    return Destination(
        lambda _job: at + random.uniform(0, spread),  # noqa: S311 - to come one after the other
        text=f"{text} and up to {took_text(spread)} later",
    )


def filter_of(options: argparse.Namespace) -> api.Filter:
    """What `add_filters` asked for."""
    given = {name: getattr(options, name) for name in _FILTERS if hasattr(options, name)}
    for name in _DUE:
        if given.get(name) is not None:
            given[name] = given[name].timestamp()
    return api.Filter(**given)


def kill_warning(operator: api.Operator, count: int) -> str:
    """What the dead set would drop if so many more jobs were killed, a sentence; nothing if it keeps all."""
    dead = api.DeadSet(operator)
    bounds, size = dead.bounds, dead.size
    dropped = bounds.overflow(size + count) - bounds.overflow(size)
    if not dropped:
        return ""
    return (
        f"The dead set keeps {bounds.most:,} jobs and has {size:,}: the oldest {dropped:,} of them and of these would be "
        "dropped; kiqbridge jobs delete --save FILE keeps them in a file."
    )


def _jobs_of(options: argparse.Namespace) -> "api.JobSet | api.Queue":
    operator, jobs = api.open_operator(via="cli"), _KINDS[options.kind].jobs
    return api.Queue(options.name, operator) if jobs is None else jobs(operator)


def _show(options: argparse.Namespace) -> int:
    jobs, where, now = _jobs_of(options), filter_of(options), time.time()
    if options.jsonl and isinstance(
        jobs, api.JobSet
    ):  # in no order: it reads 1,000,000 in less time
        matching: Iterator[Any] = jobs.scan(where, now=now)
    else:
        matching = (job for job in _in_order(jobs) if where.matches(job, now))
    rows = output.listed(options, matching, output.job_fields, LIMIT)
    if options.jsonl:
        return 0
    total = jobs.size
    if options.json:
        about = _about_queue(jobs, total) if isinstance(jobs, api.Queue) else {"total": total}
        output.write_json({**about, "jobs": [output.job_fields(job) for job in rows]})
        return 0
    if isinstance(jobs, api.Queue):
        _write_head(jobs, total)
    elif not rows:
        which = f" that matches {where}" if where else ""
        output.write_line(
            f"There is no {_KINDS[options.kind].noun}{which}; the set has {total:,} members."
        )
    if rows:
        _write_rows(rows, options.kind)
    elif where and total and isinstance(jobs, api.Queue):
        output.write_line(f"None that match {where}.")
    if where and len(rows) >= LIMIT:
        output.write_line(f"the first {len(rows):,} that match {where}; --limit shows more")
    elif not where and 0 < len(rows) < total:
        output.write_line(f"{len(rows):,} of {total:,}; --limit shows more")
    return 0


def _in_order(jobs: "api.JobSet | api.Queue") -> "Iterator[api.SortedEntry | api.QueuedJob]":
    """As people expect to see them: the next to be taken, the soonest due or the last to die first."""
    more = {"oldest_first": True} if isinstance(jobs, api.Queue) else {}
    number = 1
    while rows := jobs.page(number, _AT_ONCE, **more).rows:
        yield from rows
        number += 1


def _about_queue(queue: api.Queue, total: int) -> dict[str, Any]:
    latency = round(queue.latency, 3)
    return {"name": queue.name, "size": total, "latency": latency, "paused": queue.paused}


def _write_head(queue: api.Queue, total: int) -> None:
    wait = why_queue_waits(queue.name, queue.operator, time.time())
    oldest = f", {oldest_text(queue.latency)}" if total else ""
    output.write_line(f"{queue.name}: {count_text(total, 'job')} waiting{oldest}")
    if wait is not None and (total or wait.kind == "paused queue"):
        until = "" if wait.until is None else f", until {instant_text(wait.until)}"
        output.write_line(f"{wait.text[0].upper()}{wait.text[1:]}{until}.")
    if not total:  # jobs of a paused class are put off
        write_paused_classes(queue.operator)
    if total:
        output.write_line()


def _write_rows(jobs: "Sequence[api.SortedEntry | api.QueuedJob]", kind: str) -> None:
    now = time.time()
    titles = [f"!{_KINDS[kind].time}", "!jid", "queue", "class", "arguments", ">retry", "error"]
    # Those of a queue are all in it, and only what has failed has an error.
    left_out = {"queue": (2, 5, 6), "scheduled": (5, 6)}.get(kind, ())
    kept = [place for place in range(len(titles)) if place not in left_out]
    rows = []
    for job in jobs:
        enqueued_at = job.created_at if job.enqueued_at is None else job.enqueued_at
        at = job.at if isinstance(job, api.SortedEntry) else enqueued_at
        row = [output.since_cell(at, now), job.jid or "-", job.queue, output.class_cell(job)]
        tries = "-" if job.retry_count is None else str(job.retry_count)
        row += [output.args_cell(job.display_args), tries, output.error_cell(job)]
        rows.append([row[place] for place in kept])
    output.write_table([titles[place] for place in kept], rows)
    if kind != "dead":
        write_paused_classes(jobs[0].parent.operator, {job.own_class for job in jobs})


def _act(options: argparse.Namespace) -> int:
    jobs: Any = _jobs_of(options)
    is_all = options.verb == "clear"
    where = api.Filter() if is_all else _selection_of(options)
    at, to, goal, is_instant = destination_of(options)
    if isinstance(jobs, api.Queue):
        goal += f" {'from' if to else 'of'} queue {jobs.name}"
    named = [] if is_all else _named(jobs, options.jids)[: options.limit]
    if named:
        total = len(named)
    else:
        total = sum(1 for _ in jobs.scan(where, now=time.time())) if where else jobs.size
        total = total if is_all else min(total, options.limit or total)

    def do(advance: Advance) -> int:
        if is_all:
            return int(jobs.clear())
        done: api.Applied
        if named:
            done = jobs.apply(options.verb, named, at=at, to=to)
        else:
            more = {"at": at, "to": to, "limit": options.limit}
            more["progress"] = lambda done, _looked_at: advance(done)
            done = jobs.apply_all(options.verb, where or None, **more)
        return done

    plan = Plan(
        verb=options.verb,
        target=jobs.target,
        noun=_KINDS[options.kind].noun,
        where=where,
        count=total,
        ending=goal,
        warning=_warning(jobs, options.verb, total, is_instant=is_instant),
    )
    return carry_out(options, plan, do)


def _warning(jobs: Any, verb: str, total: int, *, is_instant: bool) -> str:
    if is_instant and total > 1:
        return ONE_INSTANT
    return kill_warning(jobs.operator, total) if verb == "kill" else ""


def _selection_of(options: argparse.Namespace) -> api.Filter:
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


def _named(jobs: "api.JobSet | api.Queue", jids: Sequence[str]) -> list[Any]:
    """Those with these jids, in one pass.

    Raises:
        PayloadError: one is not there; nothing is done.
    """
    if not jids:
        return []
    wanted = set(jids)
    found = [job for job in jobs.scan(now=time.time()) if job.jid in wanted]
    missing = wanted.difference(job.jid for job in found)
    if missing:
        shown = ", ".join(printable(jid) for jid in sorted(missing))
        where = f"queue {printable(jobs.name)}" if isinstance(jobs, api.Queue) else jobs.name
        raise PayloadError(f"{shown}: not in {where}; kiqbridge job JID finds a job anywhere")
    return found
