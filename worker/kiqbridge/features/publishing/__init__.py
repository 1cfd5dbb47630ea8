"""Publishing the schedules of a template: for the watch over ticks that do not come, and for lists of schedules.

The enqueue function does it once in each warm environment, after its first push; `kiqbridge schedule publish` by hand.
Where a template has no schedules, it costs nothing. It must never replace a newer version, unless somebody rolls back.
"""

from kiqbridge.feature import Feature, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "publish",
            "publish a template's schedules in Redis, so that missed ticks are found",
            "command",
            parent="schedule",
        )
    ],
)
