"""A function of the template on this machine: its handler in a child, with its own environment."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kiqbridge.dev import child_process
from kiqbridge.errors import KiqbridgeError

_ANSWER_S: Final = 30.0
_STOP_S: Final = 2.0


class FunctionError(KiqbridgeError):
    """The function raised, or gave no answer.

    Attributes:
        kind: class name of what it raised.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class LocalFunction:
    """One warm environment, used from the main thread.

    Args:
        folder: the function's code.
        handler: MODULE.FUNCTION below it.
        environ: all that the child gets.
        log: file for what it logs and prints, metrics included; None = our standard error.
    """

    def __init__(
        self, *, folder: Path, handler: str, environ: Mapping[str, str], log: Path | None
    ) -> None:
        self._command = [sys.executable, "-m", "kiqbridge.dev.lambda_runtime", str(folder), handler]
        self._environ = environ
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        if log is not None:
            log.unlink(missing_ok=True)

    def start(self) -> None:
        """Start loading the handler; the first invocation waits for it."""
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(self._log.open("ab")) if self._log else None
            self._process = child_process.spawn(
                self._command,
                when_we_die=signal.SIGKILL,
                env=self._environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def invoke(self, event: Any) -> Any:
        """Return the handler's answer.

        Raises:
            FunctionError: what it raised, or that it ended or hung.
        """
        if self._process is None or self._process.poll() is not None:
            self.start()
        answer = json.loads(self._exchange(json.dumps(event).encode() + b"\n"))
        if "error" in answer:
            raise FunctionError(answer["error"], answer["message"])
        return answer["answer"]

    def stop(self) -> None:
        """End the child."""
        process, self._process = self._process, None
        if process is not None:
            child_process.stop(process, _STOP_S)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()

    def _exchange(self, line: bytes) -> bytes:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("start comes first")
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return _read_line(process.stdout.fileno())
        except FunctionError:
            self.stop()  # a late answer would be taken for that to the next event
            raise
        except OSError as error:
            self.stop()
            raise FunctionError("Exit", f"the function's process has ended: {error}") from error


def _read_line(descriptor: int) -> bytes:
    line = b""
    deadline = time.monotonic() + _ANSWER_S
    while not line.endswith(b"\n"):
        left_s = max(0.0, deadline - time.monotonic())
        if not select.select([descriptor], [], [], left_s)[0]:
            raise FunctionError("Timeout", f"no answer within {_ANSWER_S:.0f} s")
        chunk = os.read(descriptor, 65536)
        if not chunk:
            raise FunctionError("Exit", "the function's process ended without an answer")
        line += chunk
    return line
