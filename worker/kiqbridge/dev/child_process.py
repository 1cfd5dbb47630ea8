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
    stdin: Stream = subprocess.DEVNULL,
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
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_fds,
        start_new_session=True,
        # Calls libc once and takes no lock, so that it is safe although threads may run.
        preexec_fn=_deadly(when_we_die),  # noqa: PLW1509 - there is no other way to ask for it
    )


def spawn_read(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    show: Callable[[str], None],
    on_end: Callable[[], None],
) -> tuple[subprocess.Popen[bytes], threading.Thread]:
    """Start a child that is killed with us, and the thread that reads its output.

    Args:
        command: its program and arguments.
        env: all that it gets.
        show: called with each line of its output.
        on_end: called when its output has ended.
    """
    process = spawn(
        command,
        when_we_die=signal.SIGKILL,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    def read() -> None:
        if process.stdout is not None:
            with contextlib.closing(process.stdout) as output:
                for line in output:
                    show(line.decode(errors="replace").rstrip("\n"))
        on_end()

    reader = threading.Thread(target=read, name="child-output", daemon=True)
    reader.start()
    return process, reader


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
