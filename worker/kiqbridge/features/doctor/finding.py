"""How the doctor names and counts what its rules have found, and which of them are applied."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.api.verdict import Area, Rule

LONGEST: Final = 100
"""Characters of a name that are shown."""


def sentence(text: str) -> str:
    """A text of a finding as it is shown: most rules write no capital letter and no full stop.

    One that ends with a stop is a sentence already, and may begin with the name of a class.
    """
    return text if text.endswith((".", "?")) else f"{text[:1].upper()}{text[1:]}."


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
