"""`kiqbridge health`: whether the worker on this machine lives, or makes progress. Needs no Redis.

- live: it says something, and none of its threads has ended. Restarting it is the cure for the rest.
  That Redis is away is no reason: a new process would not find it either.
- ready: live, and jobs are begun: Redis has confirmed its lease and taken its heartbeat lately, and
  it is not quiet.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from kiqbridge.clock import lease_now
from kiqbridge.status import STALE_AFTER_S, Status, read_statuses, run_folder

MISSED_BEATS = 3
LEAST_SILENCE_S = 15.0
"""A heartbeat that waits for an answer in vain takes some seconds; one such is no news."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which question, about which worker."""
    check = parser.add_mutually_exclusive_group()
    check.add_argument(
        "--live",
        dest="check",
        action="store_const",
        const="live",
        help="it runs; Redis may be away (for the orchestrator's health check)",
    )
    check.add_argument(
        "--ready",
        dest="check",
        action="store_const",
        const="ready",
        help="it makes progress: Redis answers and it takes jobs (default)",
    )
    parser.set_defaults(check="ready")
    parser.add_argument(
        "--pid", type=int, metavar="INT", help="only this worker (default: all on this machine)"
    )
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    parser.add_argument(
        "--run-dir", metavar="PATH", help="folder that the worker writes to [KIQBRIDGE_RUN_DIR]"
    )


def run(options: argparse.Namespace) -> int:
    """Tell how the workers of this machine are: 0 all well, 1 one is not or there is none."""
    folder = run_folder(options.run_dir or os.environ.get("KIQBRIDGE_RUN_DIR", ""))
    statuses = [status for status in read_statuses(folder) if options.pid in (None, status.pid)]
    now = lease_now()
    faults = {status.pid: list(faults_of(status, options.check, now)) for status in statuses}
    is_well = bool(statuses) and not any(faults.values())
    told = _json if options.json else _lines
    sys.stdout.write(told(options, statuses, faults, folder))
    return 0 if is_well else 1


def faults_of(status: Status, check: str, now: float) -> Iterator[str]:
    """Why it is not live, or not ready; `now` is on `lease_now`."""
    silence = now - status.written_at
    if silence > STALE_AFTER_S:
        yield f"it has said nothing for {silence:.0f} s"
    for name in status.ended_threads:
        yield f"its thread {name} has ended"
    if check == "live":
        return
    if status.state != "running":
        yield f"it is {status.state}"
    if not status.is_leased:
        yield "Redis has not confirmed its lease"
    if status.heartbeat_at is None:
        yield "Redis has taken no heartbeat yet"
    elif now - status.heartbeat_at > max(MISSED_BEATS * status.beat_s, LEAST_SILENCE_S):
        yield f"Redis has taken no heartbeat for {now - status.heartbeat_at:.0f} s"


def _lines(
    options: argparse.Namespace,
    statuses: Sequence[Status],
    faults: dict[int, list[str]],
    folder: Path,
) -> str:
    lines = [
        f"worker {status.pid} is not {options.check}: {', '.join(faults[status.pid])}"
        if faults[status.pid]
        else f"worker {status.pid} is {options.check} ({status.state})"
        for status in statuses
    ]
    return "\n".join(lines or [_none(options, folder)]) + "\n"


def _json(
    options: argparse.Namespace,
    statuses: Sequence[Status],
    faults: dict[int, list[str]],
    folder: Path,
) -> str:
    workers = [
        asdict(status) | {"ok": not faults[status.pid], "faults": faults[status.pid]}
        for status in statuses
    ]
    answer = {
        "check": options.check,
        "ok": bool(statuses) and not any(faults.values()),
        "workers": workers,
        "faults": [] if workers else [_none(options, folder)],
    }
    return json.dumps(answer) + "\n"


def _none(options: argparse.Namespace, folder: Path) -> str:
    which = "no worker" if options.pid is None else f"no worker with pid {options.pid}"
    return f"{which} runs here (looked in {folder})"
