"""`kiqbridge ps`, `quiet` and `stop`: the living processes of Python and Ruby, as their last heartbeats showed them.

--jobs lists the jobs that they run.
"""

import argparse
import fnmatch
import sys
import time
from collections.abc import Sequence
from typing import Any

from kiqbridge import api
from kiqbridge.api.works import RunningJob, running_jobs, usual_durations
from kiqbridge.commands import output
from kiqbridge.commands.acting import REFUSED, confirm
from kiqbridge.commands.arguments import add, add_changing, add_example, add_json
from kiqbridge.errors import PayloadError
from kiqbridge.wire.amounts import span_text
from kiqbridge.wire.names import printable


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """What is shown, and how; or which processes get the signal."""
    parser.set_defaults(verb=name, command={"ps": _list, "quiet": _quiet, "stop": _stop}[name])
    if name == "ps":
        add_json(parser)
        add(parser, "--jobs", "the jobs that run in them as well")
        add_example(parser, "kiqbridge ps", "kiqbridge ps --jobs")
        return
    text = "as `kiqbridge ps` shows it, or its beginning"
    add(parser, "[IDENTITY...]", text, dest="identities")
    add(parser, "--all", "all processes, Ruby's as well")
    add(parser, "--host GLOB", "those on these machines")
    add_changing(parser, asks=True)
    add_example(parser, f"kiqbridge {name} --host 'batch-*' --dry-run")


def _list(options: argparse.Namespace) -> int:
    """The living processes of Python and Ruby, as their last heartbeats showed them.

    With --jobs what runs in them. Signals to them go by way of Redis.
    """
    operator, now = api.open_operator(via="cli"), time.time()
    living = api.ProcessSet(operator)
    processes = list(living)
    processes += living.lost(processes)
    works = list(api.WorkSet(operator)) if options.jobs else []
    held = api.fetch_in_flight(operator, only_silent=True) if options.jobs else []
    held = [each for each in held if not each.begun]
    usual = usual_durations(works, operator)
    running = running_jobs(works, usual, now)
    fields = [*map(_work_fields, running), *map(_held_fields, held)]
    output.answer_table(
        options,
        {
            "processes": [_fields(each, now) for each in processes],
            **({"jobs": fields} if options.jobs else {}),
        },
        ("!identity", "version", "tag", "queues", ">busy", ">memory", ">up", "state"),
        [_row(each, now) for each in processes],
        none="No process is alive; `kiqbridge worker` starts one.",
    )
    if not processes or options.json:
        return 0
    oldest_s = max((each.silent_s(now) for each in processes if each.beat_at), default=0.0)
    output.write_line(
        f"As of the last heartbeats, the oldest of which came {span_text(oldest_s)} ago."
    )
    if not options.jobs:
        return 0
    output.write_line()
    if not fields:
        output.write_line("No job ran then.")
        return 0
    output.write_table(
        ("process", "thread", "!jid", "class", "queue", "arguments", ">runs for"),
        [
            *(
                _job_row(each.work.process, each.work.tid, each.work.job, each.age_text)
                for each in running
            ),
            *(_job_row(each.process, each.tid, each.job, "unknown") for each in held),
        ],
    )
    if any(each.times > 1 for each in running):
        output.write_line(
            "x p95: so many times as long as 95 of 100 jobs of the class took in the last hour."
        )
    if held:
        output.write_line(
            "Unknown: the worker has taken the job and gives no heartbeat since. The job runs if the worker is stuck "
            "in it, such as in a C call that keeps the interpreter lock; if it was killed, it goes back to its queue."
        )
    return 0


def _job_row(process: str, tid: str, job: api.JobRecord, runs_for: str) -> Sequence[str]:
    cells = (process, tid, job.jid, output.class_cell(job), job.queue)
    return (*cells, output.args_cell(job.display_args), runs_for)


def _row(process: api.Process, now: float) -> Sequence[str]:
    return (
        process.identity,
        process.version or "-",
        process.tag or "-",
        ", ".join(process.queues) or "-",
        f"{process.busy}/{process.concurrency}" if process.beat_at else "-",
        f"{process.rss_kb / 1024:,.0f} MB" if process.rss_kb else "-",
        span_text(now - process.started_at) if process.started_at else "-",
        _state(process, now),
    )


def _state(process: api.Process, now: float) -> str:
    if not process.beat_at:
        return "no heartbeat"
    if process.is_silent(now):
        return f"silent for {span_text(process.silent_s(now))}"
    return "quiet" if process.is_quiet else "running"


def _fields(process: api.Process, now: float) -> dict[str, Any]:
    return {
        **output.fields_of(
            process, "identity hostname pid tag labels version is_ours queues concurrency"
        ),
        **output.fields_of(process, "busy rss_kb rtt_us started_at beat_at"),
        "quiet": process.is_quiet,
        "silent": process.is_silent(now),
    }


def _work_fields(running: RunningJob) -> dict[str, Any]:
    work = running.work
    return {
        "thread": work.tid,
        "p95_s": running.p95_s,
        **output.fields_of(work, "process run_at"),
        **output.job_fields(work.job),
    }


def _held_fields(held: api.HeldJob) -> dict[str, Any]:
    return {
        "thread": held.tid,
        "process": held.process,
        "run_at": None,
        **output.job_fields(held.job),
    }


def _quiet(options: argparse.Namespace) -> int:
    """Stop processes of Python or Ruby from taking new jobs, through Redis: each reads it at its next heartbeat.

    It cannot be undone.
    """
    return _signal(options)


def _stop(options: argparse.Namespace) -> int:
    """End processes of Python or Ruby, through Redis.

    Each reads it at its next heartbeat, finishes its jobs as after TERM, and gives back what does not end in time.
    """
    return _signal(options)


def _signal(options: argparse.Namespace) -> int:
    chosen = _chosen(options, api.open_operator(via="cli"))
    verb = options.verb
    if not options.dry_run:
        which = f"{len(chosen):,} process{'' if len(chosen) == 1 else 'es'}"
        if chosen and verb == "stop" and not confirm(f"Stop {which}?", options):
            return REFUSED
        for process in chosen:
            process.quiet() if verb == "quiet" else process.stop()
    if not chosen and not options.json:
        sys.stderr.write("No living process matches.\n")
    asked = "asked to become quiet:" if verb == "quiet" else "asked to stop:"
    said = f"would {verb}" if options.dry_run else asked
    identities = [each.identity for each in chosen]
    document = {"dry_run": options.dry_run, "action": verb, "processes": identities}
    return output.answer(options, document, (f"{said} {identity}" for identity in identities))


def _chosen(options: argparse.Namespace, operator: api.Operator) -> list[api.Process]:
    if not (options.identities or options.all or options.host):
        raise PayloadError("name an IDENTITY (kiqbridge ps lists them), --host GLOB or --all")
    processes = list(api.ProcessSet(operator))
    for identity in options.identities:
        if not any(each.identity.startswith(identity) for each in processes):
            raise PayloadError(
                f"{printable(identity)}: no process of this name is alive; kiqbridge ps lists them"
            )
    return [
        each
        for each in processes
        if options.all
        or (options.host and fnmatch.fnmatchcase(each.hostname, options.host))
        or any(each.identity.startswith(identity) for identity in options.identities)
    ]
