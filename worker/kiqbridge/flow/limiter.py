"""The limiters of `kiqbridge.flow`: the public door of the feature `limiters`, see there."""

from kiqbridge.errors import OverLimit
from kiqbridge.features.limiters.limiter import (
    Limiter,
    Per,
    Within,
    bucket,
    concurrent,
    leaky,
    points,
    unlimited,
    window,
)

__all__ = [
    "Limiter",
    "OverLimit",
    "Per",
    "Within",
    "bucket",
    "concurrent",
    "leaky",
    "points",
    "unlimited",
    "window",
]
