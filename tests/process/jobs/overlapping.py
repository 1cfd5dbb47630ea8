"""Jobs that last until the file `go` is there."""

import asyncio
import os
import time
from pathlib import Path

from kiqbridge import IterableJob, job, server
from kiqbridge.enumerators import sequence

MARKS = Path(os.environ["MARKS"])
GO = MARKS / "go"


def note(name):
    with (MARKS / "begun").open("a", encoding="ascii") as file:
        file.write(f"{name}\n")


@job(name="Plain")
def plain(name):
    note(name)
    while not GO.exists():
        time.sleep(0.01)


@job(name="Asynchronous")
async def asynchronous(name):
    note(name)
    while not GO.exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)


@job(name="InChild", pool="process")
def in_child(name):
    note(name)
    while not GO.exists():
        time.sleep(0.01)


@job(name="Failing")
def failing(name):
    note(name)
    raise ValueError("no luck")


class Steps(IterableJob):
    def build_enumerator(self, name, *, cursor):
        note(name)
        return sequence(range(100_000), cursor=cursor)

    def each_iteration(self, item, name):
        if GO.exists():
            self.abort()
        time.sleep(0.01)


@server.middleware.add
def seen(_instance, payload, _queue, call_next):
    with (MARKS / "seen").open("a", encoding="ascii") as file:
        file.write(f"{payload['args'][0]}\n")
    return call_next()
