"""`kiqbridge job`: one job, wherever it is."""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from kiqbridge.api import Filter, Found, QueuedJob, SortedEntry, find_job, open_operator
from kiqbridge.api.job_list import ListedJob
from kiqbridge.commands.acting import REFUSED, Advance, Plan, carry_out
from kiqbridge.commands.arguments import add_changing, add_example, add_json, add_switch
from kiqbridge.commands.job_rows import args_cell, class_cell, job_fields, since_cell
from kiqbridge.commands.jobs_command import add_destination, destination_of
from kiqbridge.commands.output import is_terminal, write_json, write_line
from kiqbridge.errors import PayloadError
from kiqbridge.wire.amounts import instant_text
from kiqbridge.wire.names import printable, text_of

_HELP: Final = {
    "retry": "push it to its queue now",
    "kill": "move it to the dead set",
    "delete": "delete it",
    "move": "move it to another queue; out of a set it is pushed there now",
    "reschedule": "let it be due at another time",
}
_DUE: Final = {"retry": "next try", "schedule": "due", "dead": "died"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs; without one it is `show`."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    parser.default_verb = "show"  # type: ignore[attr-defined] # Parser of cli.py, which imports this
    parser.default_takes_word = True  # type: ignore[attr-defined]
    show = verbs.add_parser(
        "show", help="where it is, its times, arguments and error; the verb may be left out"
    )
    show.add_argument("jid", metavar="JID")
    form = show.add_mutually_exclusive_group()
    add_json(form)
    add_switch(form, "--raw", "its text, as it lies in Redis")
    show.set_defaults(command=_show)
    add_example(
        show,
        "kiqbridge job show b4a577edbccf1d805744efa9",
        "kiqbridge job b4a577edbccf1d805744efa9",
    )
    for verb, text in _HELP.items():
        each = verbs.add_parser(verb, help=text, description=f"{text.capitalize()}.")
        each.add_argument("jid", metavar="JID")
        add_destination(each, verb)
        add_changing(each, asks=True)
        each.set_defaults(command=_act, verb=verb)
        more = {"move": " --to low", "reschedule": " --in 2h"}.get(verb, "")
        add_example(each, f"kiqbridge job {verb} b4a577edbccf1d805744efa9{more} --dry-run")


def _show(options: argparse.Namespace) -> int:
    found = find_job(options.jid, open_operator(via="cli"))
    if options.json:
        write_json({"jid": options.jid, "found": [_fields(each) for each in found]})
    elif not found:
        _say_missing(options.jid)
    elif options.raw:
        _write_raw(found)
    else:
        now = time.time()
        for place, each in enumerate(found):
            if place:
                write_line()
            _print(each, now)
    return 0 if found else REFUSED


def _fields(found: Found) -> dict[str, Any]:
    return {
        "place": found.place,
        "name": found.name,
        **job_fields(found.job),
        "error_backtrace": found.job.error_backtrace,
        "raw": text_of(found.job.text),
    }


def _write_raw(found: Sequence[Found]) -> None:
    for each in found:
        if is_terminal():
            write_line(text_of(each.job.text))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(each.job.text + b"\n")
            sys.stdout.buffer.flush()


def _print(found: Found, now: float) -> None:
    job = found.job
    where = found.place if found.name == found.place else f"{found.place} {found.name}"
    tries = "" if job.retry_count is None else f"{job.retry_count} (0 is the first failure)"
    for title, value in (
        ("jid", job.jid),
        ("class", class_cell(job)),
        ("where", where),
        ("queue", job.queue),
        ("tags", ", ".join(job.tags)),
        ("batch", job.bid or ""),
        ("arguments", args_cell(job.display_args, most=10_000)),
        ("retries", tries),
    ):
        if value:
            write_line(f"{title:<12}{value}")
    for title, at in _timeline(found):
        if at is not None:
            write_line(f"{title:<12}{instant_text(at)}  {since_cell(at, now)}")
    if job.error_class or job.error_message:
        write_line(f"{'error':<12}{job.error_class}: {job.error_message}")
    for line in job.error_backtrace:
        write_line(f"{'':<12}{line}")
    if not job.is_readable:
        write_line("Its text is no JSON object, or longer than 1 MB; --raw shows it.")


def _timeline(found: Found) -> Sequence[tuple[str, float | None]]:
    job = found.job
    due = ((_DUE[found.place], job.at),) if isinstance(job, SortedEntry) else ()
    return (
        ("created", job.created_at),
        ("enqueued", job.enqueued_at),
        ("failed", job.failed_at),
        ("failed again", job.retried_at),
        *due,
    )


def _act(options: argparse.Namespace) -> int:
    operator = open_operator(via="cli")
    at, to = destination_of(options)
    found = find_job(options.jid, operator)
    if not found:
        _say_missing(options.jid)
        return REFUSED
    held = [(each, each.job) for each in found if isinstance(each.job, ListedJob)]
    if not held:
        raise PayloadError(
            f"{printable(options.jid)}: it runs at this moment ({printable(found[0].name)}), so that nothing can be "
            "done to it; kiqbridge stop ends its process, which gives it back to its queue"
        )
    entry, job = held[0]
    if options.verb in {"retry", "reschedule"} and isinstance(job, QueuedJob):
        raise PayloadError(
            f"{printable(options.jid)}: it waits in queue {printable(entry.name)} already, and needs no {options.verb}"
        )
    plan = Plan(
        verb=options.verb,
        target=f"queue:{entry.name}" if entry.place == "queue" else entry.name,
        noun="job",
        where=Filter(),
        count=1,
        ending=(f" to queue {to}" if to else f" to {instant_text(at)}" if at is not None else "")
        + f" ({class_cell(job)} {job.jid}, in {entry.place} {entry.name})",
    )

    def act(_advance: Advance) -> int:
        if options.verb == "move" and isinstance(job, SortedEntry):
            return int(job.requeue(queue=to) is not None)
        return job.parent.apply(options.verb, [job], at=at, to=to)

    return carry_out(options, plan, act)


def _say_missing(jid: str) -> None:
    sys.stderr.write(
        f"kiqbridge: {printable(jid)}: no such job in any queue or set, and none runs; it was performed, "
        "or deleted\n"
    )
