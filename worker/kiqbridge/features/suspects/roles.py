"""The thread of a worker that lets suspects run alone."""

import os
from functools import partial

from kiqbridge.engine.parts import EngineParts
from kiqbridge.features.process_pool.pool import ProcessPool
from kiqbridge.features.suspects.isolation import Isolation
from kiqbridge.features.suspects.runner import SuspectRunner
from kiqbridge.features.suspects.stuck import count_stuck


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
