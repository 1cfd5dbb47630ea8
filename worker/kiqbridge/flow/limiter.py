"""The limiters of `kiqbridge.flow` (docs/how_to/limiters.md)."""

from kiqbridge.errors import OverLimit
from kiqbridge.features.limiters.limiter import bucket, concurrent, leaky, points, window
from kiqbridge.features.limiters.within import Limiter, Per, Within, unlimited

__all__ = [
    "Limiter", "OverLimit", "Per", "Within", "bucket", "concurrent", "leaky", "points", "unlimited",
    "window",
]  # fmt: skip
