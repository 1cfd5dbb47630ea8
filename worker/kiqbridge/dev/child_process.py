"""Child processes in sessions of their own, so that Ctrl-C reaches only us; they do not outlive us."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

PR_SET_PDEATHSIG: Final = 1

Stream = int | IO[bytes] | None


def spawn(
    command: Sequence[str],
    *,
    when_we_die: signal.Signals,
    env: Mapping[str, str] | None = None,
    stdout: Stream = None,
    stderr: Stream = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a child that gets the signal `when_we_die`, even if we are killed (on Linux).

    Call it on the main thread: to the kernel the parent is the thread that started the child.
    """
    return subprocess.Popen(  # noqa: S603 - commands of ours, no shell
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        start_new_session=True,
        # Calls libc once and takes no lock, so that it is safe although threads may run.
        preexec_fn=_deadly(when_we_die),  # noqa: PLW1509 - there is no other way to ask for it
    )


class Command:
    """A command of ours as a child that is killed with us, and the thread that reads its output.

    Args:
        words: its name and flags.
        env: all that it gets.
        show: called with each line of its output.
        on_end: called when its output has ended.

    Attributes:
        process: the child.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        show: Callable[[str], None],
        on_end: Callable[[], None],
    ) -> None:
        self.process = spawn(
            [sys.executable, "-m", "kiqbridge", *words],
            when_we_die=signal.SIGKILL,
            env={**env, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._show = show
        self._on_end = on_end
        self._reader = threading.Thread(target=self._read, name="child-output", daemon=True)
        try:
            self._reader.start()
        except BaseException:
            self.process.kill()
            raise

    def join(self) -> None:
        """Wait until its output is shown, not for ever: a child of a job may hold the pipe open."""
        self._reader.join(2)

    def stop(self, timeout_s: float) -> None:
        """As the function `stop`; returns when its output is shown."""
        stop(self.process, timeout_s)
        self.join()

    def _read(self) -> None:
        if self.process.stdout is not None:
            with self.process.stdout as output:
                for line in output:
                    self._show(line.decode(errors="replace").rstrip("\n"))
        self._on_end()


def stop(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """TERM, wait, and KILL if that was not enough."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout_s)
    if process.poll() is None:
        process.kill()
        process.wait()


def _deadly(number: signal.Signals) -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    # PyDLL does not release the interpreter lock, which could not be acquired again in the forked child.
    prctl = ctypes.PyDLL(None).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask
