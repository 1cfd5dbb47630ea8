"""A capsule: queues with their order, and the threads that serve them (protocol §15.4)."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kiqbridge.client.middleware import Chain, ServerMiddleware
from kiqbridge.client.server import CapsuleSetup
from kiqbridge.config.config import Config
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.redis_pool import POOL_SIZE
from kiqbridge.wire.queues import Mode, QueueOrder, mode_of, queue_order

OWN_CONNECTIONS = 8
"""For what pushes or asks besides jobs: the wire profile, listeners, handlers, diagnostics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capsule:
    """Queues with weights (0 = none) and how many jobs run at once.

    Attributes:
        concurrency: plain jobs, one thread each.
        async_concurrency: `async def` jobs, all on one event loop.
        middleware: around its jobs.
    """

    name: str
    queues: Sequence[tuple[str, int]]
    concurrency: int
    async_concurrency: int
    middleware: Chain[ServerMiddleware]

    @property
    def mode(self) -> Mode:
        """How queues are drawn."""
        return mode_of(weight for _, weight in self.queues)

    @property
    def weights(self) -> Mapping[str, int]:
        """Distinct names with their weights; a name given twice adds up."""
        weights: dict[str, int] = {}
        for name, weight in self.queues:
            weights[name] = weights.get(name, 0) + weight
        return weights

    def order(self, rng: random.Random) -> QueueOrder:
        """A drawer of queue orders for one thread."""
        return queue_order(self.queues, rng)


def capsules_of(
    config: Config, declared: Mapping[str, CapsuleSetup], middleware: Chain[ServerMiddleware]
) -> list[Capsule]:
    """The default capsule, then those declared in code, then those of the file.

    Where both declare the same one, the file's queues and concurrency count and the code's
    middleware. Each gets a copy of the middleware of its own.
    """
    default = Capsule(
        name="default",
        queues=config.queues,
        concurrency=config.concurrency,
        async_concurrency=config.async_concurrency,
        middleware=middleware.copy(),
    )
    capsules = {"default": default}
    for setup in declared.values():
        chain = middleware if setup.middleware is None else setup.middleware
        capsules[setup.name] = replace(
            default,
            name=setup.name,
            queues=setup.queues,
            concurrency=setup.concurrency,
            middleware=chain.copy(),
        )
    for section in config.capsules:
        known = capsules.get(section.name)
        capsules[section.name] = Capsule(
            name=section.name,
            queues=section.queues,
            concurrency=section.concurrency,
            async_concurrency=section.async_concurrency or config.async_concurrency,
            middleware=known.middleware if known else middleware.copy(),
        )
    return list(capsules.values())


def connections_of(capsules: Iterable[Capsule]) -> int:
    """How many connections of a pool may be in use at once: one for each job that runs, and our own."""
    jobs = sum(each.concurrency + each.async_concurrency for each in capsules)
    return max(jobs + OWN_CONNECTIONS, POOL_SIZE)
