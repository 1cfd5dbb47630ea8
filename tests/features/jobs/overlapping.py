"""Jobs that last until the test releases them."""

import asyncio
import time

from support.noting import FOLDER, hold, note

from kiqbridge import IterableJob, job, server
from kiqbridge.enumerators import sequence

GO = FOLDER / "release"


@job(name="Plain")
def plain(name):
    note("begun", name=name)
    hold()


@job(name="Asynchronous")
async def asynchronous(name):
    note("begun", name=name)
    while not GO.exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)


@job(name="InChild", pool="process")
def in_child(name):
    note("begun", name=name)
    hold()


class Steps(IterableJob):
    def build_enumerator(self, name, *, cursor):
        note("begun", name=name)
        return sequence(range(100_000), cursor=cursor)

    def each_iteration(self, item, name):
        if GO.exists():
            self.abort()
        time.sleep(0.01)


@server.middleware.add
def seen(_instance, payload, _queue, call_next):
    note("middleware", name=payload["args"][0])
    return call_next()
