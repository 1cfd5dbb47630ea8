"""What two applications that share a Redis expect of each other's jobs: exported, compared, turned into typed stubs.

`kiqbridge contract` calls it. It reads declarations and files; it must never run a job, import what a file names, or
ask Redis.
"""

from kiqbridge.feature import Feature, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "contract",
            "compare and type the jobs that applications share",
            "command",
            group="set up",
            has_fleet=False,
        )
    ],
)
