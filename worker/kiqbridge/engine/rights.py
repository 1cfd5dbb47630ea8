"""Whether the server allows this worker all that it needs: tried at the start, and again while it does not.

What is refused later (a right that is taken away) is reported by the threads that need it; then all is tried here, too,
since the answer to a script does not name the command, or the key, that was refused in it.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.role import Troubles
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.rights import missing_of, needed
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

TOLERATED: Final = frozenset(("blpop", "wait"))
"""What most workers do without, or later than else (docs/reference/security.md): it is logged, and the worker is ready."""

_NAME: Final = "what this worker may do"


@dataclass(eq=False, repr=False)
class Rights:
    """What this worker may do on its server.

    Args:
        pool: how it is reached.
        keys: the namespace.
        troubles: gets what is missing.
        refused: what the threads of the process report; while there is something, it is tried again.
    """

    pool: RedisPool
    keys: Keys
    troubles: Troubles
    refused: Callable[[], Iterable[str]] = tuple

    def __post_init__(self) -> None:
        self._reported = ""

    def look(self) -> None:
        """Try all of it, in a few milliseconds; log what is missing, once, and what that means."""
        try:
            connection = self.pool.raw_connection(protocol=2)
            try:
                connection.connect()  # type: ignore[no-untyped-call]
                missing = missing_of(connection, needed("worker", self.keys))
            finally:
                connection.disconnect()  # type: ignore[no-untyped-call]
        except (redis.exceptions.RedisError, OSError) as error:
            logger.debug("what this user may do is not known: %s", type(error).__name__)
            return
        if not missing:
            if self._reported:
                logger.warning("Redis refuses nothing to this worker any more")
            self._reported = ""
            self.troubles.clear(_NAME)
            return
        lacks = [name.upper() for name in (*missing.commands, *missing.unknown)]
        if missing.keys:
            lacks.append(f"the keys {', '.join(missing.keys)}")
        text = (
            f"Redis at {self.pool.address} refuses this worker {', '.join(lacks)}, which it needs; "
            f"{missing.advice(self.pool.user)} (docs/reference/security.md)"
        )
        if text != self._reported:
            self._reported = text
            logger.warning("%s; it does what it may, and tries again", text)
        if missing.keys or not {*missing.commands, *missing.unknown} <= TOLERATED:
            self.troubles.set(_NAME, text)
        else:
            self.troubles.clear(_NAME)

    def look_again(self) -> None:
        """Look at the rights again, if one was missing, or if Redis refuses something now."""
        if self._reported or any(self.refused()):
            self.look()
