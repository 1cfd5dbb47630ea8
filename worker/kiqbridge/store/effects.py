"""Effects: what a script does besides its own work, each by the part `effect_NAME.lua` of its name.

`settle`, `bury`, `operate` and `end_cleared` take those of a job's end (engine/settle/ending.py), `apply_ends` and
`push_flow` those of locks, batches and chains (features/batches/ops.py, engine/outbox/outbox.py).
"""

from collections.abc import Sequence
from typing import NamedTuple


class Effect(NamedTuple):
    """One effect of a script.

    Attributes:
        name: of the part.
        keys, args: as that part wants them.
    """

    name: str
    keys: Sequence[str]
    args: Sequence[str | bytes | float]

    @property
    def size(self) -> int:
        """Bytes of its texts, without what frames them."""
        return sum(len(each) for each in self.args if isinstance(each, (str, bytes)))


def packed(effects: Sequence[Effect]) -> tuple[list[str], list[str | bytes | float]]:
    """The keys and the arguments of effects, as parts/each_effect.lua reads them."""
    keys: list[str] = []
    args: list[str | bytes | float] = [len(effects)]
    for effect in effects:
        keys += effect.keys
        args += [effect.name, len(effect.keys), len(effect.args), *effect.args]
    return keys, args
