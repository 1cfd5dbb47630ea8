"""The thread of a worker that lets suspects run alone, and what a stop does about jobs that it finds stuck.

Those count as found orphaned, since each worker after this one would hang in them too.

A stop gives back what still runs at its deadline. Most of that is long work which a deploy has met, and goes back
uncounted: it must not run alone because there were three deploys. A job is stuck if it has run for ten times as long
as its class usually takes, and for five minutes at least; for an hour if this worker has performed none of its class.
It goes back all the same, and to the suspects when that was the last of `orphan_limit` times.
"""

import logging
import os
from functools import partial
from typing import Final

from kiqbridge.client import rails
from kiqbridge.engine.ages import OLD_JOB_S
from kiqbridge.engine.inflight.claims import take_away
from kiqbridge.engine.inflight.reaping import orphan_id
from kiqbridge.engine.parts import EngineParts
from kiqbridge.engine.settle.metrics import Measured
from kiqbridge.features.process_pool.pool import ProcessPool
from kiqbridge.features.suspects.isolation import Isolation
from kiqbridge.features.suspects.runner import SuspectRunner
from kiqbridge.runtime.clock import wall_now
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire import json_text
from kiqbridge.wire.measures import field_name

logger = logging.getLogger(__name__)

TIMES: Final = 10
LEAST_S = 300.0


def count_stuck(parts: EngineParts, connection: RedisConnection) -> None:
    """Give back the jobs of this process that are stuck, counted.

    Raises:
        KiqbridgeError: the rest goes back uncounted.
    """
    usual, now = parts.metrics.totals(), wall_now()
    held = [each for holder in parts.holders() for each in holder.holding()]
    for _, chunk, job in held:
        ran_s = now - job.run_at
        if ran_s < LEAST_S:
            continue
        payload = json_text.loads(job.text)  # as when it began
        definition = rails.find(payload, parts.registry)
        name = definition.name if definition is not None else str(payload.get("class"))
        if ran_s < stuck_after_s(usual.get(field_name(name))):
            continue
        limit = parts.config.orphan_limit
        if count := take_away(connection, parts.keys, chunk, job.text, orphan_limit=limit):
            logger.warning(
                "job %s of queue %s is stuck: it has run for %.0f s, far longer than its class takes; it goes back, and "
                "that counts as found orphaned: %d of %d times%s",
                orphan_id(job.text),
                job.queue,
                ran_s,
                count,
                limit,
                ", so it runs alone in a child process next" if count >= limit else "",
            )


def stuck_after_s(measured: Measured | None) -> float:
    """Seconds after which a job is stuck, of a class of which this process has measured so much."""
    done = sum(measured.histogram.values()) if measured is not None else 0
    if measured is None or not done:
        return OLD_JOB_S
    return max(TIMES * measured.ms / done / 1000, LEAST_S)


def roles(parts: EngineParts) -> tuple[Isolation, ...]:
    """What runs suspects of the queues that the worker serves; none with basic fetch, which cannot give jobs back."""
    pool = parts.pools["process"]
    if parts.config.fetch == "basic" or not isinstance(pool, ProcessPool):
        return ()
    capsules = {
        name: capsule.capsule for capsule in parts.capsules for name in capsule.capsule.weights
    }
    isolation = Isolation(
        parts,
        tid=os.urandom(3).hex(),
        queues=list(capsules),
        pool=pool,
        runner=lambda queue: SuspectRunner(
            keys=parts.keys,
            capsule=capsules[queue].name,
            policy=parts.policy,
            server=parts.server,
            registry=parts.registry,
            metrics=parts.metrics if parts.metrics.on else None,
            paused=lambda: parts.pauses.classes,
        ),
    )
    parts.keeper.watch([*map(parts.keys.suspects, capsules)], isolation.note)
    parts.suspects = isolation
    parts.on_late = partial(count_stuck, parts, parts.connect())
    return (isolation,)
