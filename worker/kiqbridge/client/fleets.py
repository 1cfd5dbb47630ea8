"""What the kernel asks of fleets, where the setting `fleets` names some; the feature `fleets` has them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from kiqbridge.client.job_writer import JobWriter
from kiqbridge.client.prepare import PreparedJob


class FleetWriters(Protocol):
    """The writers of one client.

    Attributes:
        own: name of the own fleet; empty: it has none.
        writers: by the name of the fleet.
    """

    own: str
    writers: Mapping[str, JobWriter]

    def has(self, queue: str) -> bool:
        """Whether the queue belongs to the own fleet."""

    def name_of(self, queue: str) -> str:
        """The name of a queue's fleet; raises PayloadError if it has none."""

    def writer(self, jobs: Sequence[PreparedJob]) -> JobWriter:
        """The writer for the jobs of one call; raises PayloadError: they belong to several fleets, or to none."""

    def check_own(self, queue: str) -> None:
        """Refuse a job of another fleet in what belongs to the own one; raises PayloadError."""

    def find_tick(self, writer: JobWriter | None, schedule: str, instant: int) -> list[str] | None:
        """The jids of an occurrence in the ledgers of the fleets but that of a writer; None: it is in none."""

    def others(self) -> Iterator[tuple[str, JobWriter]]:
        """Name and writer of each fleet but the own one."""

    def close(self) -> None:
        """Close idle connections to other fleets."""
