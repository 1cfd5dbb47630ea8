"""The process behind `support.nursery`: it forks a worker for each line that it reads.

It imports all that a worker does, and has neither threads nor connections.
"""

import json
import os
import selectors
import sys

from kiqbridge.commands import cli, worker_command  # noqa: F401 - so that no worker needs to import it


def main(args: list[str]) -> None:
    """The nursery itself: a line on its input is a log file, and asks for a worker."""
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    os.set_blocking(0, False)
    while True:
        if selector.select(0.01):
            asked = os.read(0, 65536)
            if not asked:
                return
            for log in asked.decode().splitlines():
                pid = os.fork()
                if pid == 0:
                    become(log)
                    os._exit(cli.main(args))
                os.write(1, f"born {pid}\n".encode())
        reap()


def become(log: str) -> None:
    """A process with an empty input and its own output."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)


def reap() -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        os.write(1, f"ended {pid} {os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
