"""Healthy, or what is wrong and what to do about it, the worst first; a pure function of facts.

The rules are in verdict_rules.py, what they look at in facts.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kiqbridge.api.facts import Facts, fetch_facts
from kiqbridge.api.limits import Fact, Limits
from kiqbridge.api.operator import Operator
from kiqbridge.api.verdict_rules import RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was judged.

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
    def severity(self) -> Literal["healthy", "warning", "critical"]:
        """Of the worst fact."""
        return self.facts[0].severity if self.facts else "healthy"

    def worst(self, most: int = 3) -> Sequence[Fact]:
        """The first so many."""
        return self.facts[:most]


def fetch_verdict(operator: Operator | None = None, limits: Limits | None = None) -> Verdict:
    """The verdict now; raises as `fetch_facts`."""
    return judge(fetch_facts(operator), limits)


def judge(facts: Facts, limits: Limits | None = None) -> Verdict:
    """What is wrong, the worst first."""
    bounds = limits or Limits()
    found = [fact for rule in RULES for fact in rule(facts, bounds)]
    return Verdict(at=facts.at, facts=sorted(found, key=lambda fact: fact.severity != "critical"))
