"""What queues and sorted sets of jobs have in common: reading them in parts, and acting on their jobs."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from kiqbridge.api import actions
from kiqbridge.api.filters import Filter

READ_AT_ONCE: Final = 100
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Row]):
    """A part of a list.

    Attributes:
        number: of this page, from 1 on.
        size: rows of a full page.
        total: rows of all pages together.
        rows: those of this page.
    """

    number: int
    size: int
    total: int
    rows: Sequence[Row]

    @property
    def count(self) -> int:
        """How many pages there are, at least 1."""
        return max(1, -(-self.total // self.size))


class ListedJob(actions.PlacedJob):
    """A job in a queue or a sorted set.

    Attributes:
        parent: where it was found.
    """

    parent: "JobList[Any]"

    def delete(self) -> bool:
        """Remove it; whether it was still there."""
        return bool(self.parent.apply("delete", [self]))

    def kill(self) -> bool:
        """Move it to the dead set; whether it was still there."""
        return bool(self.parent.apply("kill", [self]))


Listed = TypeVar("Listed", bound=ListedJob)


class JobList(actions.Jobs, Generic[Listed]):
    """Jobs that can be read in parts, and acted on."""

    @abstractmethod
    def scan(self, where: Filter | None = None, *, now: float) -> Iterator[Listed]:
        """All jobs that match; what is added meanwhile may come, too, and in a queue lets some come twice.

        What is sure of a filter (a class, a text) is looked for at the server, so only what may match is sent.
        A set is read from the lowest score up, a queue from the last pushed on.

        Args:
            where: which; default all.
            now: epoch seconds, for ages.
        """

    def find_job(self, jid: str) -> Listed | None:
        """The job with this jid, None if it is not here; looks through all of it, part by part."""
        found = self.scan(Filter(text=jid), now=0.0) if jid else iter(())
        return next((job for job in found if job.jid == jid), None)

    def apply(
        self,
        action: actions.Action,
        jobs: Sequence[Listed],
        *,
        at: actions.Moment | None = None,
        to: str | None = None,
    ) -> actions.Applied:
        """Do the same to several jobs, in their order.

        Args:
            action: of a set `retry` (push now), `kill`, `delete`, `reschedule` or `move` (another queue, at the same
                time); of a queue `delete`, `kill` (to the dead set) or `move` (behind what waits there).
            jobs: as they were read from here.
            at: the new time for `reschedule`, epoch seconds, or a function of each job that returns them.
            to: name of the queue to move to.

        Returns:
            How many were still there as they were read; its `refused` and `reason` are of those that stay, such as
            what cannot be pushed.

        Raises:
            PayloadError: a wrong argument, or none could be.
            RedisUnavailable: repeat it; what was moved is not moved again.
        """
        shown = ", ".join(f"{job.display_class} {job.jid}" for job in jobs[:3])
        more = f" and {len(jobs) - 3} more" if len(jobs) > 3 else ""  # noqa: PLR2004 - as many as above
        running: actions.Operation[Listed] = actions.Operation(
            self, action, shown + more, at=at, to=to
        )
        running.run(jobs, thorough=True)
        return running.finish()

    def apply_all(
        self,
        action: actions.Action,
        where: Filter | None = None,
        *,
        at: actions.Moment | None = None,
        to: str | None = None,
        limit: int | None = None,
        progress: actions.Progress | None = None,
    ) -> actions.Applied:
        """Do the same to all jobs that match, the lowest score or the next to be taken first, in batches.

        Args:
            action, at, to: as for `apply`.
            where: which; default all.
            limit: how many, at most.
            progress: called after each batch with how many were moved, and how many were looked at.

        Returns:
            How many were moved, as `apply`.

        Raises:
            As `apply`; batches before were carried out.
        """
        running: actions.Operation[Listed] = actions.Operation(
            self, action, str(where) if where else "all", at=at, to=to
        )
        for looked_at in self._carry_out(running, where or Filter(), limit):
            if progress is not None:
                progress(running.done, looked_at)
            if limit is not None and running.done >= limit:
                break
        return running.finish()

    def visit(self, where: Filter, seen: Callable[[Sequence[Listed]], object]) -> None:
        """Show all jobs that match, part by part, in the order in which `apply_all` takes them; nothing is changed.

        Args:
            where: which; an empty one: all.
            seen: called with each part; what workers take meanwhile lets some come twice.
        """
        for _ in self._carry_out(actions.Look(seen), where, None):
            pass

    @abstractmethod
    def _carry_out(
        self, running: actions.Operation[Listed], where: Filter, limit: int | None
    ) -> Iterator[int]:
        """Do it part by part; yields after each how many jobs were looked at."""

    def clear(self) -> int:
        """Delete all jobs, and a queue's name from the list of queues (§22); how many jobs there were."""
        return actions.clear_jobs(self)
