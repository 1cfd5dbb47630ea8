"""docs/explanation/benchmarks.md and its picture, made of the results: the lines that decide first, the others folded."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.outcome import OURS, PEERS, RUBY, Outcome, as_markdown, median, ratio, short
from benchmarks.picture import picture

HEAD = """\
# Benchmarks

<!-- Made by: make bench -->

![Bars: the figures of the table below](../images/benchmarks.svg)

{table}

The figure of another system is followed by ours divided by it. The processes run in turn, each round on an empty database; a figure is the median of its rounds. Compare ratios, not figures of two machines. `make bench ARGS=table` measures these lines in seven minutes, `make bench` all of them.
"""
OTHERS = """\
## Other lines

In brackets: our lowest and highest round; behind the first figure beside ours, ours divided by it. In a fleet of idle processes, Sidekiq is a client that fetches by BRPOP as Sidekiq does. `tests/benchmarks/results.json` has the settings, targets, rounds, extrapolations, and what four servers carry.
"""
FOLDED = """\
<details markdown="1">
<summary>{title}</summary>

{text}

</details>
"""
STORED_ONLY = {"servers"}
"""Measures with many lines for those who work on the scripts."""
EXTRAPOLATED = "extrapolated: "
"""How a line begins that is computed from others."""


def write(
    path: Path, settings: Sequence[str], outcomes: Sequence[Outcome], groups: Mapping[str, str]
) -> None:
    """Replace the page, and the picture in docs/images.

    Args:
        groups: measure → title of the part in which its lines are.
    """
    chosen = deciding(outcomes)
    drawing = path.parents[1] / "images" / "benchmarks.svg"
    drawing.write_text(picture(chosen, titles(settings)), encoding="utf-8")
    others = [
        each
        for each in outcomes
        if each not in chosen
        and each.measure not in STORED_ONLY
        and not each.what.startswith(EXTRAPOLATED)
    ]
    parts = {title: [each for each in others if groups[each.measure] == title] for title in dict.fromkeys(groups.values())}  # fmt: skip
    folded = [
        FOLDED.format(title=title, text=as_markdown(each)) for title, each in parts.items() if each
    ]
    taken = " to ".join(sorted({each.taken[:10] for each in outcomes if each.taken}))
    lines = "\n".join(f"- {line}" for line in [*settings, f"measured: {taken}"])
    machine = FOLDED.format(title="Machine, versions and settings", text=lines)
    page = HEAD.format(table=table(settings, outcomes))
    path.write_text("\n".join([page, machine, OTHERS, *folded]), encoding="utf-8")


def deciding(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Rates first, then times, memory and commands."""
    chosen = [each for each in outcomes if each.decides and each.samples]
    return sorted(chosen, key=lambda each: not each.unit.endswith("/s"))


def table(settings: Sequence[str], outcomes: Sequence[Outcome]) -> str:
    """The lines that decide, one column for each contender."""
    chosen, named = deciding(outcomes), titles(settings)
    names = list(dict.fromkeys(name for line in chosen for name in line.samples))
    heads = ["measure", *(named.get(name, name) for name in names), "target", "met"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * len(names) + "|---|---|"]
    for line in chosen:
        figures = [_figure(line, name) for name in names]
        row = [f"{line.what}, {line.unit}", *figures, line.target, line.verdict]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def titles(settings: Sequence[str]) -> dict[str, str]:
    """Contender → name and version, as the settings have it."""
    found = {}
    for name in PEERS:
        for line in settings:
            if version := re.match(rf"{name}: ([\d.]+)", line):
                found[name] = f"{RUBY} {version[1]}"
    return {OURS: "Kiqbridge", **found}


def _figure(line: Outcome, name: str) -> str:
    if not line.samples.get(name):
        return "-"
    figure = short(median(line.samples[name]))
    compared = ratio(line.samples, name)
    return figure if name == OURS or compared is None else f"{figure} ({compared:.2f}\u00a0x)"
