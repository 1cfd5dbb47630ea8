"""The event loop on which `async def` jobs of a test run, on a thread of its own as in a worker.

The test may run a loop itself: that one waits while jobs are performed.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import wait
from typing import Any

from kiqbridge.client.server import LoopResources
from kiqbridge.runtime.elastic_executor import ElasticExecutor


class LoopThread:
    """A running loop on which the asynchronous resources are open.

    Attributes:
        is_busy: somebody waits for it; a job on it that performs another one in place needs another loop.

    Raises:
        Exception: what a resource raised while it was opened; the loop has ended.
    """

    def __init__(self, resources: LoopResources) -> None:
        self.loop: asyncio.AbstractEventLoop
        self.is_busy = False
        self.executor = ElasticExecutor("kiqbridge-testing", idle_s=0.1)
        self._resources = resources
        self._started = threading.Event()
        self._stop: asyncio.Event
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="kiqbridge-testing", daemon=True
        )
        self._thread.start()
        self._started.wait()
        try:
            self.run(resources.__aenter__())
        except BaseException:
            self._end()
            raise

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run to the end in the caller's context, and return its result; raises what was raised there."""
        outcome: BaseException | None = asyncio.CancelledError("cancelled before it began")
        result: Any = None

        async def run() -> None:
            nonlocal outcome, result
            try:
                result = await coroutine
            except BaseException as error:  # noqa: BLE001 - SystemExit would end the loop
                outcome = error
            else:
                outcome = None

        former, self.is_busy = self.is_busy, True
        try:
            # Of the future, not of `run`: a task that is cancelled before its first step never runs it.
            wait([asyncio.run_coroutine_threadsafe(run(), self.loop)])
        finally:
            self.is_busy = former
        if outcome is not None:
            raise outcome
        return result

    def serves(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this thread still runs the loop."""
        return loop is self.loop and self._thread.is_alive()

    def close(self) -> None:
        """Close the resources and end the loop; raises what closing them raised."""
        try:
            self.run(self._resources.__aexit__())
        finally:
            self._end()

    def _end(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._started.set()
        await self._stop.wait()
