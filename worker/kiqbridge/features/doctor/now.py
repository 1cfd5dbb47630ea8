"""Rules about what goes on now: what waits, fails, dies, and does not come; those of the page Now (api/rulebook.py)."""

from collections.abc import Iterator
from typing import Final

from kiqbridge.api import rulebook
from kiqbridge.api.verdict import Finding
from kiqbridge.features.doctor.finding import counted
from kiqbridge.features.doctor.system import Checks, System

_RULES: Final = tuple(each for each in rulebook.RULEBOOK if each.area == "now")
"""The doctor looks closer at what the others are about, among the rules of their area."""


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
    for rule in _RULES:
        refused = system.found(rule) if rule is rulebook.REFUSED else ()
        if refused:
            yield rule.unknown(refused[0].what)
        else:
            yield from system.judged(rule, well.get(rule, rule.well))


CHECKS: Final[Checks] = ((_RULES, check_now),)
"""Rules, and the function that applies them."""
