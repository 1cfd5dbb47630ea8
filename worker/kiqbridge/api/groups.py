"""Jobs that failed by class and error: what the sets of retries and of dead jobs consist of."""

from dataclasses import dataclass, replace
from typing import Final

from kiqbridge.api.filters import Filter
from kiqbridge.api.sets import JobSet

CHUNK: Final = 500


@dataclass(slots=True)
class Group:
    """The jobs of one class that failed with one error.

    Attributes:
        job_class: as people know it.
        error_class: of the last failure; empty if it never failed.
        message: of the first of them that was looked at.
        count: how many.
        newest: highest score, epoch seconds.
    """

    job_class: str
    error_class: str
    message: str
    count: int
    newest: float

    @property
    def query(self) -> dict[str, str]:
        """The filter that finds them; a class with signs of a glob is found as well."""
        return {"q": str(Filter.of_class(self.job_class, self.error_class))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of those that were looked at, from the end of the set that is shown first."""

    groups: list[Group]
    looked_at: int
    all: int

    def of(self, job_class: str) -> "Groups":
        """Those of one class."""
        return replace(self, groups=[each for each in self.groups if each.job_class == job_class])


def fetch_groups(job_set: JobSet, most: int) -> Groups:
    """The groups among the first members of a set, in reads of `CHUNK`."""
    found: dict[tuple[str, str], Group] = {}
    looked_at = total = 0
    size = min(most, CHUNK)
    for number in range(1, most // size + 1):
        page = job_set.page(number, size)
        total = page.total
        looked_at += len(page.rows)
        for entry in page.rows:
            key = (entry.display_class, entry.error_class)
            group = found.get(key)
            if group is None:
                group = found[key] = Group(*key, entry.error_message, 0, entry.score)
            group.count += 1
            group.newest = max(group.newest, entry.score)
        if len(page.rows) < size:
            break
    groups = sorted(found.values(), key=lambda group: (-group.count, -group.newest))
    return Groups(groups=groups, looked_at=looked_at, all=total)
