"""`kiqbridge queue show`: the jobs that wait in a queue; queue_actions.py acts on them."""

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from kiqbridge.api import Filter, Queue, QueuedJob, open_operator
from kiqbridge.commands import queue_actions
from kiqbridge.commands.filters import add_filters, filter_of, that_match
from kiqbridge.commands.help_text import add_example
from kiqbridge.commands.job_rows import args_cell, class_cell, job_fields, since_cell
from kiqbridge.commands.moments import count_text, oldest_text
from kiqbridge.commands.output import (
    columns_of,
    kept_column,
    wide_column,
    write_json,
    write_line,
    write_table,
)
from kiqbridge.commands.sets_command import LIMIT, add_listing


def add_verbs(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verbs that look at jobs, or act on them."""
    show = verbs.add_parser("show", help="the jobs of a queue, the next to be taken first")
    show.add_argument("name", metavar="NAME")
    add_filters(show, without=["queue"])
    add_listing(show)
    show.set_defaults(command=_show)
    add_example(show, "kiqbridge queue show default --limit 10")
    queue_actions.add_verbs(verbs)


def _show(options: argparse.Namespace) -> int:
    queue, now = Queue(options.name, open_operator(via="cli")), time.time()
    where = filter_of(options)
    limit = options.limit or (None if options.jsonl else LIMIT)
    found = islice(jobs_of(queue, where, now), limit)
    if options.jsonl:
        for job in found:
            write_json(job_fields(job))
        return 0
    jobs, total, pause = list(found), queue.size, queue.pause
    if options.json:
        write_json(
            {
                "name": queue.name,
                "size": total,
                "latency": round(queue.latency, 3),
                "paused": pause is not None,
                "jobs": [job_fields(job) for job in jobs],
            }
        )
        return 0
    held = f"; paused{f' by {pause.by}' if pause.by else ''}" if pause else ""
    oldest = f", {oldest_text(queue.latency)}" if total else ""
    write_line(f"{queue.name}: {count_text(total, 'job')} waiting{oldest}{held}")
    _print(jobs, where, total, now)
    return 0


def jobs_of(queue: Queue, where: Filter, now: float) -> Iterable[QueuedJob]:
    """Those that match, the next to be taken first."""
    return (job for job in _in_order(queue) if where.matches(job, now))


def _in_order(queue: Queue) -> Iterator[QueuedJob]:
    number = 1
    while rows := queue.page(number, 100, oldest_first=True).rows:
        yield from rows
        number += 1


def _print(jobs: Sequence[QueuedJob], where: Filter, total: int, now: float) -> None:
    if not jobs:
        if where and total:
            write_line(f"None{that_match(where)}.")
        return
    write_line()
    write_table(
        columns_of("enqueued", kept_column("jid"), "class", wide_column("arguments")),
        [
            (
                since_cell(job.enqueued_at if job.enqueued_at is not None else job.created_at, now),
                job.jid or "-",
                class_cell(job),
                args_cell(job.display_args),
            )
            for job in jobs
        ],
    )
    if not where and len(jobs) < total:
        write_line(f"{len(jobs):,} of {total:,}; --limit shows more")
