"""Queue history: how many jobs waited in each queue, and for how long, in each minute of the last hour.

For the page, which shows the latency of the hour and how fast queues grow. The leader of the workers writes it once a minute,
with two commands for each queue and five more; nothing else loads it. It must never hold up a job.
"""

from kiqbridge.feature import Chore, Feature

FEATURE = Feature(
    package=__name__,
    chores=[Chore("queue history", 60.0, "history:recorder")],
    calls={"queue_history": "history:fetch"},
)
