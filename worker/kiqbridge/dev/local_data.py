"""The folder `.kiqbridge/` of `kiqbridge dev`: what is kept between runs, for one run at a time."""

import contextlib
import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import Final

from kiqbridge.errors import ConfigError

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
