"""Schedules looked at before they fire: what will surprise, all that fires in a window, what a change makes different.

`kiqbridge schedule lint`, `simulate` and `plan` call it, and the doctor. It must never write to Redis. Where it is not
asked, it costs nothing.
"""

from kiqbridge.feature import Feature, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "lint",
            "what will surprise about schedules",
            "command",
            parent="schedule",
            description="Check readable schedules for likely mistakes: dates that never "
            "come, zones, minutes at which many schedules fire, hours that daylight saving time leaves out or "
            "repeats, jobs longer than their interval (with --redis), duplicates. Exit 0 without errors, 1 with "
            "some, 2 if something cannot be read. `# lint: ignore KB104` beside a schedule switches a finding off.",
        ),
        Verb(
            "plan",
            "compare what two templates fire",
            "plan_command",
            parent="schedule",
            description="Compare the schedules of two templates, or of the published manifest and a template: "
            "schedules that were added or removed, fire at other instants, or have another job or policy. Exit 0 "
            "if nothing is different, 1 if something is, 2 if something cannot be read.",
        ),
        Verb(
            "simulate",
            "print what schedules fire within a window",
            "simulate_command",
            parent="schedule",
            description="Run a virtual clock over a window and print what fires: which schedules, and how many jobs at once. "
            "Jitter is included. A rate without a start is counted from 1970; AWS counts it from its deployment. "
            "Exit 0, or 2 if something cannot be read.",
        ),
    ],
)
