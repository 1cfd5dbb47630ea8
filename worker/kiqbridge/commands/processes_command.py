"""`kiqbridge ps`: the processes of Python and Ruby, and their jobs."""

import argparse
import time
from collections.abc import Sequence
from typing import Any, Final

from kiqbridge.api import Process, ProcessSet, Work, WorkSet, open_operator
from kiqbridge.commands.arguments import add_example, add_json, add_switch
from kiqbridge.commands.job_rows import args_cell, class_cell, job_fields
from kiqbridge.commands.output import (
    columns_of,
    kept_column,
    number_column,
    wide_column,
    write_json,
    write_line,
    write_table,
)
from kiqbridge.wire.amounts import span_text

SILENT_AFTER_S: Final = 20
"""Two heartbeats of Ruby's and six of ours."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is shown, and how."""
    add_json(parser)
    add_switch(parser, "--jobs", "the jobs that run in them as well")
    add_example(parser, "kiqbridge ps", "kiqbridge ps --jobs")


def run(options: argparse.Namespace) -> int:
    """List the processes."""
    operator, now = open_operator(via="cli"), time.time()
    processes = list(ProcessSet(operator))
    works = list(WorkSet(operator)) if options.jobs else []
    if options.json:
        jobs = {"jobs": [_work_fields(each) for each in works]} if options.jobs else {}
        write_json({"processes": [_fields(each, now) for each in processes], **jobs})
        return 0
    if not processes:
        write_line("No process is alive; `kiqbridge worker` starts one.")
        return 0
    write_table(
        columns_of(
            kept_column("identity"),
            "version",
            "tag",
            wide_column("queues"),
            number_column("busy"),
            number_column("memory"),
            number_column("up"),
            "state",
        ),
        (_row(each, now) for each in processes),
    )
    if options.jobs:
        write_line()
        _list_works(works, now)
    return 0


def _list_works(works: Sequence[Work], now: float) -> None:
    if not works:
        write_line("No job runs.")
        return
    write_table(
        columns_of(
            "process",
            "thread",
            kept_column("jid"),
            "class",
            "queue",
            wide_column("arguments"),
            number_column("runs for"),
        ),
        (
            (
                work.process,
                work.tid,
                work.job.jid,
                class_cell(work.job),
                work.job.queue,
                args_cell(work.job.display_args),
                span_text(now - work.run_at),
            )
            for work in works
        ),
    )


def _row(process: Process, now: float) -> Sequence[str]:
    return (
        process.identity,
        process.version or "-",
        process.tag or "-",
        ", ".join(process.queues),
        f"{process.busy}/{process.concurrency}",
        f"{process.rss_kb / 1024:,.0f} MB" if process.rss_kb else "-",
        span_text(now - process.started_at) if process.started_at else "-",
        _state(process, now),
    )


def _state(process: Process, now: float) -> str:
    silent_s = now - process.beat_at
    if silent_s > SILENT_AFTER_S:
        return f"silent for {span_text(silent_s)}"
    return "quiet" if process.is_quiet else "running"


def _fields(process: Process, now: float) -> dict[str, Any]:
    return {
        "identity": process.identity,
        "hostname": process.hostname,
        "pid": process.pid,
        "tag": process.tag,
        "labels": process.labels,
        "version": process.version,
        "is_ours": process.is_ours,
        "queues": process.queues,
        "concurrency": process.concurrency,
        "busy": process.busy,
        "rss_kb": process.rss_kb,
        "rtt_us": process.rtt_us,
        "started_at": process.started_at,
        "beat_at": process.beat_at,
        "quiet": process.is_quiet,
        "silent": now - process.beat_at > SILENT_AFTER_S,
    }


def _work_fields(work: Work) -> dict[str, Any]:
    return {
        "process": work.process,
        "thread": work.tid,
        "run_at": work.run_at,
        **job_fields(work.job),
    }
