"""What a verdict is made by and of: the limits, and facts that something is wrong, the worst first.

The rules are described in rulebook.py, and applied by verdict_rules.py to what facts.py reads.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kiqbridge.api.acts import Act
from kiqbridge.wire.names import shown

Severity = Literal["critical", "warning", "healthy"]
"""`critical`: jobs are not performed, or may be lost. `warning`: they are late, failed, or soon may be. `healthy`: nothing is
wrong, and a rule of the doctor says how far it has looked."""


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
class Rule:
    """A rule as it is described, once for all who show what it finds.

    Attributes:
        id: by which it is selected, muted and counted.
        reports: what it finds, for people who choose rules.
        why: why that matters, as sentences.
        do: what to do next, as sentences; a fact has its own if it knows more.
        well: what is so where it finds nothing.
        limit: the field of `Limits` that the `over` of an alert sets; empty: it has none.
        command: to be copied into a terminal, names in capitals; a fact has its own if it knows them.
    """

    id: str
    reports: str
    why: str
    do: str
    well: str = ""
    limit: str = ""
    command: str

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


def named(command: str, **names: str) -> str:
    """A command with names in place of those in capitals: `named("kiqbridge queue show QUEUE", QUEUE="mail")`."""
    quoted = {name: shlex.quote(shown(value)) for name, value in names.items()}
    return re.sub(r"[A-Z]+", lambda found: quoted.get(found[0], found[0]), command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is wrong at one moment.

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
