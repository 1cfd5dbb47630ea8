"""Pushes that the tasks of an event loop make at the same time travel together.

1. `await group.write(job)` appends the job to those of its event loop that wait. If no write of that loop is under
   way, a thread (`off_loop`) begins one.
2. The thread takes what waits, up to `MOST` jobs, and writes them in one round trip (`JobWriter.write_each`).
3. The event loop gives each task its own answer or error, and begins the next write with what has come meanwhile.

So a job waits for at most one round trip before its own, a hundred tasks cost one thread switch in place of a
hundred, and a task that pushes alone waits as long as it would with a thread of its own. A task that is cancelled
gets no answer: its job is enqueued if it was taken before.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from kiqbridge.client.job_writer import JobWriter
from kiqbridge.client.off_loop import push_threads
from kiqbridge.client.prepare import PreparedJob

MOST: Final = 1_000
"""Jobs in one write, as in a round trip of a bulk push (protocol §5.7)."""


class _Push(NamedTuple):
    job: PreparedJob
    answer: "asyncio.Future[None]"


class _Line:
    """The pushes of one event loop; all but `take` is called on it."""

    __slots__ = ("is_writing", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Push] = deque()
        self.is_writing = False

    def take(self) -> list[_Push]:
        """The first of those that wait and were not cancelled."""
        taken: list[_Push] = []
        while self.waiting and len(taken) < MOST:
            push = self.waiting.popleft()
            if not push.answer.cancelled():
                taken.append(push)
        return taken


class GroupCommit:
    """Writes the jobs of tasks; used by any number of event loops."""

    def __init__(self, writer: JobWriter) -> None:
        self._writer = writer
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()

    async def write(self, job: PreparedJob) -> None:
        """Write a job that runs now, with those of other tasks.

        Raises:
            KiqbridgeError: as `Client.push`; it concerns this job.
        """
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            line = self._lines[loop] = _Line()
        answer = loop.create_future()
        line.waiting.append(_Push(job, answer))
        if not line.is_writing:
            line.is_writing = True
            push_threads().submit(self._write_next, loop, line)
        await answer

    def _write_next(self, loop: asyncio.AbstractEventLoop, line: _Line) -> None:
        taken = line.take()
        errors: list[BaseException | None]
        try:
            errors = [*self._writer.write_each([push.job for push in taken])]
        except BaseException as error:  # noqa: BLE001 - a task that waits must get an answer
            errors = [error] * len(taken)
        with suppress(RuntimeError):  # the loop is closed, and no task waits any more
            loop.call_soon_threadsafe(self._answer, loop, line, taken, errors)

    def _answer(
        self,
        loop: asyncio.AbstractEventLoop,
        line: _Line,
        taken: list[_Push],
        errors: list[BaseException | None],
    ) -> None:
        for (_, answer), error in zip(taken, errors, strict=True):
            if answer.done():
                continue  # cancelled meanwhile
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)
        line.is_writing = bool(line.waiting)
        if line.waiting:
            push_threads().submit(self._write_next, loop, line)
