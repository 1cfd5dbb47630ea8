"""`kiqbridge health`: check whether the workers on this machine are alive, or make progress.

Exit 0 if all are, 1 if one is not or there is none. Needs no Redis.

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

from kiqbridge.commands.arguments import add, add_example, add_json
from kiqbridge.commands.output import answer
from kiqbridge.engine.host.status import faults_of_all, read_statuses, run_folder
from kiqbridge.runtime.clock import lease_now


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which question, about which worker."""
    check = parser.add_mutually_exclusive_group()
    text = "it runs, and has reached Redis once, or is in its start period; Redis may be away later (for the "
    text += "orchestrator's health check)"
    add(check, "--live", text, dest="check", action="store_const", const="live")
    text = "it makes progress: Redis answers and it takes jobs (default)"
    add(check, "--ready", text, dest="check", action="store_const", const="ready")
    parser.set_defaults(check="ready")
    add(parser, "--pid INT", "only this worker (default: all on this machine)", type=int)
    add_json(parser)
    add(parser, "--run-dir PATH", "folder that the worker writes to [KIQBRIDGE_RUN_DIR]")
    add_example(parser, "kiqbridge health --live")


def run(options: argparse.Namespace) -> int:
    """Check the workers of this machine: 0 all are well, 1 one is not or there is none."""
    folder = run_folder(options.run_dir or os.environ.get("KIQBRIDGE_RUN_DIR", ""))
    is_trusted = os.geteuid() == 0 and bool(options.run_dir)  # root reads all
    refused, statuses = "", []
    try:
        found = read_statuses(folder, is_trusted=is_trusted)
        statuses = [status for status in found if options.pid in (None, status.pid)]
    except PermissionError as error:
        refused = str(error)
    now = lease_now()
    faults = faults_of_all(statuses, options.check, now)
    is_well = bool(statuses) and not any(faults.values())
    missing = [] if statuses else [_none(options, folder, refused)]
    document = {
        "check": options.check,
        "ok": is_well,
        "workers": [
            asdict(status) | {"ok": not faults[status.pid], "faults": faults[status.pid]}
            for status in statuses
        ],
        "faults": missing,
    }
    lines = []
    for status in statuses:
        wrong = ", ".join(faults[status.pid])
        is_so = f"not {options.check}: {wrong}" if wrong else f"{options.check} ({status.state})"
        lines.append(f"worker {status.pid} is {is_so}")
    answer(options, document, lines + missing)
    return 0 if is_well else 1


def _none(options: argparse.Namespace, folder: Path, refused: str) -> str:
    if refused:
        return (
            f"nothing there is believed: {refused}; name the workers' folder in KIQBRIDGE_RUN_DIR"
        )
    which = "no worker" if options.pid is None else f"no worker with pid {options.pid}"
    return f"{which} runs here (looked in {folder})"
