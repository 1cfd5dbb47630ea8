"""A schedule together with where it was read: what lists, checks and simulations work on.

Also what a file says beside it that its values do not: comments for the check, a zone that is written down.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import ScheduleState
from kiqbridge.wire.names import shown

_IGNORE: Final = re.compile(r"#\s*lint:\s*ignore\s+([A-Z]{2}[0-9]{3}(?:[\s,]+[A-Z]{2}[0-9]{3})*)")
_ZONE: Final = re.compile(r"([^#]*[\s{,])?[\"']?(ScheduleExpressionTimezone|timezone)[\"']?\s*:")


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


def block_of(lines: Sequence[str], line: int) -> list[str]:
    """The lines of a mapping in YAML: the comments above its key, the key, and what is indented below it.

    Args:
        lines: of the file.
        line: that of the key, counted from 1.
    """
    first = line - 1
    depth = _depth(lines[first])
    end = first + 1
    while end < len(lines) and (not lines[end].strip() or _depth(lines[end]) > depth):
        end += 1
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return list(lines[first:end])


def ignored_codes(block: Sequence[str]) -> frozenset[str]:
    """The codes that comments such as `# lint: ignore KB104, KB106` name."""
    found = (match[1] for text in block if (match := _IGNORE.search(text)))
    return frozenset(code for codes in found for code in re.findall(r"[A-Z]{2}[0-9]{3}", codes))


def names_zone(block: Sequence[str]) -> bool:
    """Whether a zone is written down."""
    return any(_ZONE.match(text) for text in block)


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())
