"""A process that delivers one tick again and again, as one of the clocks does; the evidence goes to files.

`delivering_process.py CLOCK NAME COUNT FOLDER AT`: CLOCK is `lambda` (the enqueue function's handler), `tick`
or `worker`. It is ready when FOLDER/ready/NAME is there, and begins when FOLDER/go is. A line in FOLDER/sent goes
before each delivery, one in FOLDER/acknowledged follows its answer.
"""

import contextlib
import io
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kiqbridge import Client
from support.enqueue_function import ENVIRONMENT, Context, load_app

SCHEDULE = "shop/Nightly"


def lambda_deliverer(name: str, at: int) -> Callable[[int], tuple[str, list[str]]]:
    """Through the handler of the function, whose request id differs at each attempt."""
    os.environ.update(ENVIRONMENT)
    app = load_app()
    instant = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
    event: dict[str, Any] = {"class": "HealthPulse", "args": []}
    event["tick"] = {"schedule": SCHEDULE, "at": instant}

    def deliver(number: int) -> tuple[str, list[str]]:
        with contextlib.redirect_stdout(io.StringIO()):
            answer = app.lambda_handler(event, Context(aws_request_id=f"{name}-{number}"))
        kind = "enqueued" if answer["enqueued"] else "duplicate"
        return kind, [job["jid"] for job in answer["enqueued"] + answer["duplicates"]]

    return deliver


def client_deliverer(clock: str, name: str, at: int) -> Callable[[int], tuple[str, list[str]]]:
    """By a client, as the tick function and the leader of a fleet do it."""
    client = Client()
    job = {"class": "HealthPulse", "args": []}

    def deliver(number: int) -> tuple[str, list[str]]:
        outcome = client.push_tick(SCHEDULE, at, [job], by=f"{clock}:{name}-{number}")
        return outcome.kind, [each.jid for each in outcome.jobs]

    return deliver


def main(clock: str, name: str, count: int, folder: Path, at: int) -> None:
    make = lambda_deliverer if clock == "lambda" else lambda *a: client_deliverer(clock, *a)
    deliver = make(name, at)
    sent, acknowledged = (
        os.open(folder / each, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        for each in ("sent", "acknowledged")
    )
    (folder / "ready" / name).touch()
    while not (folder / "go").exists():
        time.sleep(0.001)
    for number in range(count):
        os.write(sent, f"{name}\n".encode())
        kind, jids = deliver(number)
        os.write(acknowledged, f"{name} {kind} {','.join(jids)}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
