"""How long the executions of a class took: 26 buckets, with the percentiles marked."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from markupsafe import Markup

from kiqbridge.web.plots.drawing import (
    figure,
    grid,
    grid_labels,
    milliseconds,
    percent,
    table,
    tag,
    value_ticks,
)

_TOP, _INNER, _BELOW, _ROW = 50, 166, 24, 14
_LABELLED_EVERY: Final = 4
_GAP: Final = 0.12
"""Share of a bucket's width that is left free beside its bar."""


def histogram(
    counts: Sequence[int],
    bounds_ms: Sequence[float],
    *,
    name: str,
    title: str,
    percentiles: Mapping[str, float | None],
) -> Markup:
    """A figure: the bars, and the numbers as a folded table.

    Args:
        counts: executions of each bucket; one more than `bounds_ms`, for what took longer than all.
        bounds_ms: upper limits of the buckets, ascending, exclusive (§12.3).
        name: of the plot on its page, for ids.
        title: what it shows.
        percentiles: name → milliseconds, such as `p95`; None is left out.
    """
    ticks = value_ticks(max(counts, default=0))
    known = {key: value for key, value in percentiles.items() if value is not None}
    rows = (
        (label, f"{count:,}")
        for label, count in zip(bucket_labels(bounds_ms), counts, strict=True)
        if count
    )
    return figure(
        [
            *grid(ticks, _TOP, _INNER),
            *_bars(counts, bounds_ms, ticks[-1]),
            *grid_labels(ticks, _TOP, _INNER),
            *_percentiles(known, bounds_ms, len(counts)),
            *_axis(bounds_ms, len(counts)),
        ],
        name=name,
        title=title,
        description=f"{sum(counts):,} executions; "
        + ", ".join(f"{key} {milliseconds(value)}" for key, value in known.items()),
        height=_TOP + _INNER + _BELOW,
        caption=[tag("span", title, class_="plot-title")],
        below=table(title, ("Took", "Executions"), rows),
    )


def bucket_labels(bounds_ms: Sequence[float]) -> list[str]:
    """What each bucket holds, in words: `below 20 ms`, `20 ms to 30 ms`, `335 s or more`."""
    between = [f"{milliseconds(low)} to {milliseconds(high)}" for low, high in pairwise(bounds_ms)]
    return [
        f"below {milliseconds(bounds_ms[0])}",
        *between,
        f"{milliseconds(bounds_ms[-1])} or more",
    ]


def place_of(value_ms: float, bounds_ms: Sequence[float], buckets: int) -> float:
    """Where a duration lies, as a share of the width: within its bucket by its value, beyond all in the middle."""
    low = 0.0
    for place, high in enumerate(bounds_ms):
        if value_ms < high:
            return (place + (max(value_ms, low) - low) / (high - low)) / buckets
        low = high
    return (buckets - 0.5) / buckets


def _bars(counts: Sequence[int], bounds_ms: Sequence[float], top: float) -> Iterator[Markup]:
    for place, (count, label) in enumerate(zip(counts, bucket_labels(bounds_ms), strict=True)):
        tall = max(1.0, _INNER * count / top) if count else 0.0
        share = f"{label}: {count:,} executions"
        yield tag(
            "g",
            tag("title", share),
            tag(
                "rect",
                x=percent((place + _GAP) / len(counts)),
                width=percent((1 - 2 * _GAP) / len(counts)),
                y=_TOP + _INNER - tall,
                height=tall,
                class_="plot-bar",
            ),
            tag(
                "rect",
                x=percent(place / len(counts)),
                width=percent(1 / len(counts)),
                y=_TOP,
                height=_INNER,
                class_="plot-hit",
            ),
        )


def _percentiles(
    known: Mapping[str, float], bounds_ms: Sequence[float], buckets: int
) -> Iterator[Markup]:
    """Each label on a line of its own: they may be close to each other."""
    for row, (key, value) in enumerate(known.items()):
        share = place_of(value, bounds_ms, buckets)
        x = percent(share)
        y = _ROW * (row + 1) - 2
        is_right = share > 0.7  # noqa: PLR2004 - there the label has no room to the right, on a phone
        yield tag(
            "g",
            tag("title", f"{key}: {milliseconds(value)}"),
            tag("line", x1=x, x2=x, y1=y - 9, y2=_TOP + _INNER),
            tag(
                "text",
                f"{key} {milliseconds(value)}",
                x=x,
                dx=-4 if is_right else 4,
                y=y,
                text_anchor="end" if is_right else "start",
            ),
            class_=f"plot-mark plot-percentile plot-percentile-{row + 1}",
        )


def _axis(bounds_ms: Sequence[float], buckets: int) -> Iterator[Markup]:
    base = _TOP + _INNER
    for place, bound in enumerate(bounds_ms):
        edge = (place + 1) / buckets
        x = percent(edge)
        is_labelled = place % _LABELLED_EVERY == 0
        yield tag(
            "line", x1=x, x2=x, y1=base, y2=base + (5 if is_labelled else 2), class_="plot-zero"
        )
        if is_labelled:
            anchor = "end" if edge > 0.95 else "middle"  # noqa: PLR2004 - else it is cut off
            yield tag(
                "text",
                _short(bound),
                x=x,
                y=base + 17,
                text_anchor=anchor,
                class_="plot-label",
            )


def _short(value_ms: float) -> str:
    """`335ms`, `1.7s`, `65s`: eight of them fit on a phone."""
    if value_ms < 1000:  # noqa: PLR2004 - a second
        return f"{value_ms:.0f}ms"
    return f"{value_ms / 1000:.1f}".removesuffix(".0") + "s"
