"""A schedule together with where it was read: what lists, checks and simulations work on."""

from dataclasses import dataclass, field

from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import ScheduleState
from kiqbridge.wire.names import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedSchedule:
    """A definition and its place.

    Attributes:
        definition: the schedule.
        source: a path, or `Redis`.
        line: of its beginning in the file, counted from 1; None = it has none.
        kind: of a template's event, `ScheduleV2` or `Schedule`; "" for others.
        function: logical id of the function that a template's event calls; "" for others.
        names_zone: whether a zone is written down; False = UTC, because nothing was.
        ignored: codes of findings that a comment beside it switches off.
        state: that it is paused, or what is skipped, if Redis was asked.
    """

    definition: ScheduleDefinition
    source: str
    line: int | None = None
    kind: str = ""
    function: str = ""
    names_zone: bool = True
    ignored: frozenset[str] = frozenset()
    state: ScheduleState = field(default_factory=ScheduleState)

    @property
    def name(self) -> str:
        """Of the schedule."""
        return self.definition.name

    @property
    def shown_name(self) -> str:
        """The name for people: any bytes may be one in Redis."""
        return shown(self.name)

    @property
    def place(self) -> str:
        """The source, and the line in it."""
        return self.source if self.line is None else f"{self.source}:{self.line}"

    @property
    def classes(self) -> str:
        """The classes of its jobs, or the function of a rule that enqueues none."""
        names = [str(job.get("class") or job.get("active_job")) for job in self.definition.jobs]
        return ", ".join(dict.fromkeys(names)) or f"function {self.function}"

    @property
    def queues(self) -> str:
        """The queues of its jobs."""
        return ", ".join(
            dict.fromkeys(str(job.get("queue", "default")) for job in self.definition.jobs)
        )
