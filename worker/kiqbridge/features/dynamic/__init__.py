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
        Verb(
            "save",
            "create or change a dynamic schedule",
            "command",
            parent="schedule",
            description="Create a dynamic schedule, or change it: an option that is not given has its default. It takes effect within "
            "seconds, without a deploy.",
        ),
        Verb(
            "apply",
            "save the dynamic schedules of a file",
            "command",
            parent="schedule",
            description="Save all dynamic schedules of a YAML file (name: cron, class, args, queue, …). Nothing is "
            "written unless all of the file is right: exit 2, with line and key of each fault.",
        ),
        Verb(
            "delete",
            "delete dynamic schedules",
            "command",
            parent="schedule",
            description="Delete dynamic schedules, with the jobs that they have placed ahead. Exit 0 if they were there, 1 if one "
            "was not, 2 without --yes where there is no terminal to ask.",
        ),
        Verb(
            "skip",
            "let the next occurrences of a schedule not fire",
            "command",
            parent="schedule",
            description="Let the next occurrences of a schedule not fire.",
        ),
        Verb(
            "run",
            "enqueue the jobs of a schedule now",
            "command",
            parent="schedule",
            description="Enqueue the jobs of a schedule now, whether or not it is paused. Repeat it only after a look "
            "at the ledger: each call is a run.",
        ),
    ],
)
