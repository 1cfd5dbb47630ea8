"""Schedules looked at before they fire: what will surprise, all that fires in a window, what a change makes different.

`kiqbridge schedule lint`, `simulate` and `plan` call it, and the doctor. It must never write to Redis. Where it is not
asked, it costs nothing.
"""

from kiqbridge.feature import Feature, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb("lint", "find likely mistakes in schedules", "command", parent="schedule"),
        Verb("plan", "compare what two templates fire", "plan_command", parent="schedule"),
        Verb(
            "simulate",
            "print what schedules fire within a window",
            "simulate_command",
            parent="schedule",
        ),
    ],
)
