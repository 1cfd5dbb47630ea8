"""What enqueuing a chain or a group returns: an id that can be asked how far that is, and for what came of it."""

import time
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from kiqbridge import seams
from kiqbridge.client.off_loop import off_loop
from kiqbridge.errors import JobFailed, ResultTimeout
from kiqbridge.features.batches.status import State, read_statuses, scan_members
from kiqbridge.features.batches.steps import Step, member_of
from kiqbridge.wire.payload import JobId

if TYPE_CHECKING:
    from kiqbridge.client.client import Client

FlowStatus = Literal["running", "done", "failed", "cancelled", "unknown"]

FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.25

_STATUS: Final[dict[State, FlowStatus]] = {
    "open": "running",
    "running": "running",
    "failed": "failed",
    "succeeded": "done",
    "cancelled": "cancelled",
}


def waits(timeout: float, what: str) -> Iterator[float]:
    """Seconds from one look to the next; raises `ResultTimeout` when there is no time left."""
    until, pause_s = time.monotonic() + timeout, FIRST_PAUSE_S
    while (left_s := until - time.monotonic()) > 0:
        yield min(pause_s, left_s)
        pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
    raise ResultTimeout(f"{what} after {timeout:g} s")


class FlowHandle(JobId):
    """The jid of the first job of a chain, or the bid of its first group: a `str` everywhere else.

    Attributes:
        client: the `Client` of the Redis where it was enqueued.
        bid: the batch that counts its steps: its own, or the one in whose block it was enqueued.
    """

    __slots__ = ("_names", "_shape", "bid", "client")
    client: "Client"
    bid: str
    _names: Sequence[str]
    _shape: Any

    @classmethod
    def of(cls, steps: Sequence[Step], client: "Client", bid: str, *, is_own: bool) -> Self:
        """A handle of these steps; `is_own`: the batch counts nothing else."""
        first = steps[0]
        handle = cls(first["bid"] if "group" in first else first["job"]["jid"])
        handle.client, handle.bid = client, bid
        handle._names = () if is_own else tuple(map(member_of, steps))
        handle._shape = _shape(steps[-1])
        return handle

    def status(self) -> FlowStatus:
        """The state: `running`, `done`, `failed`, `cancelled`, or `unknown` if Redis has no batch of it (yet, any more).

        `failed`: a job of it ended without success, and none is left to run. If an operator retries a dead
        job of it, it continues.

        Raises:
            RedisUnavailable: nothing was read.
        """
        [found] = read_statuses(self.client, [self.bid])
        if found is None:
            return "unknown"
        if not self._names or found.cancelled_at is not None:
            return _STATUS[found.state]
        key = self.client.keys.batch_members(self.bid)
        states = self.client.pool.call("HMGET", key, *self._names)
        if b"f" in states:
            return "failed"
        return "done" if set(states) == {b"d"} else "running"

    def wait(self, timeout: float = 30.0) -> FlowStatus:
        """Block until it has ended, and return its status.

        Args:
            timeout: seconds to wait at most; 0 looks once.

        Raises:
            ResultTimeout: it runs still.
            RedisUnavailable: nothing was read.
        """
        pauses = waits(timeout, f"{self}: it has not ended, or its batch {self.bid} is not kept")
        while (status := self.status()) in ("running", "unknown"):
            time.sleep(next(pauses))
        return status

    def result(self, timeout: float = 30.0) -> Any:
        """What its last job returned, once it is done; of a group a list, in the order of its members. Blocks until then.

        It needs `result_ttl` of these jobs.

        Args:
            timeout: seconds to wait at most; 0 looks once.

        Raises:
            JobFailed: a job of it ended without success; or it was cancelled.
            KiqbridgeError: as `wait`, and as `kiqbridge.results.await_result`.
        """
        status = self.wait(timeout)
        if status != "done":
            raise self._failed(status)
        return self._value(self._shape)

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait up to 30 seconds for the result, without blocking the event loop; raises what `result` raises."""
        waiting: Generator[Any, None, Any] = off_loop(self.result).__await__()
        return waiting

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """A plain text, as of `JobHandle`."""
        return str, (str(self),)

    def _value(self, shape: Any) -> Any:
        if isinstance(shape, list):
            return [self._value(each) for each in shape]
        return seams.call("await_result")(shape, timeout_s=1.0, client=self.client)

    def _failed(self, status: FlowStatus) -> JobFailed:
        members = scan_members(self.client, self.bid)
        mine = set(self._names)
        failed = (name for name, state in members if state == "f" and (not mine or name in mine))
        name = next(failed, str(self)).removeprefix("b:")
        kept = seams.call("fetch_result")(name, client=self.client)
        if kept is None:
            return JobFailed(name, status)
        return JobFailed(name, kept.outcome, kept.error, kept.message)


def _shape(step: Step) -> Any:
    """The jid of a job, or a list of what the members of a group come to."""
    if "group" in step:
        return [_shape(lane[-1]) for lane in step["group"]]
    return step["job"]["jid"]
