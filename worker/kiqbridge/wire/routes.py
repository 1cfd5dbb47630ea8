"""On which shard a queue lies: the first whose globs match its name, or the one that it was moved to. Pure.

A move is an entry `SHARD NUMBER` on the shard that held the queue. Numbers grow with each move of a queue, and of
several entries that lead on from each other one with a lower number than the one before counts no more: so a queue can
be moved back, and no order of writes on two servers leads in a circle.

The shard that a queue was moved to has the counterpart, `SHARD UNTIL SHARD UNTIL …`: where guards, ledgers and locks of
the time before are looked for, and until when (epoch seconds).
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from kiqbridge.errors import PayloadError
from kiqbridge.wire.names import text_of

_KEPT: Final = 10_000
"""Names whose shard is kept: queue names may come from users' data."""


LOOK_BACK_S: Final = 39 * 86_400
"""How long the shard that held a queue before is asked for what it knows of it: longer than the longest guard."""


class Route(NamedTuple):
    """A queue was moved.

    Attributes:
        shard: where to.
        number: the higher, the later.
    """

    shard: str
    number: int

    def to_text(self) -> str:
        """As it is kept."""
        return f"{self.shard} {self.number}"

    @classmethod
    def from_text(cls, text: bytes) -> "Route":
        """The counterpart of `to_text`; without a number it is 1."""
        shard, _, number = text_of(text).partition(" ")
        return cls(shard, int(number) if number.isdecimal() else 1)


def former_of(text: bytes) -> dict[str, int]:
    """The shards that held a queue before → until when they are asked, of the text that says so."""
    words = text_of(text).split(" ")
    return {
        shard: int(until)
        for shard, until in zip(words[::2], words[1::2], strict=False)
        if shard and until.isdecimal()
    }


def text_of_former(former: Mapping[str, int]) -> str:
    """The counterpart of `former_of`."""
    return " ".join(f"{shard} {until}" for shard, until in former.items())


class Routes:
    """The shards with their globs, in their order.

    Args:
        globs: name of a shard → globs of the queues on it; case matters, as in the names of queues.
    """

    def __init__(self, globs: Mapping[str, Sequence[str]]) -> None:
        self._globs = {name: tuple(patterns) for name, patterns in globs.items()}
        self._known: dict[str, str | None] = {}

    def __repr__(self) -> str:
        return f"Routes({self._globs})"

    @property
    def shards(self) -> tuple[str, ...]:
        """Names of the shards."""
        return tuple(self._globs)

    def find(self, queue: str) -> str | None:
        """The shard of a queue; None: no glob matches its name."""
        try:
            return self._known[queue]
        except KeyError:
            pass
        found = next(
            (
                name
                for name, patterns in self._globs.items()
                if any(fnmatchcase(queue, pattern) for pattern in patterns)
            ),
            None,
        )
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[queue] = found
        return found

    def shard_of(self, queue: str) -> str:
        """The shard of a queue.

        Raises:
            PayloadError: no glob matches its name.
        """
        found = self.find(queue)
        if found is None:
            raise PayloadError(
                f"queue: {queue!r:.100} belongs to no shard ({', '.join(self._globs)}): no glob of theirs matches it. "
                "Correct the queue, or add it, or '*', to queues of a shard (KIQBRIDGE_SHARDS)"
            )
        return found
