"""What became of each source, as a table; LocalStack's gaps apart from what failed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["ok", "FAILED", "gap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One source, or one step of the stack's life."""

    source: str
    outcome: Outcome
    delivered: str = ""
    performed_by: str = ""
    ms: str = ""
    remark: str = ""

    def __str__(self) -> str:
        columns = (
            f"{self.source:36}",
            f"{self.outcome:7}",
            f"{self.delivered:10}",
            f"{self.performed_by:13}",
            f"{self.ms:>12}",
            f"  {self.remark.splitlines()[0] if self.remark else ''}",
        )
        return " ".join(columns).rstrip()


HEAD = Line(
    source="source",
    outcome="outcome",
    delivered="delivered",
    performed_by="performed by",
    ms="ms",
)


def summary(lines: Iterable[Line], seconds: float) -> str:
    """The last words: what failed with its whole reason, what LocalStack cannot do, and the counts."""
    lines = list(lines)
    parts: list[str] = []
    failed = [line for line in lines if line.outcome == "FAILED"]
    gaps = [line for line in lines if line.outcome == "gap"]
    if failed:
        parts.append("== failed")
        parts += [f"{line.source}: {line.remark}" for line in failed]
    if gaps:
        parts.append("== gaps of LocalStack, not of the project: not proven here")
        parts += [f"{line.source}: {line.remark}" for line in gaps]
    worked = len(lines) - len(failed) - len(gaps)
    parts.append(
        f"make e2e: {worked} worked, {len(failed)} failed, {len(gaps)} cannot be proven on LocalStack; "
        f"{seconds:.0f} s"
    )
    return "\n".join(parts)
