"""`kiqbridge health`: whether the worker on this machine lives, or makes progress. Needs no Redis.

- live: it writes its status, and none of its threads has ended or is stuck. Restarting it helps otherwise.
  An outage of Redis does not count: a new process would not reach it either. But a process that has never
  reached it is not live after its start period: it must not take the place of others.
- ready: live, and jobs are begun: Redis has confirmed its lease and taken its heartbeat lately, and
  it is not quiet. Of the processes of one supervisor those that start or stop do not count, as long as
  another one makes progress: a process is being replaced.
"""

import argparse
import os
from dataclasses import asdict
from pathlib import Path

from kiqbridge.clock import lease_now
from kiqbridge.commands.arguments import add_json, add_option
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.host.status import faults_of_all, read_statuses, run_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which question, about which worker."""
    check = parser.add_mutually_exclusive_group()
    check.add_argument(
        "--live",
        dest="check",
        action="store_const",
        const="live",
        help="it runs, and has reached Redis once, or is in its start period; Redis may be away later (for the "
        "orchestrator's health check)",
    )
    check.add_argument(
        "--ready",
        dest="check",
        action="store_const",
        const="ready",
        help="it makes progress: Redis answers and it takes jobs (default)",
    )
    parser.set_defaults(check="ready")
    add_option(parser, "--pid", "INT", "only this worker (default: all on this machine)", type=int)
    add_json(parser)
    add_option(parser, "--run-dir", "PATH", "folder that the worker writes to [KIQBRIDGE_RUN_DIR]")


def run(options: argparse.Namespace) -> int:
    """Check the workers of this machine: 0 all are well, 1 one is not or there is none."""
    folder = run_folder(options.run_dir or os.environ.get("KIQBRIDGE_RUN_DIR", ""))
    statuses = [status for status in read_statuses(folder) if options.pid in (None, status.pid)]
    now = lease_now()
    faults = faults_of_all(statuses, options.check, now)
    is_well = bool(statuses) and not any(faults.values())
    missing = [] if statuses else [_none(options, folder)]
    if options.json:
        workers = [
            asdict(status) | {"ok": not faults[status.pid], "faults": faults[status.pid]}
            for status in statuses
        ]
        answer = {"check": options.check, "ok": is_well, "workers": workers, "faults": missing}
        write_json(answer)
    for status in statuses if not options.json else ():
        found = ", ".join(faults[status.pid])
        is_so = f"not {options.check}: {found}" if found else f"{options.check} ({status.state})"
        write_line(f"worker {status.pid} is {is_so}")
    for line in missing if not options.json else ():
        write_line(line)
    return 0 if is_well else 1


def _none(options: argparse.Namespace, folder: Path) -> str:
    which = "no worker" if options.pid is None else f"no worker with pid {options.pid}"
    return f"{which} runs here (looked in {folder})"
