"""Run a command so that Ctrl-C reaches it and not `make`.

The terminal sends SIGINT to every process of its foreground group. `make` always dies of it, with
"*** [up] Interrupt" and status 130, even when the command ended in order with 0. So the command
gets a process group of its own and the terminal until it ends, as a shell does for its jobs.
Without a terminal, or in the background, the command simply takes this process' place.
"""

# ruff: noqa: INP001 - a script of the Makefile, in no package

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main(command: list[str]) -> int:
    """Run `command` in the foreground and return its exit status as a shell would."""
    terminal = open_terminal()
    if terminal is None or os.tcgetpgrp(terminal) != os.getpgrp():
        become(command)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # we hand the terminal around from behind
    child = os.fork()
    if child == 0:
        run_child(terminal, command)
    pass_on_signals(child)
    code = os.waitstatus_to_exitcode(wait_in_foreground(terminal, child))
    return code if code >= 0 else 128 - code


def open_terminal() -> int | None:
    """The controlling terminal's descriptor, or None without one."""
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def run_child(terminal: int, command: list[str]) -> NoReturn:
    """Take a group and the terminal, then become the command."""
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    become(command)


def become(command: list[str]) -> NoReturn:
    """Replace this process by the command."""
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(127)


def pass_on_signals(child: int) -> None:
    """What is sent to us, by `make` for one, is meant for the command."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)


def wait_in_foreground(terminal: int, child: int) -> int:
    """Wait for the command's end; a command stopped by Ctrl-Z stops `make` too, and goes on with it."""
    ours = os.getpgrp()
    while True:
        _, status = os.waitpid(child, os.WUNTRACED)
        with contextlib.suppress(OSError):  # the window may have been closed
            os.tcsetpgrp(terminal, ours)
        if not os.WIFSTOPPED(status):
            return status
        os.killpg(ours, signal.SIGTSTP)
        if os.tcgetpgrp(terminal) == ours:  # not after `bg`
            os.tcsetpgrp(terminal, child)
        os.killpg(child, signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
