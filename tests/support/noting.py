"""For jobs of a worker process: what they note goes to a file in the folder MARKS, which `support.notes` reads."""

import json
import os
import time
from pathlib import Path

FOLDER = Path(os.environ["MARKS"])


def note(event: str, **more: object) -> None:
    """A line in one write, with the pid of the process and the time."""
    line = json.dumps({"event": event, "pid": os.getpid(), "at": time.time(), **more}).encode()
    target = os.open(FOLDER / "seen", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.fchmod(target, 0o600)  # whatever mask the job has set
        os.write(target, line + b"\n")
    finally:
        os.close(target)


def hold() -> None:
    """Until the test releases what holds."""
    while not (FOLDER / "release").exists():
        time.sleep(0.005)


def is_first(name: str) -> bool:
    """Whether nobody has asked for this name before, in any process."""
    try:
        os.close(os.open(FOLDER / f"{name}.first", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
