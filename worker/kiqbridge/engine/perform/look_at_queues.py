"""What a process that listens asks of its queues: whether there are jobs to claim, and to be notified of changes.

A look is one `EXISTS` of all queues and of the set of paused ones, on a tracked connection: 0 means that there is
nothing, and that any change from then on is reported. If something is paused, or claims brought nothing though
there were jobs, it looks closely: the queues that are not paused, and the set itself.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.store.wake_connection import News, WakeConnection
from kiqbridge.wire.names import bytes_of, text_of

if TYPE_CHECKING:
    from kiqbridge.store.round_trip import Command
    from kiqbridge.wire.keys import Keys

FUTILE_CLAIMS: Final = 3
"""After so many claims in a row that brought nothing, pause before the next."""


class LookAtQueues:
    """What one process knows of its queues between two looks.

    Args:
        connection: where it waits for changes.
        queues: that are served.
        keys: the namespace.
    """

    def __init__(self, connection: WakeConnection, queues: Sequence[str], keys: "Keys") -> None:
        self._connection = connection
        self._keys = keys
        self._queues = {name: keys.queue(name) for name in queues}
        self._queue_keys = frozenset(map(raw_name, self._queues.values()))
        self._paused_key = bytes_of(keys.paused)
        self._paused: set[str] | None = None
        self._futile = 0

    @property
    def is_close(self) -> bool:
        """Whether the next look will be a close one."""
        return bool(self._futile or self._paused)

    @property
    def pause_s(self) -> float:
        """Seconds to wait before a claim, since the last ones brought nothing."""
        over = self._futile - FUTILE_CLAIMS
        return 0.001 * 2 ** min(over, 8) if over > 0 else 0.0

    def forget(self) -> None:
        """The connection is gone: what was paused may have changed."""
        self._paused = None

    def claimed(self, *, found: bool) -> None:
        """A claim has brought jobs, or nothing."""
        self._futile = 0 if found else self._futile + 1

    def leads_to_claim(self, news: News) -> bool:
        """Note a change; whether it leads to a claim at once, without a look before.

        So whoever got the last job takes the news for a job as well.
        """
        is_plain = self._paused is not None and not self.is_close
        if is_plain and not news.keys.isdisjoint(self._queue_keys):
            return True
        if self._paused_key in news.keys:
            self._paused = None
        return False

    def look(self, *others: str) -> bool:
        """Whether there are jobs in queues that are not paused, or one of these other keys; all are tracked then.

        Raises:
            RedisError, OSError: not known.
        """
        if not self.is_close:
            keys = [self._keys.paused, *self._queues.values(), *others]
            count = _number(self._connection.ask_tracked(("EXISTS", *keys))[0])
            # What was reported until now came before the reply, and is seen in it.
            self._connection.forget_news()
            if not count:
                self._paused = set()
                return False
            if self._paused is not None:
                return True
        return self._look_closely()

    def _look_closely(self) -> bool:
        names = self._paused or set()
        while True:
            served = [key for name, key in self._queues.items() if name not in names]
            # With the set each time: the news of a change that came between two looks is passed over.
            exists: list[Command] = [("EXISTS", *served)] if served else []
            paused, *found = self._connection.ask_tracked(("SMEMBERS", self._keys.paused), *exists)
            if isinstance(paused, Exception):
                raise paused
            seen, names = names, {text_of(name) for name in paused}
            self._paused = names
            count = _number(found[0]) if found else 0
            if seen == names or not (seen or count):
                if not count:
                    self._futile = 0
                return bool(count)


def raw_name(name: str) -> bytes:
    """The bytes of a queue's name or key."""
    try:
        return bytes_of(name)
    except UnicodeEncodeError:  # no name that Redis can have: its claim reports it
        return name.encode("utf-8", "backslashreplace")


def _number(reply: Any) -> int:
    if isinstance(reply, Exception):
        raise reply
    return int(reply)
