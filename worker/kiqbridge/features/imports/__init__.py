"""Schedules of other programs: crontabs, sidekiq-cron and sidekiq-scheduler, read and written as schedules of ours.

`kiqbridge schedule import` calls it; lists of schedules show what sidekiq-cron keeps in the same Redis. It must never run
what it reads, nor change more of sidekiq-cron's than whether a schedule is enabled. Where the gem is not used, each
list of schedules costs one command in Redis.
"""

from kiqbridge.feature import Feature, Verb

FEATURE = Feature(
    package=__name__,
    verbs=[
        Verb(
            "import",
            "move in: schedules of a crontab, sidekiq-cron, sidekiq-scheduler",
            "command",
            parent="schedule",
        )
    ],
    schedules="sidekiq_cron:views",
)
