"""What a push returns: the jid, which can be asked about its job.

1. `Client.push` makes one for each job: a text with a reference to the client, and nothing else. It costs a fourth of
   a microsecond, and nothing is read.
2. `handle.result()` and `await handle` read `kb:result:JID`, as `kiqbridge.results` does.
3. `handle.status()` and `handle.job()` look for the job as `kiqbridge job JID` does. That is the operator's API, which
   lies above the client and is loaded by its name, once somebody asks.
"""

from collections.abc import Generator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from kiqbridge import seams
from kiqbridge.wire.payload import JobId

if TYPE_CHECKING:
    from kiqbridge.client.operations import Operations
    from kiqbridge.wire.job_record import JobRecord

JobStatus = Literal[
    "running", "queued", "retrying", "scheduled", "dead",
    "done", "discarded", "skipped", "expired", "cancelled", "gone", "deleted", "unknown",
]  # fmt: skip
"""Where a job is, or how it ended."""


class JobHandle(JobId):
    """The jid of a job that was pushed. It is a `str` everywhere else: in JSON, as a key, pickled, copied.

    Attributes:
        client: the `Client` of the Redis where the job was pushed.
    """

    __slots__ = ("client",)
    client: "Operations"

    def status(self) -> JobStatus:
        """Where the job is now: `queued`, `running`, `retrying`, `scheduled`, `dead`, or how it has ended.

        `running`: a worker has it. How a job has ended (`done`, `dead`, `discarded`, `skipped`, `expired`, `cancelled`,
        `gone`, `deleted`) is known of one with `result_ttl` a few milliseconds after its end, of others one to
        ten seconds after it, while their record is kept (`keep_done`); else it is `unknown`. All queues and sets are looked through for it.

        Raises:
            RedisUnavailable, RedisRefused: not everything was read.
        """
        status: JobStatus = self._read(brief=True).status
        return status

    def history(self) -> Any:
        """Its life, a `kiqbridge.api.JobHistory`: its events, the process that has it, and why it waits.

        Raises:
            RedisUnavailable, RedisRefused: not everything was read.
        """
        return self._read(brief=False)

    def job(self) -> "JobRecord | None":
        """The job as `kiqbridge.api` sees it, to be read, deleted or retried; None if it is nowhere now.

        Raises:
            RedisUnavailable, RedisRefused: not everything was read.
        """
        job: JobRecord | None = self._read(brief=True).job
        return job

    def result(self, timeout: float = 30.0) -> Any:
        """What the job returned, once it has ended; blocks until then. It needs `result_ttl`.

        Args:
            timeout: seconds to wait at most; 0 looks once.

        Raises:
            KiqbridgeError: as `kiqbridge.results.await_result`.
        """
        return seams.call("await_result")(str(self), timeout_s=timeout, client=self.client)

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait up to 30 seconds for the result, without blocking the event loop; raises what `result` raises."""
        waiting: Generator[Any, None, Any] = seams.call("aawait_result")(
            str(self), client=self.client
        ).__await__()
        return waiting

    def cancel(self) -> int:
        """Ask an iterable job to end; for others it does nothing. See `Client.cancel`, which raises the same.

        Returns:
            The time of the first request, epoch seconds.
        """
        return self.client.cancel(str(self))

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """A plain text: connections stay here, and another process may have another Redis."""
        return str, (str(self),)

    def _read(self, *, brief: bool) -> Any:
        # By its name: who only enqueues loads nothing of it (tests/test_layers.py).
        api = import_module("kiqbridge.api")
        operator = api.open_operator(client=self.client)
        return api.history_of(str(self), operator, brief=brief)
