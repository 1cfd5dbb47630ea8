"""The process behind `support.nursery`: it forks a command for each packet that it reads.

It imports all that a worker does, and has neither threads nor connections.
"""

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time

import setproctitle

from kiqbridge.commands import cli, supervisor, worker_command  # noqa: F401 - so that no child needs to import them
from kiqbridge.engine.compose import load_before_fork

GIVEN = os.environ.get("PYTHONPATH", "").split(os.pathsep)


def main(parent: socket.socket) -> None:
    """The nursery itself: a packet is a request, with the descriptor of the output."""
    asked_or_ended = selectors.DefaultSelector()
    waking, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    asked_or_ended.register(parent, selectors.EVENT_READ)
    asked_or_ended.register(waking, selectors.EVENT_READ)
    while True:
        ready = {key.fileobj for key, _ in asked_or_ended.select()}
        if waking in ready:
            os.read(waking, 4096)
            reap(parent)
        if parent in ready:
            request, [*outputs], _, _ = socket.recv_fds(parent, 1 << 20, 1)
            if not request:
                return
            pid = os.fork()
            if pid == 0:
                asked = json.loads(request)
                become(asked, outputs[0])
                run(asked["words"])
            parent.send(b"born %d" % pid)
            os.close(outputs[0])


def become(asked: dict, output: int) -> None:
    """A process with an empty input, its own output, session, environment, folder and import path."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    for name in os.environ.keys() - asked["env"].keys():
        del os.environ[name]
    os.environ.update(asked["env"])
    time.tzset()
    os.chdir(asked["cwd"])
    given = asked["env"].get("PYTHONPATH", "").split(os.pathsep)
    own = [each for each in sys.path[1:] if each not in GIVEN]
    sys.path[:] = [asked["cwd"], *filter(None, given), *own]
    sys.argv[:] = ["kiqbridge", *asked["words"]]
    importlib.invalidate_caches()


def run(words: list[str]) -> None:
    """The command, and the end of the process as the interpreter ends one."""
    try:
        code = cli.main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code or 0)


def reap(parent: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        parent.send(b"ended %d %d" % (pid, os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    load_before_fork()
    setproctitle.getproctitle()  # it remembers where the title is; a child has another environment
    gc.freeze()
    main(socket.socket(fileno=int(sys.argv[1])))
