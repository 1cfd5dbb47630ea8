"""Schedules in Redis: saved by a program or a file, or declared beside a job; placed ahead, paused, skipped, run by hand.

For schedules that change without a deploy, or run without AWS. The leader of the workers places them, or the tick
function. Where there are none, that costs a command in Redis each two seconds; a worker whose jobs declare none reads
two keys in 30 seconds. It must never enqueue an occurrence but by a script that claims it in the ledger.
"""

from kiqbridge.feature import Chore, Feature, Verb

FEATURE = Feature(
    package=__name__,
    calls={
        "cron": "schedule:declared",
        "schedules": "schedules:Schedules",
        "schedule_file": "schedule_file:read_schedule_file",
        "claim_schedules": "declared:claim",
    },
    chores=[
        Chore("declared schedules", 30.0, "declared:keep", where=("worker",)),
        Chore("dynamic schedules", 2.0, "placing:watch", where=("leader", "tick")),
    ],
    verbs=[
        Verb("save", "create or change a dynamic schedule", "command", parent="schedule"),
        Verb("apply", "save the dynamic schedules of a file", "command", parent="schedule"),
        Verb("delete", "delete dynamic schedules", "command", parent="schedule"),
        Verb(
            "skip", "let the next occurrences of a schedule not fire", "command", parent="schedule"
        ),
        Verb("run", "enqueue the jobs of a schedule now", "command", parent="schedule"),
    ],
)
