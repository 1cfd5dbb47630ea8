"""What a set consists of: its jobs by class and error, the largest groups first."""

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.api import JobSet, SortedEntry
from kiqbridge.web.pages.listing import CHUNK

AT_ONCE: Final = 200
"""Members that the page of a set looks at: about two milliseconds."""
AT_MOST: Final = 20_000
"""Members that the page of groups looks at: about a fifth of a second."""
AT_ONCE_FRESH_S: Final = 5.0
AT_MOST_FRESH_S: Final = 30.0


@dataclass(slots=True)
class Group:
    """The jobs of one class that failed with one error.

    Attributes:
        job_class: as people know it.
        error_class: of the last failure; empty if it never failed.
        message: of the first of them that was looked at.
        count: how many.
        newest, oldest: highest and lowest score, epoch seconds.
    """

    job_class: str
    error_class: str
    message: str
    count: int
    newest: float
    oldest: float

    @property
    def query(self) -> dict[str, str]:
        """The filter that finds them; a class with signs of a glob is found as well."""
        found = {"class": glob.escape(self.job_class)}
        if self.error_class:
            found["error_class"] = glob.escape(self.error_class)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Groups of those that were looked at, from the end of the set that is shown first."""

    groups: list[Group]
    looked_at: int
    all: int


def fetch_groups(job_set: JobSet, most: int) -> Groups:
    """The groups among the first members of a set, in reads of `CHUNK`."""
    found: dict[tuple[str, str], Group] = {}
    looked_at = total = 0
    size = min(most, CHUNK)
    for number in range(1, most // size + 1):
        page = job_set.page(number, size)
        total = page.total
        looked_at += len(page.rows)
        for entry, group in _grouped(page.rows, found):
            group.count += 1
            group.newest = max(group.newest, entry.score)
            group.oldest = min(group.oldest, entry.score)
        if len(page.rows) < size:
            break
    groups = sorted(found.values(), key=lambda group: (-group.count, -group.newest))
    return Groups(groups=groups, looked_at=looked_at, all=total)


def _grouped(
    entries: Sequence[SortedEntry], found: dict[tuple[str, str], Group]
) -> Iterator[tuple[SortedEntry, Group]]:
    for entry in entries:
        key = (entry.display_class, entry.error_class)
        group = found.get(key)
        if group is None:
            group = Group(*key, entry.error_message, 0, entry.score, entry.score)
            found[key] = group
        yield entry, group
