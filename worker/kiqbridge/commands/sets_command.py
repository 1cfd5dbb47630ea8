"""`kiqbridge retries`, `dead` and `scheduled`: look at the jobs of a set; set_actions.py acts on them."""

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from kiqbridge.api import Filter, JobSet, SortedEntry, open_operator
from kiqbridge.commands.argument_types import count
from kiqbridge.commands.filters import add_filters, filter_of, that_match
from kiqbridge.commands.help_text import add_example
from kiqbridge.commands.job_rows import (
    args_cell,
    class_cell,
    error_cell,
    job_fields,
    since_cell,
)
from kiqbridge.commands.job_sets import NOUNS, SETS
from kiqbridge.commands.output import (
    Column,
    columns_of,
    kept_column,
    number_column,
    wide_column,
    write_json,
    write_line,
    write_table,
)
from kiqbridge.commands.set_actions import add_verbs

LIMIT: Final = 25


def add_arguments(parser: argparse.ArgumentParser, kind: str) -> None:
    """The verbs; without one it is `list`."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    parser.default_verb = "list"  # type: ignore[attr-defined] # Parser of cli.py, which imports this
    listing = verbs.add_parser("list", help="the jobs of this set; the verb may be left out")
    add_filters(listing)
    add_listing(listing)
    listing.set_defaults(command=_list, kind=kind)
    add_verbs(verbs, kind)
    add_example(
        listing,
        f"kiqbridge {kind} list --class 'Mail*' --older-than 2h --limit 5",
        f"kiqbridge {kind}",
    )


def add_listing(parser: argparse.ArgumentParser) -> None:
    """How many are shown, and as what."""
    parser.add_argument(
        "--limit", type=count, metavar="N", help=f"at most so many (default {LIMIT}; --jsonl: all)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document")
    form.add_argument(
        "--jsonl", action="store_true", help="a JSON document a line, for sets of any size"
    )


def _list(options: argparse.Namespace) -> int:
    operator, now = open_operator(via="cli"), time.time()
    jobs = SETS[options.kind](operator)
    where = filter_of(options)
    limit = options.limit or (None if options.jsonl else LIMIT)
    found = islice(entries_of(jobs, where, now, in_order=not options.jsonl), limit)
    if options.jsonl:
        for entry in found:
            write_json(job_fields(entry))
        return 0
    entries, total = list(found), jobs.size
    if options.json:
        write_json({"total": total, "jobs": [job_fields(entry) for entry in entries]})
        return 0
    _print(jobs, options.kind, entries, where, now)
    return 0


def entries_of(jobs: JobSet, where: Filter, now: float, *, in_order: bool) -> Iterable[SortedEntry]:
    """Those that match: as people expect to see them, or in no order, which reads 1,000,000 in less time."""
    if not in_order:
        return jobs.scan(where, now=now)
    return (entry for entry in in_order_of(jobs) if where.matches(entry, now))


def in_order_of(jobs: JobSet) -> Iterator[SortedEntry]:
    """The soonest due first, or the last to die first."""
    if jobs.newest_first:
        yield from jobs
        return
    number = 1
    while rows := jobs.page(number, 100).rows:
        yield from rows
        number += 1


def _print(
    jobs: JobSet, kind: str, entries: Sequence[SortedEntry], where: Filter, now: float
) -> None:
    total = jobs.size
    if not entries:
        which = f" that matches {where}" if where else ""
        write_line(f"There is no {NOUNS[kind]}{which}; the set has {total:,} members.")
        return
    write_table(
        _columns(kind),
        [_row(kind, entry, now) for entry in entries],
    )
    if not where and len(entries) < total:
        write_line(f"{len(entries):,} of {total:,}; --limit shows more")
    elif where and len(entries) >= LIMIT:
        write_line(f"the first {len(entries):,}{that_match(where)}; --limit shows more")


def _columns(kind: str) -> Sequence[Column]:
    first = {"retries": "next try", "dead": "died", "scheduled": "due"}[kind]
    error = () if kind == "scheduled" else (number_column("retry"), wide_column("error"))
    return columns_of(first, kept_column("jid"), "queue", "class", wide_column("arguments"), *error)


def _row(kind: str, entry: SortedEntry, now: float) -> Sequence[str]:
    tries = "-" if entry.retry_count is None else str(entry.retry_count)
    error = () if kind == "scheduled" else (tries, error_cell(entry))
    return (
        since_cell(entry.at, now),
        entry.jid or "-",
        entry.queue,
        class_cell(entry),
        args_cell(entry.display_args),
        *error,
    )
