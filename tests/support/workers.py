"""The real `kiqbridge` command as a child process."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from support.processes import ChildProcess


class WorkerProcess(ChildProcess):
    """`kiqbridge worker *args` on the server at `redis_url`.

    Args:
        args: flags as a user gives them, such as "-r", "jobs.py", "-c", "2".
        python_path: folders that come first on the child's import path.
        command: another verb of the command line, such as "dev".
        namespace: the key prefix in which the worker appears, as it stands before `processes`.
        python: the interpreter; empty: that of the test.
        is_forked: by the nursery, which has imported the command; else an interpreter starts.
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
        python: str = "",
        is_forked: bool = True,
    ) -> None:
        self._redis_url = redis_url
        self._namespace = namespace
        inherited = os.environ.get("PYTHONPATH", "")
        path = [*map(str, python_path), *filter(None, inherited.split(os.pathsep))]
        super().__init__(
            [python or sys.executable, "-m", "kiqbridge", command, *args],
            env={
                "REDIS_URL": redis_url,
                "PYTHONPATH": os.pathsep.join(map(os.path.abspath, path)),
                "PYTHONUNBUFFERED": "1",
                # Counters and the signs of life come each second, not each ten: what waits for them ends sooner.
                "KIQBRIDGE_BEAT_S": "1",
                **(env or {}),
            },
            cwd=cwd,
            is_forked=is_forked,
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


@contextmanager
def started_workers(
    *flags: str, env: Mapping[str, str], redis_url: str, require: str = "", **options: Any
) -> Iterator[Callable[..., WorkerProcess]]:
    """`start(*more_flags, ready=True, **more_env)` starts a worker; all of them end with the block.

    A call may name another `require`, another server (`url`) and other options in lower case. It returns when the
    worker is in the set `processes`; with a text as `ready`, when that is in its output; with False at once.

    Args:
        flags: of each worker, before those of a call.
        env: of each worker; a call adds to it.
        redis_url: of each worker.
        require: what each loads.
        options: further ones of `WorkerProcess`.
    """
    with ExitStack() as stack:

        def start(
            *more: str,
            require: str = require,
            ready: bool | str = True,
            url: str = redis_url,
            **more_options: Any,
        ) -> WorkerProcess:
            variables = {name: value for name, value in more_options.items() if name.isupper()}
            others = {name: more_options[name] for name in more_options.keys() - variables.keys()}
            worker = WorkerProcess(
                *(("-r", require) if require else ()),
                *flags,
                *more,
                redis_url=url,
                env={**env, **variables},
                **{**options, **others},
            )
            stack.enter_context(worker)
            if ready is True:
                worker.wait_ready()
            elif ready:
                worker.wait_for_output(ready, 60)
            return worker

        yield start


def find_identity(client: redis.Redis, pid: int, namespace: str = "") -> str | None:
    """The identity (`host:pid:nonce`) under which this process beats, or None."""
    for member in client.smembers(f"{namespace}processes"):
        identity = member.decode()
        if identity.split(":")[-2:-1] == [str(pid)] and client.exists(f"{namespace}{identity}"):
            return identity
    return None
