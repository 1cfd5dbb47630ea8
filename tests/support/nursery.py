"""Workers that begin within milliseconds, for a storm in which a process lives half a second.

The nursery is a process that has imported everything and forks a worker for each line it reads; it
has no threads and no connections. A worker that is born here is as one started by the command line.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from support.waiting import wait_until

PROGRAM = Path(__file__).with_name("nursery_process.py")


class BornWorker:
    """A worker process; the same handles as a `WorkerProcess`."""

    def __init__(self, pid: int, log: Path, nursery: "Nursery") -> None:
        self.pid = pid
        self._log = log
        self._nursery = nursery

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._nursery.ended().get(self.pid)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.wait(10)

    def wait(self, timeout_s: float = 30) -> int:
        wait_until(lambda: self.exit_code is not None, timeout_s, lambda: f"its end: {self.output}")
        code = self.exit_code
        assert code is not None
        return code


class Nursery:
    """Forks workers with these arguments and variables; all of them end with the block."""

    def __init__(self, folder: Path, args: list[str], env: Mapping[str, str]) -> None:
        folder.mkdir()
        self._folder = folder
        self._count = 0
        self._ended: dict[int, int] = {}
        self._buffer = b""
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(args)],
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._born: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def bear(self) -> BornWorker:
        """A new worker."""
        self._count += 1
        log = self._folder / f"worker-{self._count}"
        assert self._process.stdin is not None
        self._process.stdin.write(f"{log}\n".encode())
        self._process.stdin.flush()
        wait_until(lambda: self._look() or len(self._born) >= self._count, 20, "a birth")
        return BornWorker(self._born[-1], log, self)

    def ended(self) -> dict[int, int]:
        """Exit code by pid."""
        self._look()
        return self._ended

    def _look(self) -> None:
        assert self._process.stdout is not None
        self._buffer += self._process.stdout.read() or b""
        *lines, self._buffer = self._buffer.split(b"\n")
        for line in lines:
            what, pid, *code = line.split()
            if what == b"born":
                self._born.append(int(pid))
            else:
                self._ended[int(pid)] = int(code[0])
