"""Whether workers have dealt with all that was enqueued, seen at one instant."""

_SCRIPT = """
for _, queue in ipairs(KEYS) do
    if redis.call('EXISTS', queue) == 1 then return 0 end
end
for _, list in ipairs(redis.call('KEYS', 'kb:inflight:*:[01]')) do
    if redis.call('LLEN', list) > 0 then return 0 end
end
return 1
"""


def is_idle(redis, *queues):
    """No job waits in these queues (`default`) and none is in flight.

    One script: between two looks, one at the queue and one at what is in flight, jobs may go from
    either to the other, since a worker gives back what waits behind a slow job.
    """
    keys = [f"queue:{queue}" for queue in queues or ("default",)]
    return bool(redis.eval(_SCRIPT, len(keys), *keys))
