"""Queue history: how many jobs waited in each queue, for how long, and how many were taken, in each minute of the last hour.

For those who ask how fast queues fill and empty. The leader of the workers writes it once a minute,
with two commands for each queue and six more; nothing else loads it. It must never hold up a job.
"""

from kiqbridge.feature import Chore, Feature

FEATURE = Feature(
    package=__name__,
    chores=[Chore("queue history", 60.0, "history:recorder")],
    calls={"queue_history": "history:fetch"},
)
