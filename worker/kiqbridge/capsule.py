"""A capsule: queues with their order, and the threads that serve them (protocol §15.4)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kiqbridge.queues import Mode, QueueOrder, mode_of, queue_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Capsule:
    """Queues with weights (0 = none) and how many jobs run at once."""

    name: str
    queues: Sequence[tuple[str, int]]
    concurrency: int

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
