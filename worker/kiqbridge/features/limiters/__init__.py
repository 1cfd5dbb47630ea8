"""Limits on what all processes together do: how many at once, or how many in a time (docs/how_to/limiters.md).

For jobs that share something that bears only so much, such as an API with a quota. `@job(limiter=…)` asks before the
job begins; where no job has one, and no code enters a limit, nothing of it is loaded. It must never hold a lock for a
process that is dead.
"""

from kiqbridge.feature import Feature, Tab, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "limiter",
            "list limiters, show who holds one, and reset it",
            "command",
            group="act on jobs, queues and processes",
        )
    ],
    pages="page:routes",
    tabs=[Tab("/limiters", "Limiters", "Flow", after="/batches", key="l")],
    options={"limiter": "declared:limited"},
    examines="doctor",
    history="history:part_of",
    puts_off={"kiqbridge.errors:OverLimit": "over_limit:put_off"},
)
