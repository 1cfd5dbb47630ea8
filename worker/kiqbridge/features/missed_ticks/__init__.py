"""Ticks that did not come: found in the ledgers, by policy enqueued, and sent to functions of the user, a webhook, SNS.

The leader of the workers looks, or the monitor function while no worker lives; dynamic schedules that are placed too
late are notified of in the same way. It must never delay what looks for them, nor log the address of a webhook. Where
no schedule is published, it costs two round trips in 15 seconds.
"""

from kiqbridge.feature import Chore, Feature

FEATURE = Feature(
    package=__name__,
    chores=[Chore("missed ticks", 15.0, "missed:watch", where=("leader", "monitor"))],
    missed="hooks:of_worker",
)
