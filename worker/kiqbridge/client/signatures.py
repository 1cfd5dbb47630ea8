"""What type checkers compare a call with: the signature of the job that is enqueued.

`@job` keeps it as a ParamSpec. A class has it in its `perform`; an iterable job in `each_iteration`, behind
the item: that is the same list as that of `build_enumerator`, which has `cursor` besides, and only there a
ParamSpec can be cut at the right place. Both mypy and pyright find it by these protocols.
"""

from typing import Any, Generic, ParamSpec, Protocol, TypedDict, TypeVar, TypeVarTuple

P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class HasPerform(Protocol[P]):
    """A job written as a class."""

    def perform(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """What a worker calls."""


class HasIteration(Protocol[P]):
    """An iterable job."""

    def each_iteration(self, item: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """What a worker calls for each item."""


class PerformsRow(Protocol[*Ts]):
    """A class whose `perform` can be called with these positional arguments."""

    def perform(self, *args: *Ts) -> Any:
        """What a worker calls."""


class IteratesRow(Protocol[*Ts]):
    """The same for an iterable job."""

    def each_iteration(self, item: Any, /, *args: *Ts) -> Any:
        """What a worker calls for each item."""


class EnqueuesRow(Protocol[*Ts]):
    """A job declared by `@job`, or a job with options: it is enqueued with these positional arguments."""

    def perform_async(self, *args: *Ts) -> Any:
        """Enqueue now."""


class JobCall(Generic[P]):
    """The arguments of one job of a `perform_bulk`, made and checked by `with_args` of the job.

    Attributes:
        job: name of the job that they are for.
        args: as they go on the wire.
    """

    __slots__ = ("args", "job")

    def __init__(self, job: str, args: list[Any]) -> None:
        self.job = job
        self.args = args

    def __repr__(self) -> str:
        return f"<arguments of {self.job}>"


class BulkOptions(TypedDict, total=False):
    """What `perform_bulk` takes besides the arguments."""

    batch_size: int
    """How many jobs one round trip carries; default 1,000."""
    at: float | list[float] | None
    """When they run, epoch seconds: one time, or one for each."""
    spread_interval: float | None
    """Each job gets a random time within so many seconds."""
