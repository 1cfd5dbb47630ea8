"""The operator's page beside `kiqbridge dev`: the real command as a child, on loopback, for an administrator.

It starts when the worker is ready, so that it takes no time from the start. A page that ends, or cannot start,
is reported, and the run goes on without it.
"""

import re
from collections.abc import Mapping
from typing import Final

from kiqbridge.dev import child_process
from kiqbridge.dev.console import Console

_ADDRESS: Final = re.compile(r"http://\S+")
_END_WITHIN_S: Final = 5.0
ROLE: Final = "admin"
"""The developer's own machine: no other machine reaches loopback."""


class WebChild:
    """Starts, watches and stops the page; from the main thread.

    Args:
        environ: all that the child gets.
        console: shows its address, and what goes wrong.
    """

    def __init__(self, *, environ: Mapping[str, str], console: Console) -> None:
        self._environ = environ
        self._console = console
        self._child: child_process.Command | None = None
        self._is_ending = False

    @property
    def has_started(self) -> bool:
        """Whether it was started, be it ended or not."""
        return self._child is not None

    def start(self) -> None:
        """Start the child and the thread that reads its output."""
        self._child = child_process.Command(
            ["web", "--host", "127.0.0.1", "--role", ROLE],
            env=self._environ,
            show=self._show,
            on_end=self._ended,
        )

    def ask_to_end(self) -> None:
        """TERM, without waiting: it ends while the worker does."""
        self._is_ending = True
        if self._child is not None and self._child.process.poll() is None:
            self._child.process.terminate()

    def stop(self) -> None:
        """Wait for its end, and force it after a while."""
        self.ask_to_end()
        if self._child is not None:
            self._child.stop(_END_WITHIN_S)

    def _ended(self) -> None:
        code = self._child.process.wait() if self._child else 0
        if code and not self._is_ending:
            self._console.line("error", "", f"the page has ended (exit code {code})")

    def _show(self, line: str) -> None:
        address = _ADDRESS.search(line)
        if address and line.startswith("kiqbridge web serves "):
            self._console.line("web", "", f"the page with queues and jobs: {address[0]}")
        elif not self._is_ending:
            self._console.line("web", "", line.removeprefix("kiqbridge: "))
