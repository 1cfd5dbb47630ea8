"""What a verdict is made by and of: the limits, rules, and facts that something is wrong, the worst first.

The rules are described in rulebook.py, and applied by verdict_rules.py to what facts.py reads. The doctor has further rules,
and says what each one has found, also that nothing is wrong.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal

from kiqbridge.api.acts import Act
from kiqbridge.api.wording import listed
from kiqbridge.wire.names import printable, shown

Severity = Literal["critical", "warning", "healthy"]
"""`critical`: jobs are not performed, or may be lost. `warning`: they are late, failed, or soon may be. `healthy`: nothing is
wrong, and a rule of the doctor says how far it has looked."""

Area = Literal["now", "redis", "wire", "worker", "template"]
AREAS: Final[tuple[Area, ...]] = ("now", "redis", "wire", "worker", "template")

LONGEST_WHAT: Final = 1000
"""Characters of a sentence that names what others have named."""

LONGEST_FOUND: Final = 4000
"""Characters of any finding: a queue's name may be a megabyte."""


class Status(StrEnum):
    """How a check of the doctor ended."""

    OK = "ok"
    WARNING = "warning"
    """It works, and may not for long, or not as was meant."""
    PROBLEM = "problem"
    """Jobs are lost, late or refused, or will be."""
    UNKNOWN = "unknown"
    """It cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits above which something is reported.

    Attributes:
        latency_s: seconds that the oldest job of a queue may wait.
        much_worse: so many times the limit is critical.
        overdue_s: seconds that a job of `retry` or `schedule` may be due without being moved.
        retries: jobs that may wait to be retried.
        deaths: jobs that may die within an hour.
        beat_s: seconds between two heartbeats; Sidekiq's and ours come every 5 or 10.
        job_s: seconds that a job may run.
        job_times, odd_job_s: so many times the mean of its class, from so many seconds on.
        failed_share: of the executions of a class in the last five minutes, from `fewest_executions` on.
        fewest_executions: fewer say nothing.
        memory_warning, memory_critical: shares of the memory that the server may use. A burst of jobs fills the last
            quarter within minutes; the alarm of the stack is the same.
    """

    latency_s: float = 60.0
    much_worse: float = 10.0
    overdue_s: float = 60.0
    retries: int = 1000
    deaths: int = 0
    beat_s: float = 30.0
    job_s: float = 3600.0
    job_times: float = 50.0
    odd_job_s: float = 60.0
    failed_share: float = 0.5
    fewest_executions: int = 20
    memory_warning: float = 0.75
    memory_critical: float = 0.9


LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One finding.

    Attributes:
        kind: id of the rule that found it (docs/reference/doctor.md); stays the same from version to version.
        severity: how bad it is.
        what: a sentence with the numbers.
        do: what to do next.
        link: path of the page that shows more, such as `/queues/default`.
        command: to be copied into a terminal; it does it, or shows more.
        acts: what the page can do about it.
    """

    kind: str
    severity: Severity
    what: str
    do: str
    link: str
    command: str = ""
    acts: Sequence[Act] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the doctor found by one rule.

    Attributes:
        rule: its id.
        area: what it looks at.
        status: how it ended.
        what: what was found.
        why: why that matters; empty where all is well.
        do: what to do about it; empty where all is well.
        link, command, acts: as those of a fact.
    """

    rule: str
    area: Area
    status: Status
    what: str
    why: str = ""
    do: str = ""
    link: str = ""
    command: str = ""
    acts: Sequence[Act] = ()

    def naming(self, *acts: Act, **names: str) -> "Finding":
        """The same with these acts, and with names in its command in place of those in capitals."""
        return replace(self, acts=acts, command=named(self.command, **names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule as it is described, once for all who show what it finds.

    Attributes:
        id: by which it is selected, muted and counted.
        area: what it looks at.
        reports: what it finds, for people who choose rules.
        why: why that matters.
        do: what to do next; a fact has its own if it knows more.
        well: what is so where it finds nothing.
        limit: the field of `Limits` that the `over` of an alert sets; empty: it has none.
        command: to be copied into a terminal, names in capitals; a fact has its own if it knows them.
        link: path of the page that shows more, if there is one.
    """

    id: str
    area: Area = "now"
    reports: str
    why: str
    do: str
    well: str = ""
    limit: str = ""
    command: str
    link: str = ""

    def fact(
        self,
        severity: Severity,
        what: str,
        link: str,
        do: str = "",
        *,
        acts: Sequence[Act] = (),
        **names: str,
    ) -> Fact:
        """What it has found; `names` are those of the command, see `named`."""
        return Fact(
            kind=self.id,
            severity=severity,
            what=what,
            do=do or self.do,
            link=link,
            command=named(self.command, **names),
            acts=acts,
        )

    def ok(self, what: str) -> Finding:
        """All is well."""
        return Finding(rule=self.id, area=self.area, status=Status.OK, what=what)

    def warning(self, what: str, *, why: str = "", do: str = "") -> Finding:
        """It works, and may not for long, or not as was meant."""
        return self._found(Status.WARNING, what, why, do)

    def problem(self, what: str, *, why: str = "", do: str = "") -> Finding:
        """Jobs are lost, late or refused, or will be."""
        return self._found(Status.PROBLEM, what, why, do)

    def unknown(self, what: str, *, why: str = "", do: str = "") -> Finding:
        """It cannot be read."""
        return self._found(Status.UNKNOWN, what, why, do)

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
        """A fact of this rule, as the doctor says it."""
        if fact.severity == "healthy":
            return self.ok(printable(fact.what)[:LONGEST_WHAT])
        make = self.problem if fact.severity == "critical" else self.warning
        found = make(printable(fact.what)[:LONGEST_WHAT], do=printable(fact.do))
        return replace(found, link=fact.link, command=fact.command, acts=fact.acts)

    def _found(self, status: Status, what: str, why: str, do: str) -> Finding:
        return Finding(
            rule=self.id,
            area=self.area,
            status=status,
            what=what if len(what) <= LONGEST_FOUND else f"{what[:LONGEST_FOUND]}…",
            why=why or self.why,
            do=do or self.do,
            link=self.link,
            command=self.command,
        )


def named(command: str, **names: str) -> str:
    """A command with names in place of those in capitals: `named("kiqbridge queue show QUEUE", QUEUE="mail")`."""
    quoted = {name: shlex.quote(shown(value)) for name, value in names.items()}
    return re.sub(r"[A-Z]+", lambda found: quoted.get(found[0], found[0]), command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The problems at one moment.

    Attributes:
        at: epoch seconds, by the clock of Redis.
        facts: critical ones first, in the order of the rules; empty if all is well.
    """

    at: float
    facts: Sequence[Fact]

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not self.facts

    @property
    def severity(self) -> Severity:
        """The severity of the worst fact."""
        return self.facts[0].severity if self.facts else "healthy"
