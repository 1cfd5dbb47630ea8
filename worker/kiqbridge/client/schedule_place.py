"""On which of several servers a schedule lies: that on which the globs put the queue of its first job.

A queue that was moved changes nothing: the schedule would fire on both while workers learn of it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kiqbridge.client.client import Client
from kiqbridge.client.registry import definition_of
from kiqbridge.errors import PayloadError
from kiqbridge.store.redis_pool import RedisPool

if TYPE_CHECKING:
    from kiqbridge.schedule.definition import ScheduleDefinition


def shard_of_schedule(client: Client, definition: "ScheduleDefinition") -> str:
    """Name of the shard; empty = there is one server. The first one for a queue that lies on none."""
    return _shard_of(client, definition.jobs[0]) if client.shards else ""


def manifest_parts(
    client: Client, manifest: Mapping[str, Any]
) -> list[tuple[RedisPool, Mapping[str, Any]]]:
    """What of a manifest is published where: each schedule on its shard, whose leader watches its ticks."""
    parts: list[tuple[RedisPool, Mapping[str, Any]]] = []
    for name, pool in zip(client.shards or ("",), client.pools(), strict=True):
        schedules = {
            each: document
            for each, document in manifest["schedules"].items()
            if not name or _shard_of(client, document["jobs"][0]) == name
        }
        parts.append((pool, {**manifest, "schedules": schedules}))
    return parts


def _shard_of(client: Client, job: Mapping[str, Any]) -> str:
    declared = definition_of(job.get("class"))
    options = {} if declared is None else declared.options
    try:
        return client.first_shard_of(str(job.get("queue") or options.get("queue") or "default"))
    except PayloadError:
        return client.shards[0]
