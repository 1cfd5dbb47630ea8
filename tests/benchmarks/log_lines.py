"""What the log lines of a job cost: `start` and `done`, in microseconds of one CPU for the pair.

    python tests/benchmarks/log_lines.py [FILE]

Written to FILE, by default /dev/null. "records" is what the same lines cost as ordinary records, which
they are when someone else listens too.
"""

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kiqbridge.client.current import CONTEXT
from kiqbridge.perform.job_lines import JobLines
from kiqbridge.perform.job_logger import TID, configure_logging

PAIRS = 50_000
PAYLOAD = {"class": "Reports::Nightly", "jid": "b4a577edbccf1d805744efa9", "args": [1]}


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "/dev/null")
    TID.set("9f1c2a")
    CONTEXT.set((PAYLOAD, "default"))
    for form in ("json", "plain"):
        with target.open("w", encoding="utf-8") as stream:
            configure_logging("info", form, stream)
            direct = measure()
            logging.getLogger("kiqbridge.job").addHandler(nobody := logging.NullHandler())
            records = measure()
            logging.getLogger("kiqbridge.job").removeHandler(nobody)
            configure_logging("warn", form, stream)
            off = measure()
        print(f"{form:6} {direct:6.2f} µs   records {records:6.2f} µs   at warn {off:6.2f} µs")


def measure() -> float:
    """The best of three, with the writing of all lines."""
    return min(_timed(_log) for _ in range(3))


def _log() -> None:
    lines = JobLines()
    for _ in range(PAIRS):
        lines.end(lines.start(PAYLOAD, "default"), "done", 0.0123)
    logging.getLogger().handlers[0].flush()


def _timed(call: Callable[[], None]) -> float:
    began = time.process_time()
    call()
    return (time.process_time() - began) / PAIRS * 1_000_000


if __name__ == "__main__":
    main()
