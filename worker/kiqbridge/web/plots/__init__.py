"""Plots as SVG, made by the server: pure functions from numbers to markup.

The pages call them. A plot carries no style of its own: classes and the style sheet give its colours, so that it
follows the colour scheme and a strict Content-Security-Policy. It must never read Redis or the clock.
"""

from kiqbridge.web.plots.histogram import histogram
from kiqbridge.web.plots.small import (
    TICK_STATES,
    Tick,
    TickState,
    meter,
    sparkline,
    tick_legend,
    tick_strip,
)
from kiqbridge.web.plots.time_series import Mark, Series, time_series

__all__ = [
    "TICK_STATES",
    "Mark",
    "Series",
    "Tick",
    "TickState",
    "histogram",
    "meter",
    "sparkline",
    "tick_legend",
    "tick_strip",
    "time_series",
]
