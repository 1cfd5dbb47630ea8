"""How many dead jobs are kept and for how long: what a worker publishes, and what holds for a fleet (protocol §8.5)."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

FIELD: Final = "kb_dead"
"""The field of a process' hash in which a worker publishes its bounds; Ruby's readers ignore it."""

WARNING_SHARE: Final = 0.8
"""The share of `max_jobs` from which doctor and page warn."""

KEPT_S: Final = 86_400.0
"""How long is known how many were dropped."""


class DeadBounds(NamedTuple):
    """The bounds of the dead set.

    Attributes:
        max_jobs: one more than the number of jobs that are kept, as in Sidekiq.
        timeout_s: seconds for which a job is kept.
        is_kept: whether the set grows beyond `max_jobs` (`dead_overflow: keep`).
    """

    max_jobs: int = 10_000
    timeout_s: int = 15_552_000
    is_kept: bool = False

    @property
    def most(self) -> int:
        """Jobs that are kept."""
        return self.max_jobs - 1

    def overflow(self, size: int) -> int:
        """How many of so many jobs are too many for the number; 0 if all are kept."""
        return 0 if self.is_kept else max(0, size - self.most)

    def is_near(self, size: int) -> bool:
        """Whether so many jobs are worth a warning."""
        return size >= self.most * WARNING_SHARE

    def field(self) -> str:
        """For the hash of the process: `10000 15552000 drop`."""
        return f"{self.max_jobs} {self.timeout_s} {'keep' if self.is_kept else 'drop'}"


DEFAULT_BOUNDS: Final = DeadBounds()
"""The defaults of Sidekiq."""


def fleet_bounds(published: Iterable[str | bytes | None]) -> DeadBounds:
    """The widest of the bounds that the living workers publish; the defaults if none does.

    Args:
        published: the field `FIELD` of each living process; None, or what is no such field, counts for nothing.
    """
    bounds = [found for each in published if (found := _read(each)) is not None]
    if not bounds:
        return DEFAULT_BOUNDS
    return DeadBounds(
        max_jobs=max(each.max_jobs for each in bounds),
        timeout_s=max(each.timeout_s for each in bounds),
        is_kept=any(each.is_kept for each in bounds),
    )


def _read(field: str | bytes | None) -> DeadBounds | None:
    words = (field.decode("utf-8", "replace") if isinstance(field, bytes) else field or "").split()
    match words:
        case [most, timeout_s, overflow] if most.isdecimal() and timeout_s.isdecimal():
            return DeadBounds(int(most), int(timeout_s), overflow == "keep")
    return None


def dropped_in(notes: Sequence[bytes]) -> int:
    """The sum of what `trim_dead.lua` has noted; what is no such note counts for nothing."""
    counts = [note.partition(b" ")[0] for note in notes]
    return sum(int(count) for count in counts if count.isdigit())
