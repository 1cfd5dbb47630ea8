"""The processes of Python and Ruby as their heartbeats show them, and what follows from that."""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from kiqbridge.api import Process


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """All processes that live.

    Attributes:
        processes: those whose heartbeat is there.
    """

    processes: Sequence[Process] = ()

    @property
    def ours(self) -> list[Process]:
        """The workers of Kiqbridge."""
        return [each for each in self.processes if each.is_ours]

    @property
    def ruby(self) -> list[Process]:
        """The others."""
        return [each for each in self.processes if not each.is_ours]

    @cached_property
    def queues(self) -> Mapping[str, Sequence[Process]]:
        """Queue → who serves it."""
        served: dict[str, list[Process]] = {}
        for each in self.processes:
            for name in each.queues:
                served.setdefault(name, []).append(each)
        return served

    @cached_property
    def queues_of_python(self) -> AbstractSet[str]:
        """Queues that a worker of Kiqbridge serves."""
        return {name for name, who in self.queues.items() if any(each.is_ours for each in who)}


def capsules_of(process: Process) -> Mapping[str, Sequence[str]]:
    """Capsule → its queues; empty for a process that shows none (before 7)."""
    capsules = process.info.get("capsules")
    if isinstance(capsules, dict):
        return {
            str(name): list(each["weights"])
            for name, each in capsules.items()
            if isinstance(each, dict) and isinstance(each.get("weights"), dict)
        }
    weights = process.info.get("weights")
    if not isinstance(weights, list):
        return {}
    return {str(at): list(each) for at, each in enumerate(weights) if isinstance(each, dict)}


def shared_queues(process: Process) -> list[str]:
    """Queues that several capsules of a process serve."""
    counts = Counter(name for names in capsules_of(process).values() for name in set(names))
    return [name for name, count in counts.items() if count > 1]
