"""A connection to nothing: what is pushed through it is performed in memory before the push returns.

For `task_always_eager` of the Celery module, whose chains, groups and batches need no server either. It stands in for
the default client only; within `fake` and `inline` these count.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from kiqbridge.client.client import Client
from kiqbridge.store.redis_pool import RedisPool, has_stand_in
from kiqbridge.store.replies import Replicas
from kiqbridge.store.round_trip import Command
from kiqbridge.store.scripts import Script
from kiqbridge.testing.fake_jobs import MOST_JOBS, FakeJobs
from kiqbridge.testing.performing import EndlessJobs

_ADDRESS: Final = "redis://eager.invalid:6379/0"


class EagerPool(RedisPool):
    """Performs at once what is pushed, what is due later as well, and tries again at once.

    Args:
        propagates: whether the error of a job is raised in the place of the push.
    """

    def __init__(self, propagates: Callable[[], bool]) -> None:
        super().__init__(_ADDRESS)
        self._jobs = FakeJobs(pool=self)
        self._propagates = propagates
        self._performing = threading.Lock()

    def run(self, *commands: Command, **options: Any) -> list[Any]:
        """Run commands, and perform the jobs that they push."""
        if has_stand_in():
            return super().run(*commands, **options)
        replies = self._jobs.memory.run(commands)
        self._perform()
        return replies

    def script(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str | bytes | float],
        *,
        repeatable: bool = True,
        replicas: Replicas | None = None,
    ) -> Any:
        """Run a script, and perform the jobs that it pushes."""
        if has_stand_in():
            return super().script(script, keys, args, repeatable=repeatable, replicas=replicas)
        answer = self._jobs.memory.script(script, keys, args)
        self._perform()
        return answer

    def _perform(self) -> None:
        """Perform all that waits; what a job pushes is performed after it, by the call that performs that job."""
        if not self._performing.acquire(blocking=False):
            return
        jobs, count = self._jobs, 0
        try:
            while count < MOST_JOBS:
                count += jobs.drain(raise_errors=self._propagates())
                later = [each.at for each in (*jobs.scheduled, *jobs.retries) if each.at]
                if not later:
                    return
                jobs.clock.travel(max(min(later), jobs.clock.now()))
            self._refuse(count)
        except BaseException:
            jobs.clear()
            raise
        finally:
            self._performing.release()

    @staticmethod
    def _refuse(count: int) -> NoReturn:
        raise EndlessJobs(f"{count:,} jobs enqueue each other: performed at once, that never ends")


def eager_client(propagates: Callable[[], bool]) -> Client:
    """A client with an `EagerPool` of its own."""
    return Client(namespace="", pool=EagerPool(propagates))
