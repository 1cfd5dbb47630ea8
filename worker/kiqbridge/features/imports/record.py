"""What is read from another program's schedules: those that can be said here, and those that cannot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kiqbridge.errors import ConfigError

Kind = Literal["crontab", "system-crontab", "sidekiq-cron", "sidekiq-scheduler"]
"""Programs that are read."""

Dialect = Literal["cron", "fugit"]
"""Whose rules say when the source fires: cron(8), the Ruby library fugit of the two Sidekiq gems, or Celery."""


class ImportKindError(ConfigError):
    """A file cannot be read as the kind that it was said to be."""


class Unsayable(Exception):  # noqa: N818 - no error: it says why one line is refused
    """One schedule has no counterpart here; the text is the reason and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSchedule:
    """One schedule that was read.

    Attributes:
        name: as the source has it, or made of its class or command; perhaps not unique yet.
        line: in the file, from 1.
        source: the line, or what stands for it.
        expression: five crontab fields, or `rate(…)` or `at(…)`.
        timezone: IANA name in which the expression is read.
        job: item as `Client.push` takes it: class or active_job, args, queue.
        dialect: whose rules the source follows.
        source_expression: as the source has it, if that is written otherwise than `expression`; "" = it is not.
        description: for people; a comment above the line, for example.
        notes: what is different here, and what else has to be done.
        enabled: False = the source had it switched off.
    """

    name: str
    line: int
    source: str
    expression: str
    timezone: str
    job: Mapping[str, Any]
    dialect: Dialect
    source_expression: str = ""
    description: str = ""
    notes: Sequence[str] = ()
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What has no counterpart here: its line, its text and the reason."""

    line: int
    source: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Imported:
    """All of a file, in its order.

    Attributes:
        kind: as which it was read.
        schedules: what can be said here.
        refused: what cannot.
        notes: what concerns the file as a whole.
    """

    kind: Kind
    schedules: list[ImportedSchedule] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def refuse(self, line: int, source: str, reason: object) -> None:
        """Note that a line cannot be said here."""
        self.refused.append(Refused(line=line, source=source, reason=str(reason)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the reader decides that the file leaves open.

    Attributes:
        timezone: of what names none.
        queue: of jobs whose queue is not named.
        shell_queue: of `ShellCommand` jobs.
    """

    timezone: str = "UTC"
    queue: str = "default"
    shell_queue: str = "default"
