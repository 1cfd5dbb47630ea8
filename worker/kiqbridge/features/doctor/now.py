"""Rules about what goes on now: what waits, fails, dies, and does not come; those of the page Now (api/rulebook.py)."""

from collections.abc import Iterator
from typing import Final

from kiqbridge.api import rulebook
from kiqbridge.features.doctor.finding import Finding, counted, of_list
from kiqbridge.features.doctor.system import Checks, System

_ELSEWHERE: Final = (rulebook.CLUSTER, rulebook.EVICTION, rulebook.MEMORY, rulebook.PAYLOAD)
"""The doctor looks closer, among the rules of another area."""

_DESCRIBED: Final = [each for each in rulebook.RULEBOOK if each not in _ELSEWHERE]
_RULES: Final = {each.id: of_list(each, "now") for each in _DESCRIBED}
_REFUSED: Final = _RULES[rulebook.REFUSED.id]


def check_now(system: System) -> Iterator[Finding]:
    """What the list of the page Now finds."""
    facts = system.facts
    processes = counted(len(facts.processes), "process")
    well = {
        rulebook.UNKNOWN_CLASS: f"no job of an unknown class; {system.sample.scope}",
        rulebook.RETRIES: f"{counted(facts.retry.size, 'job')} wait for their retry",
        rulebook.HEARTBEAT: f"{processes}, each with a heartbeat",
        rulebook.REFUSED: "the server answered all",
    }
    for each in _DESCRIBED:
        rule = _RULES[each.id]
        refused = system.found(rule) if rule is _REFUSED else ()
        if refused:
            yield rule.unknown(refused[0].what)
        else:
            yield from system.judged(rule, well.get(each, each.well))


CHECKS: Final[Checks] = ((tuple(_RULES.values()), check_now),)
"""Rules, and the function that applies them."""
