"""Debounced jobs, of which the last one runs, and throttled jobs, of which so many run in each span (docs/how_to/flow.md).

For those who are asked more often than the work is worth. `@job(debounce=…)` and `@job(throttle=…)` ask for it, by a part
of the script that pushes. The leader of the fleet looks once a minute for what is over. It must never lose the last of
several debounced jobs, nor let more throttled jobs run than it says.
"""

from kiqbridge.feature import Chore, Feature

FEATURE = Feature(
    package=__name__, chores=[Chore("spans that are over", 60.0, "chores:forget_spans")]
)
