"""The clock on the other side: what a function sees each minute of fleet and queues, and does if no worker lives.

`lambdas/monitor/app.py` calls it. It reads much and writes little: jobs of dead workers go back by the reaper
of `inflight`, missed ticks are enqueued by `clocks`. It must never do what a living worker does by itself.
"""
