"""Jobs that change what all jobs of a process share, and jobs that look; see `test_process_state.py`."""

import asyncio
import contextlib
import gc
import locale
import logging
import os
import resource
import socket
import sys
import time
from pathlib import Path

from support.noting import hold, note

from kiqbridge import job
from kiqbridge.client.registry import default_registry

if os.environ.get("FEW_FILES"):
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
OPENED = []


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def state() -> dict[str, object]:
    return {
        "folder": str(Path.cwd()),
        "umask": umask(),
        "given": os.environ.get("GIVEN"),
        "zone": [os.environ.get("TZ"), time.timezone],
        "locale": locale.setlocale(locale.LC_ALL),
        "path": [each for each in sys.path if each != "added"],
        "streams": [sys.stdout.closed, sys.stderr.closed, sys.stdout.fileno()],
        "clock": time.time() > 1_700_000_000,
        "timeout": socket.getdefaulttimeout(),
        "collector": gc.isenabled(),
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
        "limits": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "logging": [
            len(logging.getLogger().handlers),
            logging.getLogger("kiqbridge.engine.launcher").isEnabledFor(logging.WARNING),
        ],
        "jobs": sorted(definition.name for definition in default_registry),
    }


def change(what: str) -> None:
    if what == "folder":
        os.chdir("/")
    elif what == "umask":
        os.umask(0o777)
    elif what == "environment":
        os.environ.clear()
    elif what == "zone":
        os.environ["TZ"] = "Pacific/Kiritimati"
        time.tzset()
    elif what == "locale":
        locale.setlocale(locale.LC_ALL, "C.UTF-8" if "LC_ALL" in os.environ else "C")
    elif what == "path":
        sys.path = []
    elif what == "streams":
        sys.stdout.close()
        sys.stderr = None
    elif what == "clock":
        time.time = time.monotonic = lambda: 0
    elif what == "timeout":
        socket.setdefaulttimeout(0.0001)
    elif what == "collector":
        gc.disable()
    elif what == "recursion":
        sys.setrecursionlimit(100)
    elif what == "switch":
        sys.setswitchinterval(5)
    elif what == "limits":
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )
    elif what == "logging":
        logging.getLogger().handlers.clear()
        logging.disable(logging.CRITICAL)
        logging.getLogger("kiqbridge.engine.launcher").disabled = True
    elif what == "jobs":
        default_registry.__init__()


@job(name="Change")
def change_in_thread(what: str) -> None:
    note("changed", what=what)
    change(what)


@job(name="ChangeInProcess", pool="process")
def change_in_process(what: str) -> None:
    note("changed", what=what)
    change(what)


@job(name="Look")
def look() -> None:
    note("state", **state())


@job(name="LookInProcess", pool="process")
def look_in_process() -> None:
    note("state", **state())


@job(name="Later")
async def later() -> None:
    await asyncio.sleep(0)
    note("later")


@job(name="Hold")
def hold_here() -> None:
    note("hold")
    hold()


@job(name="HoldElsewhere")
def hold_elsewhere() -> None:
    with contextlib.chdir("/"):
        note("hold", folder=str(Path.cwd()))
        hold()
        note("held", folder=str(Path.cwd()))


@job(name="Close")
def close(which: str) -> None:
    note("close")
    if which == "all":
        os.closerange(3, 1024)
        return
    for handle in range(3, 1024):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(handle)) as copy:
            if isinstance(copy.getpeername(), tuple):  # a connection to Redis; some are seldom used
                os.close(handle)


@job(name="CloseInProcess", pool="process")
def close_in_process() -> None:
    note("close")
    os.closerange(3, 1024)


@job(name="OpenAll")
def open_all() -> None:
    note("open")
    with contextlib.suppress(OSError):
        while True:
            OPENED.append(os.open(os.devnull, os.O_RDONLY))
