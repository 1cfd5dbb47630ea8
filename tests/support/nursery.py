"""Commands of ours that begin within milliseconds: a process that has imported them forks one for each request.

Importing is nine tenths of what the start of a worker costs. The nursery has neither threads nor connections, so
what is born here is as what the command line starts: a session, environment, folder and import path of its own.
"""

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

PROGRAM = Path(__file__).with_name("nursery_process.py")
DECIDED_AT_START = ("PYTHON", "LD_", "LANG", "LC_", "MALLOC_")
"""Beginnings of the variables that the interpreter, or what is below it, reads only when it starts."""
AS_IN_THE_NURSERY = {"PYTHONUNBUFFERED": "1"}
CARRIED_OVER = ("PYTHONPATH",)


class Born:
    """A process that the nursery forked, with what is used of `subprocess.Popen`."""

    def __init__(self, nursery: "Nursery", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._nursery = nursery

    def poll(self) -> int | None:
        """The exit code, negative after a signal; None while it runs."""
        if self.returncode is None:
            self._nursery.look()
        return self.returncode

    def wait(self) -> int:
        while self.poll() is None:
            self._nursery.listen()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended a moment ago
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that forks; it ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running: dict[int, Born] = {}  # by pid, which the system uses again after an end
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(other.fileno())],
                env={**os.environ, **AS_IN_THE_NURSERY},
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )
        atexit.register(self._end)

    def bear(
        self, words: Sequence[str], env: Mapping[str, str], cwd: Path | None, output: int
    ) -> Born:
        """`kiqbridge *words` with this environment and folder; `output` is a descriptor."""
        asked = {"words": list(words), "env": dict(env), "cwd": str(cwd or Path.cwd())}
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], [output])
            while (pid := self.listen()) is None:
                pass
            self._running[pid] = born = Born(self, pid)
            return born

    def look(self) -> None:
        """Note which processes have ended by now."""
        self.listen(socket.MSG_DONTWAIT)

    def listen(self, flags: int = 0) -> int | None:
        """Read one message, or all that are there with MSG_DONTWAIT; the pid of a process that was forked."""
        with self._lock:
            try:
                what, pid, *code = self._socket.recv(100, flags).split()
            except BlockingIOError:
                return None
            if what == b"ended":
                self._running.pop(int(pid)).returncode = int(code[0])
                return self.listen(flags) if flags else None
            return int(pid)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def nursery() -> Nursery:
    """That of this process; started when it is first asked for."""
    return Nursery()


def can_bear(env: Mapping[str, str]) -> bool:
    """Whether a process with this environment can be forked: nothing in it asks for an interpreter of its own."""
    return {**_decided(env), **AS_IN_THE_NURSERY} == {**_decided(os.environ), **AS_IN_THE_NURSERY}


def _decided(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in env.items()
        if name.startswith(DECIDED_AT_START) and name not in CARRIED_OVER
    }
