"""The picture on top of docs/explanation/benchmarks.md: bars of the lines that decide, as SVG."""

from collections.abc import Sequence
from html import escape

from benchmarks.outcome import OURS, Outcome, median, short

WIDTH, LEFT, BAR, ROOM = 840, 300, 15, 420
"""Of the picture; where bars begin, how thick one is, and how long the longest."""
KINDS = ("ours", "first", "second", "third")
"""Of bars, in the order of the contenders. The reader's system chooses between light and dark."""
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #24292f; }
.head { font-size: 15px; font-weight: 600; }
.unit, .value { font-size: 12px; fill: #57606a; }
.best { font-weight: 600; fill: #24292f; }
.card { fill: #ffffff; stroke: #d0d7de; }
.line { stroke: #d8dee4; }
.ours { fill: #3f51b5; } .first { fill: #8c959f; } .second { fill: #c3cad1; } .third { fill: #bf8700; }
@media (prefers-color-scheme: dark) {
  text, .best { fill: #e6edf3; }
  .unit, .value { fill: #9198a1; }
  .best { fill: #e6edf3; }
  .card { fill: #161b22; stroke: #30363d; }
  .line { stroke: #30363d; }
  .ours { fill: #8c9eff; } .first { fill: #6e7681; } .second { fill: #484f58; } .third { fill: #d29922; }
}
"""


def picture(lines: Sequence[Outcome], titles: dict[str, str]) -> str:
    """More is better first, then less is better; each line has a scale of its own.

    Args:
        titles: contender → what the legend calls it.
    """
    names = list(dict.fromkeys(name for line in lines for name in line.samples))
    kinds = dict(zip(names, KINDS, strict=False))
    body, top = _legend(names, kinds, titles), 62
    for head, chosen in (
        ("More is better", [line for line in lines if line.unit.endswith("/s")]),
        ("Less is better", [line for line in lines if not line.unit.endswith("/s")]),
    ):
        body.append(f'<text class="head" x="24" y="{top + 16}">{head}</text>')
        body.append(f'<path class="line" d="M24 {top + 27}H{WIDTH - 24}"/>')
        top += 42
        for line in chosen:
            body += _bars(line, top, kinds, lowest=head.startswith("Less"))
            top += BAR * max(len(line.samples), 2) + 18
        top += 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" role="img">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{top - 1}" rx="8"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _legend(names: Sequence[str], kinds: dict[str, str], titles: dict[str, str]) -> list[str]:
    body, left = [], 24
    for name in names:
        title = titles.get(name, name)
        body.append(
            f'<rect class="{kinds[name]}" x="{left}" y="24" width="14" height="14" rx="3"/>'
        )
        body.append(f'<text x="{left + 20}" y="36">{escape(title)}</text>')
        left += 48 + 7 * len(title)
    told = "(2.0 x): ours divided by it"
    return [*body, f'<text class="unit" text-anchor="end" x="{WIDTH - 24}" y="36">{told}</text>']


def _bars(line: Outcome, top: int, kinds: dict[str, str], *, lowest: bool) -> list[str]:
    values = {name: median(each) for name, each in line.samples.items() if each}
    longest = max(values.values())
    best = (min if lowest else max)(values.values())
    middle = top + BAR * max(len(values), 2) // 2
    what, _, conditions = line.what.partition(", ")
    under = ", ".join(filter(None, [conditions, line.unit]))
    body = [
        f'<text x="24" y="{middle - 2}">{escape(what[0].upper() + what[1:])}</text>',
        f'<text class="unit" x="24" y="{middle + 14}">{escape(under)}</text>',
    ]
    for name, value in values.items():
        length = max(ROOM * value / longest, 2)
        weight = " best" if value == best else ""
        body.append(f'<rect class="{kinds[name]}" x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR - 3}" rx="2"/>')  # fmt: skip
        body.append(f'<text class="value{weight}" x="{LEFT + length + 7:.1f}" y="{top + 10}">{_label(value, values)}</text>')  # fmt: skip
        top += BAR
    return body


def _label(value: float, values: dict[str, float]) -> str:
    ours = values.get(OURS)
    if value == ours or not ours or not value:
        return short(value)
    return f"{short(value)} \u2009({ours / value:.{1 if ours / value >= 2 else 2}f} x)"
