"""What a rule is, and what it finds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal

from kiqbridge.api import Fact, verdict
from kiqbridge.api.acts import Act
from kiqbridge.wire.names import printable as plain

Area = Literal["now", "redis", "wire", "worker", "template"]
AREAS: Final[tuple[Area, ...]] = ("now", "redis", "wire", "worker", "template")

EXAMPLES: Final = 3
"""So many of what was found are named; of the others only the number."""


LONGEST_WHAT: Final = 1000
"""Characters of a sentence that names what others have named."""

LONGEST: Final = 100
"""Characters of a name that are shown."""

LONGEST_FOUND: Final = 4000
"""Characters of any finding: a queue's name may be a megabyte."""


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """It works, and may not for long, or not as was meant."""
    PROBLEM = "problem"
    """Jobs are lost, late or refused, or will be."""
    UNKNOWN = "unknown"
    """It cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one rule found.

    Attributes:
        rule: its id.
        area: what it looks at.
        status: how it ended.
        what: what was found.
        why: why that matters; empty where all is well.
        action: what to do about it; empty where all is well.
        link: path of the page that shows more, if there is one.
        command: to be copied into a terminal; it does it, or shows more.
        acts: what the page can do about it.
    """

    rule: str
    area: Area
    status: Status
    what: str
    why: str = ""
    action: str = ""
    link: str = ""
    command: str = ""
    acts: Sequence[Act] = ()

    def naming(self, *acts: Act, **names: str) -> "Finding":
        """The same with these acts, and with names in its command in place of those in capitals."""
        return replace(self, acts=acts, command=verdict.named(self.command, **names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule, as it is documented; a finding has its own `what`, and these texts unless it has better ones.

    Attributes:
        id: by which it is selected and ignored.
        area: what it looks at.
        reports: what it reports, for people who choose rules.
        why: why that matters.
        action: what to do.
        command: to be copied into a terminal, names in capitals; it does it, or shows more.
        link: path of the page that shows more, if there is one.
    """

    id: str
    area: Area
    reports: str
    why: str
    action: str
    command: str
    link: str = ""

    def ok(self, what: str) -> Finding:
        """All is well."""
        return Finding(rule=self.id, area=self.area, status=Status.OK, what=what)

    def warning(self, what: str, *, why: str = "", action: str = "") -> Finding:
        """It works, and may not for long, or not as was meant."""
        return self._found(Status.WARNING, what, why, action)

    def problem(self, what: str, *, why: str = "", action: str = "") -> Finding:
        """Jobs are lost, late or refused, or will be."""
        return self._found(Status.PROBLEM, what, why, action)

    def unknown(self, what: str, *, why: str = "", action: str = "") -> Finding:
        """It cannot be read."""
        return self._found(Status.UNKNOWN, what, why, action)

    def rated(self, what: str, *, problem: bool = False, warning: bool = False) -> Finding:
        """A problem, a warning, or else well."""
        return (self.problem if problem else self.warning if warning else self.ok)(what)

    def summed(
        self, faults: Sequence[str], well: str, before: str = "", *, is_problem: bool = False
    ) -> Finding:
        """The faults in a sentence that begins with `before`; without any that all is well."""
        what = f"{before}{listed(faults)}" if faults else well
        return self.rated(what, problem=bool(faults) and is_problem, warning=bool(faults))

    def judged(self, fact: Fact) -> Finding:
        """What the list of the page Now found."""
        if fact.severity == "healthy":
            return self.ok(plain(fact.what)[:LONGEST_WHAT])
        make = self.problem if fact.severity == "critical" else self.warning
        found = make(plain(fact.what)[:LONGEST_WHAT], action=plain(fact.do))
        return replace(found, link=fact.link, command=fact.command, acts=fact.acts)

    def _found(self, status: Status, what: str, why: str, action: str) -> Finding:
        return Finding(
            rule=self.id,
            area=self.area,
            status=status,
            what=what if len(what) <= LONGEST_FOUND else f"{what[:LONGEST_FOUND]}…",
            why=why or self.why,
            action=action or self.action,
            link=self.link,
            command=self.command,
        )


def of_list(rule: verdict.Rule, area: Area) -> Rule:
    """A rule of the list that the page Now judges by, as the doctor has it."""
    return Rule(
        id=rule.id,
        area=area,
        reports=rule.reports,
        why=rule.why,
        action=rule.do,
        command=rule.command,
    )


def sentence(text: str) -> str:
    """A text of a finding as it is shown: most rules write no capital letter and no full stop."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "?")) else ".")


def printable(text: str) -> str:
    """A text of anybody's as one line for people: what cannot be printed is escaped, and it is cut."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[:LONGEST])
    return shown if len(text) <= LONGEST else f"{shown}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rules are applied.

    Attributes:
        areas: those of these areas; empty = of all.
        rules: those with these ids; empty = all.
        ignored: none of these.
    """

    areas: Sequence[Area] = ()
    rules: Sequence[str] = ()
    ignored: Sequence[str] = ()

    def has(self, rule: Rule) -> bool:
        """Whether a rule is applied."""
        return (
            (not self.areas or rule.area in self.areas)
            and (not self.rules or rule.id in self.rules)
            and rule.id not in self.ignored
        )


ALL: Final = Selection()


def counted(count: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    many = noun if count == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count:,} {many}"


def listed(names: Sequence[str]) -> str:
    """The first names, and how many there are besides: `a, b, c and 4 more`."""
    shown, rest = ", ".join(names[:EXAMPLES]), len(names) - EXAMPLES
    return shown if rest <= 0 else f"{shown} and {rest:,} more"
