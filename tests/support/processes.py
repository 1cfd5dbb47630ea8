"""A child process that a test watches, signals and always ends."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.nursery import Born, can_bear, nursery
from support.waiting import wait_until

OURS = [sys.executable, "-m", "kiqbridge"]


def run_python(
    script: str, *words: str, options: Sequence[str] = (), check: bool = True, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a script in an interpreter of its own."""
    command = [sys.executable, *options, "-c", textwrap.dedent(script), *words]
    given = {"capture_output": True, "text": True, "timeout": 120, **more}
    return subprocess.run(command, check=check, **given)


class ChildProcess:
    """Runs `command` with its output in a file; as a context manager it never outlives the block.

    The child leads a process group of its own, so that the terminal's Ctrl-C reaches the test
    alone, and so that its own children can be ended with it. Its environment is `env` on top of the
    test's own, or, when it shall inherit nothing, `env` alone. A command of ours is forked by the nursery
    (`support.nursery`), which has imported it, unless the test is about the interpreter's own start.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        inherit: bool = True,
        is_forked: bool = True,
    ) -> None:
        self.command = list(command)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._final_output: str | None = None
        environment = {**(os.environ if inherit else {}), **(env or {})}
        if is_forked and self.command[:3] == OURS and can_bear(environment):
            self._process: Born | subprocess.Popen = nursery().bear(
                self.command[3:], environment, cwd, self._file.fileno()
            )
            return
        self._process = subprocess.Popen(
            self.command,
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        """Standard output and error so far, also after the end."""
        if self._final_output is not None:
            return self._final_output
        # Not seek and read: the child writes through the same file offset.
        size = os.fstat(self._file.fileno()).st_size
        return os.pread(self._file.fileno(), size, 0).decode(errors="replace")

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._process.poll()

    @property
    def is_running(self) -> bool:
        return self.exit_code is None

    def wait_for(
        self, condition: Callable[[], object], timeout_s: float = 15, what: str = ""
    ) -> None:
        """Wait until `condition` holds; fails at once, with the output, when the process ends first."""

        def holds() -> bool:
            ended = not self.is_running  # before the look: the last words may fulfil the condition
            if condition():
                return True
            assert not ended, (
                f"ended with {self.exit_code} before {what or condition}:\n{self._told()}"
            )
            return False

        wait_until(holds, timeout_s, lambda: f"{what or condition}; {self._told()}")

    def wait_for_output(self, text: str, timeout_s: float = 15) -> None:
        self.wait_for(lambda: text in self.output, timeout_s, f"{text!r} in the output")

    def wait(self, timeout_s: float = 30) -> int:
        """Wait for its end and return the exit code."""
        wait_until(lambda: not self.is_running, timeout_s, lambda: f"its end; {self._told()}")
        code = self.exit_code
        assert code is not None
        return code

    def signal(self, number: int) -> None:
        """Send a signal to this process alone; SIGSTOP and SIGCONT freeze and wake it."""
        self._process.send_signal(number)

    def stop(self, timeout_s: float = 30) -> int:
        """TERM, wait for the end, return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL this process, not its children: what they do without it is the test's matter."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End what is left of it and of its group; its output stays readable."""
        if self._final_output is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.kill()  # it may not have come to lead a group
        self._process.wait()
        self._final_output = self.output
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if error is not None:
            error.add_note(self._told())

    def _told(self) -> str:
        return f"output of {' '.join(self.command)}:\n{self.output[-8000:]}"


def ran(
    *words: object, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> tuple[int, str]:
    """One of our commands to its end: (exit code, output)."""
    with ChildProcess([*OURS, *map(str, words)], env=env, cwd=cwd) as child:
        return child.wait(), child.output


def is_process_running(pid: int) -> bool:
    """Whether a process lives: it may be stopped, but is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"
