"""Healthy, or what is wrong and what to do about it, the worst first; a pure function of facts.

The rules are in verdict_rules.py, what they look at in facts.py.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
    """What is wrong, the worst first; each shard is judged by itself, and named in what is found there."""
    bounds = limits or Limits()
    found = [_away(name, why) for name, why in facts.away.items()]
    if facts.shards:
        found += _of_shards(facts.shards.items(), bounds)
    else:
        found += _found(facts, bounds)
    return Verdict(at=facts.at, facts=sorted(found, key=lambda fact: fact.severity != "critical"))


def _found(facts: Facts, limits: Limits) -> list[Fact]:
    return [fact for rule in RULES for fact in rule(facts, limits)]


def _of_shards(shards: Iterable[tuple[str, Facts]], limits: Limits) -> list[Fact]:
    """What was found on several shards in the same words, such as a pause, is one fact."""
    together: dict[Fact, list[str]] = {}
    for name, facts in shards:
        for fact in _found(facts, limits):
            together.setdefault(fact, []).append(name)
    return [
        replace(fact, what=f"{_names(names)}: {fact.what}", shards=tuple(names))
        for fact, names in together.items()
    ]


def _names(shards: Sequence[str]) -> str:
    return f"Shard{'s' if len(shards) > 1 else ''} {', '.join(shards)}"


def _away(name: str, why: str) -> Fact:
    return Fact(
        kind="shard-away",
        severity="critical",
        what=f"Shard {name} is away: {why}",
        do="Its jobs wait; those of the other shards go on. Look at this server, and at the way to it.",
        link="/doctor",
        shards=(name,),
    )
