"""In which order a capsule looks at its queues at each fetch (protocol §6)."""

import random
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from kiqbridge.errors import ConfigError

QueueOrder = Callable[[], Sequence[str]]


class Mode(StrEnum):
    """How queues are drawn: all weights 0 → strict, all 1 → random, else weighted."""

    STRICT = "strict"
    RANDOM = "random"
    WEIGHTED = "weighted"


def fault_of_name(name: str) -> str | None:
    """What keeps a text from being a queue's name; None: it is one."""
    if not name.strip():
        return "is empty"
    if "\0" in name:
        return "holds a NUL character"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "is not UTF-8 text"
    return None


def parse_queue(text: str, *, source: str = "-q") -> tuple[str, int]:
    """Read `name` or `name,weight` into (name, weight); no weight is 0.

    Raises:
        ConfigError: a name that is empty, no UTF-8 or holds NUL, or a weight that is no whole
            number ≥ 0.
    """
    name, comma, weight = text.rpartition(",") if "," in text else (text, "", "0")
    if not name.strip():
        raise ConfigError(
            f"queues: {text!r} has no name (from {source}); write name or name,weight"
        )
    if comma and not weight.strip().isdecimal():
        raise ConfigError(
            f"queues: weight {weight!r} in {text!r} is not a whole number (from {source}); "
            "write name,weight such as mail,3"
        )
    if (fault := fault_of_name(name)) is not None:
        raise ConfigError(
            f"queues: the name {name!r} {fault} (from {source}); write a name such as default"
        )
    return name.strip(), int(weight)


def mode_of(weights: Iterable[int]) -> Mode:
    """The mode that follows from the weights."""
    distinct = set(weights)
    if distinct <= {0}:
        return Mode.STRICT
    return Mode.RANDOM if distinct == {1} else Mode.WEIGHTED


def queue_order(queues: Sequence[tuple[str, int]], rng: random.Random) -> QueueOrder:
    """A function that gives the order for one fetch; names come without repetition.

    Weighted: each name stands `weight` times in a lot that is shuffled and reduced to the first
    occurrence of each name, so the chance of being first is weight / sum of weights.
    """
    names = list(dict.fromkeys(name for name, _ in queues))
    if mode_of(weight for _, weight in queues) is Mode.STRICT or len(names) == 1:
        return lambda: names
    lot = [name for name, weight in queues for _ in range(max(weight, 1))]

    def draw() -> Sequence[str]:
        shuffled = lot.copy()
        rng.shuffle(shuffled)
        return list(dict.fromkeys(shuffled))

    return draw
