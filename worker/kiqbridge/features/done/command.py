"""`kiqbridge done`: the jobs that have ended, the last first, as far as they are kept (`keep_done`).

For each class the last ones that were done are kept, and as many that ended in another way.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from kiqbridge.api import Operator, open_operator
from kiqbridge.commands.arguments import add, add_example, add_listing
from kiqbridge.commands.output import answer_table, listed, since_cell
from kiqbridge.features.done.reading import DoneFilter, scan_done
from kiqbridge.features.done.record import DoneJob
from kiqbridge.wire.amounts import took_text

_LIMIT: Final = 25
_MOST: Final = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which jobs, and how they are shown."""
    add(
        parser,
        "--class GLOB",
        "class of the job, such as 'Billing::*'",
        dest="job_class",
        default="",
    )
    add(parser, "--queue GLOB", "queue of the job", default="")
    add(parser, "--tag TAG", "one of its tags", default="")
    text = "done, dead, discarded, skipped, expired or cancelled; bad: any but done"
    add(parser, "--outcome WORD", text, default="")
    add(parser, "--error-class GLOB", "class of its error", default="")
    add(
        parser,
        "--longer-than DURATION",
        "its last execution took so long: 90, 15m, 2h",
        default=0.0,
    )
    add(parser, "--text TEXT", "part of its jid, its worker or its error", default="")
    add_listing(parser, _LIMIT, "all that are kept")
    add_example(parser, "kiqbridge done --class 'Mail*' --outcome bad --limit 10")


def run(options: argparse.Namespace) -> int:
    """Show them."""
    names = "job_class queue tag outcome error_class text"
    given = {name: getattr(options, name) for name in names.split()}
    where = DoneFilter(**given, longer_than_s=options.longer_than)
    jobs = _matching(open_operator(via="cli"), where)
    found, now = listed(options, jobs, _fields, _LIMIT), time.time()
    return answer_table(
        options,
        {"jobs": [_fields(job) for job in found]},
        ("ended", "!jid", "class", "queue", "outcome", ">took", ">runs", "error"),
        [_row(job, now) for job in found],
        none="No job that has ended is on record, or none matches; keep_done says how many are kept.",
    )


def _matching(operator: Operator, where: DoneFilter) -> Iterator[DoneJob]:
    found = (job for job, _ in scan_done(where, operator, most=_MOST))
    return (job for job in found if job is not None)


def _fields(job: DoneJob) -> dict[str, Any]:
    return {"jid": job.jid, "class": job.job_class, "runs": [asdict(run) for run in job.runs]}


def _row(job: DoneJob, now: float) -> tuple[str, ...]:
    last = job.last
    took = "-" if last.took_s is None else took_text(last.took_s)
    error = ": ".join(filter(None, (last.error, last.message)))
    named = job.jid, job.job_class, last.queue, last.outcome
    return since_cell(last.at, now), *named, took, f"{len(job.runs):,}", error
