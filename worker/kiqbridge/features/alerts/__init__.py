"""Alerts of the fleet: rules of the doctor that notify when something is wrong, and when it is over.

For those who have no other system that alarms. A worker whose settings name no `alerts` loads nothing of it; the others
have one thread, and that of the leader reads Redis every ten seconds. `kiqbridge alerts watch` looks without a worker.
It must never delay a job, nor log the address of a receiver.
"""

from kiqbridge.feature import Feature, Verb

FEATURE = Feature(
    package=__name__,
    settings=["alerts"],
    verbs=[
        Verb(
            "alerts",
            "list and mute the alerts of the fleet",
            "command",
            group="look at what goes on",
        )
    ],
    worker="watch:roles",
    now="state:shown",
)
