"""What was measured: one `Outcome` a line of the table, and the table as text and as Markdown."""

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

OURS = "kiqbridge"
RUBY = "Sidekiq"
"""That of this system."""
RUBY_7 = "Sidekiq 7.3"
"""That of an unpacked Debian 13, beside the measures that a user decides by."""
PEERS = (RUBY, RUBY_7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One line of the table.

    Attributes:
        samples: contender → what it reached in each round; ours comes first.
        target: as the table of targets has it.
        met: None when there is no target, or nothing to compare with.
        note: settings, and what a reader must know to judge the figure.
        decides: one of the lines that come first.
        measure: that found it; `taken`: when, and in what kind of run.
    """

    what: str
    unit: str
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)
    target: str = "-"
    met: bool | None = None
    note: str = ""
    failed: bool = False
    decides: bool = False
    measure: str = ""
    taken: str = ""

    @property
    def verdict(self) -> str:
        if self.failed:
            return "FAILED"
        return {True: "yes", False: "NO", None: "-"}[self.met]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]


def ratio(samples: Mapping[str, Sequence[float]], other: str = RUBY) -> float | None:
    """Median of ours by median of the other; None when the other was not measured, or is 0."""
    if not samples.get(other) or not samples.get(OURS) or not median(samples[other]):
        return None
    return median(samples[OURS]) / median(samples[other])


def ratios(samples: Mapping[str, Sequence[float]]) -> list[float]:
    """Ours by each Sidekiq that was measured."""
    return [found for peer in PEERS if (found := ratio(samples, peer)) is not None]


def at_least(value: float | None, bound: float) -> bool | None:
    """Whether a target is met; None when there was nothing to compare with."""
    return None if value is None else value >= bound


def at_most(value: float | None, bound: float) -> bool | None:
    return None if value is None else value <= bound


HEADER = ("measure", "ours", "beside it", "ratio", "target", "met")


def cells(outcome: Outcome) -> tuple[str, ...]:
    """One line of the table: medians with min-max, and the ratio of ours to the first beside it."""
    ours = outcome.samples.get(OURS, ())
    others = [name for name in outcome.samples if name != OURS]
    compared = ratio(outcome.samples, others[0]) if others else None
    return (
        f"{outcome.what}, {outcome.unit}",
        _spread(ours),
        "; ".join(f"{name} {_spread(outcome.samples[name])}" for name in others) or "-",
        f"{compared:.2f}" if compared is not None else "-",
        outcome.target,
        outcome.verdict,
    )


def as_text(outcomes: Iterable[Outcome]) -> str:
    """The table in columns, each note under its line."""
    listed = list(outcomes)
    rows = [HEADER, *map(cells, listed)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = [_padded(HEADER, widths), "  ".join("-" * width for width in widths)]
    for outcome in listed:
        lines.append(_padded(cells(outcome), widths))
        if outcome.note:
            lines.append(f"    {outcome.note}")
    return "\n".join(lines)


def as_markdown(outcomes: Iterable[Outcome]) -> str:
    """The table without notes and targets, and without the spread of what stands beside ours."""
    lines = ["| " + " | ".join(HEADER[:3]) + " |", "|---|---:|---|"]
    for outcome in outcomes:
        what, ours, beside, compared, *_ = cells(outcome)
        first, *others = re.sub(r" \([\d.,-]+\)", "", beside).split("; ")
        others.insert(0, first if compared == "-" else f"{first} ({compared}\u00a0x)")
        row = (what, ours, "; ".join(others))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return short(values[0])
    return f"{short(median(values))} ({short(min(values))}-{short(max(values))})"


def short(value: float) -> str:
    """Three digits that matter."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def _padded(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
