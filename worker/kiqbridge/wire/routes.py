"""On which shard a queue lies: the first whose globs match its name. Pure."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from kiqbridge.errors import PayloadError

_KEPT: Final = 10_000
"""Names whose shard is kept: queue names may come from users' data."""


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
