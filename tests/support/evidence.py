"""What jobs leave behind for the test: a file per jid, one line per execution.

A job calls `testify`; in Ruby it is defined by the text `RUBY`. A line is the time (epoch seconds)
and what the job says, in one write, so that a reader never sees half of it.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

from support.waiting import wait_until

RUBY = r"""
def testify(jid, said)
  File.open(File.join(ENV.fetch("EVIDENCE"), jid), "a") { |file| file.write("#{Time.now.to_f} #{said}\n") }
end
"""


def testify(jid: str, said: object) -> None:
    """Called by a job: say `said`, of which ascii() is kept: exact, and always one line."""
    line = f"{time.time()!r} {said!a}\n".encode()
    target = os.open(
        os.path.join(os.environ["EVIDENCE"], jid),  # noqa: PTH118 - beside os.open
        os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    )
    try:
        os.write(target, line)
    finally:
        os.close(target)


class Testimony(NamedTuple):
    """What one execution of a job said, and when (epoch seconds)."""

    at: float
    said: str


class Evidence:
    """The folder in which jobs testify; `env` passes it to a worker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"EVIDENCE": str(folder)}

    def of(self, jid: str) -> list[Testimony]:
        """One testimony per execution so far."""
        try:
            text = (self.folder / jid).read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        # What stands behind the last line break is not written yet.
        parts = [line.split(" ", 1) for line in text.split("\n")[:-1]]
        return [Testimony(float(at), said) for at, said in parts]

    def wait(self, jid: str, count: int = 1, timeout_s: float = 15) -> Testimony:
        """Wait until the job was executed `count` times; the testimony of that execution."""
        wait_until(
            lambda: len(self.of(jid)) >= count,
            timeout_s,
            lambda: f"execution {count} of job {jid}, which said {self.of(jid)}",
        )
        return self.of(jid)[count - 1]
