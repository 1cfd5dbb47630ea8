"""The real `kiqbridge web`, as a process."""

import re
import sys

import httpx

from support.processes import ChildProcess

ADDRESS = re.compile(r"http://\S+")


class WebProcess(ChildProcess):
    """Serves on a free port of loopback; as a context manager it ends with the block."""

    def __init__(self, *arguments, redis_url, env=None):
        super().__init__(
            [sys.executable, "-W", "error", "-m", "kiqbridge", "web", *arguments],
            env={"REDIS_URL": redis_url, **(env or {})},
        )

    @property
    def address(self) -> str:
        """Where it serves, with a slash at the end; waits until it does."""
        self.wait_for(lambda: ADDRESS.search(self.output), 30, "its address")
        return ADDRESS.search(self.output)[0]

    def get(self, path="", **options) -> httpx.Response:
        return httpx.get(self.address + path, timeout=20, **options)
