"""On which of several servers a schedule lies: that on which the globs put the queue of its first job.

A queue that was moved changes nothing: the schedule would fire on both while workers learn of it.
"""

from kiqbridge.client.client import Client
from kiqbridge.client.registry import definition_of
from kiqbridge.errors import PayloadError
from kiqbridge.schedule.definition import ScheduleDefinition


def shard_of_schedule(client: Client, definition: ScheduleDefinition) -> str:
    """Name of the shard; empty = there is one server. The first one for a queue that lies on none."""
    if not client.shards:
        return ""
    job = definition.jobs[0]
    declared = definition_of(job.get("class"))
    options = {} if declared is None else declared.options
    try:
        return client.first_shard_of(str(job.get("queue") or options.get("queue") or "default"))
    except PayloadError:
        return client.shards[0]
