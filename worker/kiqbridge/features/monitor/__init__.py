"""The clock on the other side: what a function sees each minute of fleet and queues, and does if no worker lives.

For fleets that are scaled by what waits, or down to none; the others leave the function out of the template, and pay
nothing. `lambdas/monitor/app.py` calls it. It reads much and writes little: jobs of dead workers go back by the reaper
of `inflight`, missed ticks are enqueued by `missed_ticks`. It must never do what a living worker does by itself.
"""

from kiqbridge.feature import Feature

FEATURE = Feature(package=__name__)
