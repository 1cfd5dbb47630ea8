"""The real `kiqbridge` command as a child process."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import redis

from support.processes import ChildProcess


class WorkerProcess(ChildProcess):
    """`kiqbridge worker *args` on the server at `redis_url`.

    Args:
        args: flags as a user gives them, such as "-r", "jobs.py", "-c", "2".
        python_path: folders that come first on the child's import path.
        command: another verb of the command line, such as "dev".
        namespace: the key prefix in which the worker appears, as it stands before `processes`.
    """

    def __init__(
        self,
        *args: str,
        redis_url: str,
        env: Mapping[str, str] | None = None,
        python_path: Sequence[Path | str] = (),
        cwd: Path | None = None,
        command: str = "worker",
        namespace: str = "",
    ) -> None:
        self._redis_url = redis_url
        self._namespace = namespace
        inherited = os.environ.get("PYTHONPATH", "")
        path = [*map(str, python_path), *filter(None, inherited.split(os.pathsep))]
        super().__init__(
            [sys.executable, "-m", "kiqbridge", command, *args],
            env={
                "REDIS_URL": redis_url,
                "PYTHONPATH": os.pathsep.join(map(os.path.abspath, path)),
                "PYTHONUNBUFFERED": "1",
                **(env or {}),
            },
            cwd=cwd,
        )

    def wait_ready(
        self, ready: Callable[[str], object] | None = None, timeout_s: float = 20
    ) -> None:
        """Wait until `ready(output)` holds; without it, until the process is listed in Redis."""
        if ready is not None:
            self.wait_for(lambda: ready(self.output), timeout_s, "the worker being ready")
            return
        with redis.Redis.from_url(self._redis_url) as client:
            self.wait_for(
                lambda: find_identity(client, self.pid, self._namespace),
                timeout_s,
                "the worker in the set `processes`",
            )


def find_identity(client: redis.Redis, pid: int, namespace: str = "") -> str | None:
    """The identity (`host:pid:nonce`) under which this process beats, or None."""
    for member in client.smembers(f"{namespace}processes"):
        identity = member.decode()
        if identity.split(":")[-2:-1] == [str(pid)] and client.exists(f"{namespace}{identity}"):
            return identity
    return None
